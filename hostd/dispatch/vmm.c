/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"

struct sess_mem {
	struct sess_obj obj;
	struct backing *mem;
};

static void mem_fini(struct session *s, struct sess_obj *o)
{
	struct sess_mem *c = container_of(o, struct sess_mem, obj);

	if (c->mem) {
		backing_drop_handle(s->space, c->mem, c->obj.handle);
		backing_put(s->space, c->mem);
	}
}

int handle_cuMemAddressReserve(struct sess_lane *sl,
			       const struct cuMemAddressReserve_args *a,
			       struct cuMemAddressReserve_rep *rep)
{
	CUdeviceptr addr = 0;

	rep->res.result = space_reserve(sl->s->space, a->cmd->size, a->cmd->alignment,
					a->cmd->addr, &addr);
	rep->ptr = addr;
	return 0;
}

int handle_cuMemAddressFree(struct sess_lane *sl, const struct cuMemAddressFree_args *a,
			    struct cuMemAddressFree_rep *rep)
{
	rep->res.result = space_unreserve(sl->s->space, a->cmd->ptr, a->cmd->size);
	return 0;
}

static enum dev_memory memory_of(const struct mem_create_cmd *cmd)
{
	return cmd->in_host_memory ? DEV_MEMORY_HOST
	       : cmd->compress     ? DEV_MEMORY_COMPRESSIBLE
				   : DEV_MEMORY_DEVICE;
}

int handle_mem_create(struct sess_lane *sl, const struct mem_create_args *a,
		      struct mem_create_rep *rep)
{
	struct session *s = sl->s;
	struct sess_mem *c;

	if (a->cmd->in_host_memory > 1 || a->cmd->compress > 1) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	c = obj_new(HANDLE_MEM, a->cmd->mem, sizeof(*c), NULL, mem_fini);
	if (!c) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	rep->res.result = backing_new(s->space, a->cmd->size, memory_of(a->cmd), &c->mem);
	if (rep->res.result == CUDA_ERROR_OUT_OF_MEMORY && pools_reclaim(s->pools))
		rep->res.result =
			backing_new(s->space, a->cmd->size, memory_of(a->cmd), &c->mem);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(s, &c->obj);
		return 0;
	}
	rep->id = backing_set_handle(s->space, c->mem, a->cmd->mem);
	rep->compressible = backing_compressible(c->mem);
	return publish(sl, &c->obj, &rep->res.result);
}

int handle_mem_release(struct sess_lane *sl, const struct mem_release_args *a,
		       struct mem_release_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_MEM, a->cmd->mem);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	obj_put(sl->s, o);
	return 0;
}

int handle_mem_at(struct sess_lane *sl, const struct mem_at_args *a,
		  struct mem_at_rep *rep)
{
	enum dev_memory memory = DEV_MEMORY_DEVICE;

	rep->res.result =
		space_handle_at(sl->s->space, a->cmd->addr, &rep->mem, &rep->id, &memory);
	rep->in_host_memory = memory == DEV_MEMORY_HOST;
	rep->compressible = memory == DEV_MEMORY_COMPRESSIBLE;
	return 0;
}

int handle_mem_import(struct sess_lane *sl, const struct mem_import_args *a,
		      struct mem_import_rep *rep)
{
	struct session *s = sl->s;
	struct sess_mem *c = obj_new(HANDLE_MEM, a->cmd->mem, sizeof(*c), NULL, mem_fini);

	if (!c) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	c->mem = backing_get(s->space, a->cmd->id, a->cmd->mem);
	if (!c->mem) {
		obj_put(s, &c->obj);
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	return publish(sl, &c->obj, &rep->res.result);
}

int handle_mem_export(struct sess_lane *sl, const struct mem_export_args *a,
		      struct mem_export_rep *rep)
{
	struct sess_mem *c = sess_get(sl, HANDLE_MEM, a->cmd->mem);
	uint8_t name[sizeof(rep->name)] = {0};

	rep->res.result =
		c ? backing_export(sl->s->space, c->mem, name) : CUDA_ERROR_INVALID_VALUE;
	memcpy(rep->name, name, sizeof(name));
	return 0;
}

int handle_mem_open(struct sess_lane *sl, const struct mem_open_args *a,
		    struct mem_open_rep *rep)
{
	struct session *s = sl->s;
	struct sess_mem *c = obj_new(HANDLE_MEM, a->cmd->mem, sizeof(*c), NULL, mem_fini);
	uint8_t name[sizeof(a->cmd->name)];

	if (!c) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	memcpy(name, a->cmd->name, sizeof(name));
	rep->res.result = backing_open(s->space, name, &c->mem);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(s, &c->obj);
		return 0;
	}
	rep->id = backing_set_handle(s->space, c->mem, a->cmd->mem);
	return publish(sl, &c->obj, &rep->res.result);
}

int handle_cuMemMap(struct sess_lane *sl, const struct cuMemMap_args *a,
		    struct cuMemMap_rep *rep)
{
	struct sess_mem *c = sess_get(sl, HANDLE_MEM, a->cmd->handle);

	if (!c || a->cmd->flags)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	else if (a->cmd->offset || a->cmd->size != backing_size(c->mem))
		rep->res.result = CUDA_ERROR_NOT_SUPPORTED; /* as the real driver */
	else
		rep->res.result =
			space_map(sl->s->space, a->cmd->ptr, a->cmd->size, c->mem);
	return 0;
}

int handle_cuMemUnmap(struct sess_lane *sl, const struct cuMemUnmap_args *a,
		      struct cuMemUnmap_rep *rep)
{
	rep->res.result = space_unmap(sl->s->space, a->cmd->ptr, a->cmd->size);
	return 0;
}

static bool is_access(uint32_t access)
{
	return access == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
	       access == CU_MEM_ACCESS_FLAGS_PROT_READ ||
	       access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

int handle_mem_set_access(struct sess_lane *sl, const struct mem_set_access_args *a,
			  struct mem_set_access_rep *rep)
{
	if (!is_access(a->cmd->access) || a->cmd->in_host > 1)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	else if (a->cmd->in_host) /* the guest's processor cannot reach it */
		rep->res.result = a->cmd->access == CU_MEM_ACCESS_FLAGS_PROT_NONE
					  ? CUDA_SUCCESS
					  : CUDA_ERROR_NOT_SUPPORTED;
	else
		rep->res.result =
			space_set_access(sl->s->space, a->cmd->ptr, a->cmd->size,
					 (CUmemAccess_flags)a->cmd->access);
	return 0;
}

int handle_mem_get_access(struct sess_lane *sl, const struct mem_get_access_args *a,
			  struct mem_get_access_rep *rep)
{
	CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;

	rep->res.result = space_get_access(sl->s->space, a->cmd->ptr, &access);
	rep->access = a->cmd->in_host ? CU_MEM_ACCESS_FLAGS_PROT_NONE : access;
	return 0;
}
