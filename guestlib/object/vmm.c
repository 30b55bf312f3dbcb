// SPDX-License-Identifier: Apache-2.0
/*
 * Virtual memory management: the part about physical memory. A handle's properties and
 * its count of references are kept here; the worker has the chunk.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "core/process.h"
#include "object/refuse.h"
#include "object/vmm.h"

static CUresult check_prop(const CUmemAllocationProp *prop, bool *ret_host)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	/* A machine without fabric channels answers so, whatever its device can do. */
	if (prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_PERMITTED;
	if ((unsigned)prop->requestedHandleTypes &
	    ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE; /* not of this operating system */
	switch ((int)prop->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*ret_host = false;
		return guest_has_device(prop->location.id) ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		*ret_host = true;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity,
					       const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option)
{
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!granularity || !prop ||
	    (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = guest_process.device.chunk_bytes; /* wherever it lies */
	return CUDA_SUCCESS;
}

static void set_compression(CUmemAllocationProp *prop, bool compressible)
{
	prop->allocFlags.compressionType = compressible ? CU_MEM_ALLOCATION_COMP_GENERIC
							: CU_MEM_ALLOCATION_COMP_NONE;
}

/* The properties become those of what was made. */
static CUresult create(struct guest_thread *t, uint64_t h, size_t size, bool host,
		       struct guest_chunk *c)
{
	struct chunk_create_cmd *cmd = begin_chunk_create(t);
	const struct chunk_create_rep *rep;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->chunk = h;
	cmd->size = size;
	cmd->in_host_memory = host;
	cmd->compress =
		c->prop.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_GENERIC;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	c->id = rep->id;
	set_compression(&c->prop, rep->compressible);
	return CUDA_SUCCESS;
}

static CUresult chunk_new(const CUmemAllocationProp *prop, struct guest_chunk **ret_c,
			  uint64_t *ret_handle)
{
	struct guest_chunk *c = calloc(1, sizeof(*c));

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->refs = 1;
	c->prop = *prop;
	*ret_handle = guest_handle_new(HANDLE_CHUNK, c);
	if (!*ret_handle) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_c = c;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			     const CUmemAllocationProp *prop, unsigned long long flags)
{
	_cleanup_free_ struct guest_chunk *c = NULL;
	struct guest_thread *t;
	uint64_t h;
	bool host;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!handle || flags || !size || size % guest_process.device.chunk_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_prop(prop, &host);
	/* What asks for that wants the CPU's access too (NCCL, which has another way). */
	if (r == CUDA_SUCCESS && host && prop->requestedHandleTypes)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r)
		return r;
	r = chunk_new(prop, &c, &h);
	if (r)
		return r;
	r = create(t, h, size, host, c);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	steal(c);
	*handle = h;
	return CUDA_SUCCESS;
}

CUresult vmm_import(struct guest_thread *t, uint64_t id, const CUmemAllocationProp *prop,
		    CUmemGenericAllocationHandle *ret_handle)
{
	_cleanup_free_ struct guest_chunk *c = NULL;
	struct chunk_import_cmd *cmd;
	struct lane_reply reply;
	uint64_t h;
	CUresult r = chunk_new(prop, &c, &h);

	if (r)
		return r;
	c->id = id;
	cmd = begin_chunk_import(t);
	if (!cmd) {
		guest_handle_free(h);
		return guest_lost(t);
	}
	cmd->id = id;
	cmd->chunk = h;
	r = guest_call(t, sizeof(struct chunk_import_rep), &reply);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	steal(c);
	*ret_handle = h;
	return CUDA_SUCCESS;
}

CUresult vmm_export(struct guest_thread *t, CUmemGenericAllocationHandle handle,
		    uint64_t ret_name[2])
{
	struct chunk_export_cmd *cmd = begin_chunk_export(t);
	const struct chunk_export_rep *rep;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->chunk = handle;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	memcpy(ret_name, rep->name, sizeof(rep->name));
	return CUDA_SUCCESS;
}

static CUresult open_name(struct guest_thread *t, const uint64_t name[2], uint64_t h,
			  uint64_t *ret_id)
{
	struct chunk_open_cmd *cmd = begin_chunk_open(t);
	const struct chunk_open_rep *rep;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->chunk = h;
	memcpy(cmd->name, name, sizeof(cmd->name));
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	*ret_id = rep->id;
	return CUDA_SUCCESS;
}

CUresult vmm_open(struct guest_thread *t, const uint64_t name[2],
		  const CUmemAllocationProp *prop,
		  CUmemGenericAllocationHandle *ret_handle)
{
	_cleanup_free_ struct guest_chunk *c = NULL;
	uint64_t h;
	bool host;
	CUresult r = check_prop(prop, &host);

	if (r == CUDA_SUCCESS)
		r = chunk_new(prop, &c, &h);
	if (r)
		return r;
	r = open_name(t, name, h, &c->id);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	steal(c);
	*ret_handle = h;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct chunk_release_cmd *cmd;
	struct lane_reply reply;
	struct guest_thread *t;
	struct guest_chunk *c;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	c = guest_object(handle, HANDLE_CHUNK);
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_fetch_sub(&c->refs, 1) > 1)
		return CUDA_SUCCESS;
	cmd = begin_chunk_release(t);
	if (!cmd)
		return guest_lost(t);
	cmd->chunk = handle;
	r = guest_call(t, sizeof(struct chunk_release_rep), &reply);
	guest_handle_free(handle);
	free(c);
	return r;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
					     void *addr)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	const struct chunk_at_rep *rep;
	struct chunk_at_cmd *cmd;
	struct lane_reply reply;
	struct guest_thread *t;
	struct guest_chunk *c;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!handle || !guest_is_device((uintptr_t)addr))
		return CUDA_ERROR_INVALID_VALUE;
	cmd = begin_chunk_at(t);
	if (!cmd)
		return guest_lost(t);
	cmd->addr = (uintptr_t)addr;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	c = guest_object(rep->chunk, HANDLE_CHUNK);
	if (!c) { /* released, and only its mapping keeps the memory */
		prop.location.type = rep->in_host_memory ? CU_MEM_LOCATION_TYPE_HOST_NUMA
							 : CU_MEM_LOCATION_TYPE_DEVICE;
		set_compression(&prop, rep->compressible);
		return vmm_import(t, rep->id, &prop, handle);
	}
	atomic_fetch_add(&c->refs, 1);
	*handle = rep->chunk;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	struct guest_chunk *c;
	CUresult r = guest_gate();

	if (r)
		return r;
	c = guest_object(handle, HANDLE_CHUNK);
	if (!prop || !c)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = c->prop;
	return CUDA_SUCCESS;
}

