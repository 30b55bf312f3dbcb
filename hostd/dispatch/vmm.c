/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"

struct sess_chunk {
	struct sess_obj obj;
	struct space_chunk *chunk;
};

static void chunk_fini(struct session *s, struct sess_obj *o)
{
	struct sess_chunk *c = container_of(o, struct sess_chunk, obj);

	if (c->chunk) {
		space_chunk_drop_handle(s->space, c->chunk, c->obj.handle);
		space_chunk_put(s->space, c->chunk);
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

static enum dev_memory memory_of(const struct chunk_create_cmd *cmd)
{
	return cmd->in_host_memory ? DEV_MEMORY_HOST
	       : cmd->compress     ? DEV_MEMORY_COMPRESSIBLE
				   : DEV_MEMORY_DEVICE;
}

int handle_chunk_create(struct sess_lane *sl, const struct chunk_create_args *a,
			struct chunk_create_rep *rep)
{
	struct session *s = sl->s;
	struct sess_chunk *c;

	if (a->cmd->in_host_memory > 1 || a->cmd->compress > 1) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	c = obj_new(HANDLE_CHUNK, a->cmd->chunk, sizeof(*c), NULL, chunk_fini);
	if (!c) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	rep->res.result =
		space_chunk_new(s->space, a->cmd->size, memory_of(a->cmd), &c->chunk);
	if (rep->res.result == CUDA_ERROR_OUT_OF_MEMORY && pools_reclaim(s->pools))
		rep->res.result = space_chunk_new(s->space, a->cmd->size,
						  memory_of(a->cmd), &c->chunk);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(s, &c->obj);
		return 0;
	}
	rep->id = space_chunk_set_handle(s->space, c->chunk, a->cmd->chunk);
	rep->compressible = space_chunk_compressible(c->chunk);
	return publish(sl, &c->obj, &rep->res.result);
}

int handle_chunk_release(struct sess_lane *sl, const struct chunk_release_args *a,
			 struct chunk_release_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_CHUNK, a->cmd->chunk);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	obj_put(sl->s, o);
	return 0;
}

int handle_chunk_at(struct sess_lane *sl, const struct chunk_at_args *a,
		    struct chunk_at_rep *rep)
{
	enum dev_memory memory = DEV_MEMORY_DEVICE;

	rep->res.result = space_handle_at(sl->s->space, a->cmd->addr, &rep->chunk,
					  &rep->id, &memory);
	rep->in_host_memory = memory == DEV_MEMORY_HOST;
	rep->compressible = memory == DEV_MEMORY_COMPRESSIBLE;
	return 0;
}

int handle_chunk_import(struct sess_lane *sl, const struct chunk_import_args *a,
			struct chunk_import_rep *rep)
{
	struct session *s = sl->s;
	struct sess_chunk *c =
		obj_new(HANDLE_CHUNK, a->cmd->chunk, sizeof(*c), NULL, chunk_fini);

	if (!c) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	c->chunk = space_chunk_get(s->space, a->cmd->id, a->cmd->chunk);
	if (!c->chunk) {
		obj_put(s, &c->obj);
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	return publish(sl, &c->obj, &rep->res.result);
}

int handle_chunk_export(struct sess_lane *sl, const struct chunk_export_args *a,
			struct chunk_export_rep *rep)
{
	struct sess_chunk *c = sess_get(sl, HANDLE_CHUNK, a->cmd->chunk);
	uint8_t name[sizeof(rep->name)] = {0};

	rep->res.result = c ? space_chunk_export(sl->s->space, c->chunk, name)
			    : CUDA_ERROR_INVALID_VALUE;
	memcpy(rep->name, name, sizeof(name));
	return 0;
}

int handle_chunk_open(struct sess_lane *sl, const struct chunk_open_args *a,
		      struct chunk_open_rep *rep)
{
	struct session *s = sl->s;
	struct sess_chunk *c =
		obj_new(HANDLE_CHUNK, a->cmd->chunk, sizeof(*c), NULL, chunk_fini);
	uint8_t name[sizeof(a->cmd->name)];

	if (!c) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	memcpy(name, a->cmd->name, sizeof(name));
	rep->res.result = space_chunk_open(s->space, name, &c->chunk);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(s, &c->obj);
		return 0;
	}
	rep->id = space_chunk_set_handle(s->space, c->chunk, a->cmd->chunk);
	return publish(sl, &c->obj, &rep->res.result);
}

int handle_cuMemMap(struct sess_lane *sl, const struct cuMemMap_args *a,
		    struct cuMemMap_rep *rep)
{
	struct sess_chunk *c = sess_get(sl, HANDLE_CHUNK, a->cmd->handle);

	if (!c || a->cmd->flags)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	else if (a->cmd->offset || a->cmd->size != space_chunk_size(c->chunk))
		rep->res.result = CUDA_ERROR_NOT_SUPPORTED; /* as the real driver */
	else
		rep->res.result =
			space_map(sl->s->space, a->cmd->ptr, a->cmd->size, c->chunk);
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