/* ---- access ---- */

static CUresult location_is_host(const CUmemLocation *l, bool *ret_host)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = *l};

	return check_prop(&prop, ret_host);
}

static CUresult set_access(struct guest_thread *t, CUdeviceptr ptr, size_t size,
			   const CUmemAccessDesc *desc)
{
	struct mem_set_access_cmd *cmd;
	struct lane_reply reply;
	bool host;
	CUresult r = location_is_host(&desc->location, &host);

	if (r)
		return r;
	cmd = begin_mem_set_access(t);
	if (!cmd)
		return guest_lost(t);
	cmd->ptr = ptr;
	cmd->size = size;
	cmd->in_host = host;
	cmd->access = (uint32_t)desc->flags;
	return guest_call(t, sizeof(struct mem_set_access_rep), &reply);
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
				size_t count)
{
	struct guest_thread *t;
	size_t i;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!desc || !count || !size)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = set_access(t, ptr, size, &desc[i]);
	return r;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
				CUdeviceptr ptr)
{
	const struct mem_get_access_rep *rep;
	struct mem_get_access_cmd *cmd;
	struct lane_reply reply;
	struct guest_thread *t;
	bool host;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	r = location_is_host(location, &host);
	if (r)
		return r;
	cmd = begin_mem_get_access(t);
	if (!cmd)
		return guest_lost(t);
	cmd->ptr = ptr;
	cmd->in_host = host;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	*flags = rep->access;
	return CUDA_SUCCESS;
}
