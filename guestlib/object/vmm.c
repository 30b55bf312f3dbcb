/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: the part about physical memory. A handle's properties and
 * its count of references are kept here; the worker has the allocation.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "core/process.h"
#include "object/vmm.h"

CUresult vmm_check_prop(const CUmemAllocationProp *prop, bool *ret_host)
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

static void set_compression(CUmemAllocationProp *prop, bool compressible)
{
	prop->allocFlags.compressionType = compressible ? CU_MEM_ALLOCATION_COMP_GENERIC
							: CU_MEM_ALLOCATION_COMP_NONE;
}

/* The properties become those of what was made. */
static CUresult create(struct guest_thread *t, uint64_t h, size_t size, bool host,
		       struct guest_mem *c)
{
	struct mem_create_rep rep;
	CUresult r = call_mem_create(t, h, size, host,
				     c->prop.allocFlags.compressionType ==
					     CU_MEM_ALLOCATION_COMP_GENERIC,
				     &rep);

	if (r)
		return r;
	c->id = rep.id;
	set_compression(&c->prop, rep.compressible);
	return CUDA_SUCCESS;
}

static CUresult mem_new(const CUmemAllocationProp *prop, struct guest_mem **ret_c,
			uint64_t *ret_handle)
{
	struct guest_mem *c = calloc(1, sizeof(*c));

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->refs = 1;
	c->prop = *prop;
	*ret_handle = guest_handle_new(HANDLE_MEM, c);
	if (!*ret_handle) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_c = c;
	return CUDA_SUCCESS;
}

CUresult vmm_create(struct guest_thread *t, size_t size, bool host,
		    const CUmemAllocationProp *prop,
		    CUmemGenericAllocationHandle *ret_handle)
{
	_cleanup_free_ struct guest_mem *c = NULL;
	uint64_t h;
	CUresult r = mem_new(prop, &c, &h);

	if (r)
		return r;
	r = create(t, h, size, host, c);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	steal(c);
	*ret_handle = h;
	return CUDA_SUCCESS;
}

CUresult vmm_import(struct guest_thread *t, uint64_t id, const CUmemAllocationProp *prop,
		    CUmemGenericAllocationHandle *ret_handle)
{
	_cleanup_free_ struct guest_mem *c = NULL;
	uint64_t h;
	CUresult r = mem_new(prop, &c, &h);

	if (r)
		return r;
	c->id = id;
	r = call_mem_import(t, id, h);
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
	struct mem_export_rep rep;
	CUresult r = call_mem_export(t, handle, &rep);

	if (r)
		return r;
	memcpy(ret_name, rep.name, sizeof(rep.name));
	return CUDA_SUCCESS;
}

static CUresult open_name(struct guest_thread *t, const uint64_t name[2], uint64_t h,
			  uint64_t *ret_id)
{
	struct mem_open_rep rep;
	CUresult r = call_mem_open(t, h, name, &rep);

	if (r)
		return r;
	*ret_id = rep.id;
	return CUDA_SUCCESS;
}

CUresult vmm_open(struct guest_thread *t, const uint64_t name[2],
		  const CUmemAllocationProp *prop,
		  CUmemGenericAllocationHandle *ret_handle)
{
	_cleanup_free_ struct guest_mem *c = NULL;
	uint64_t h;
	bool host;
	CUresult r = vmm_check_prop(prop, &host);

	if (r == CUDA_SUCCESS)
		r = mem_new(prop, &c, &h);
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

CUresult vmm_release(struct guest_thread *t, CUmemGenericAllocationHandle handle)
{
	struct guest_mem *c = guest_object(handle, HANDLE_MEM);
	CUresult r;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_fetch_sub(&c->refs, 1) > 1)
		return CUDA_SUCCESS;
	r = call_mem_release(t, handle);
	guest_handle_free(handle);
	free(c);
	return r;
}

CUresult vmm_retain_at(struct guest_thread *t, uint64_t addr,
		       CUmemGenericAllocationHandle *ret_handle)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	struct mem_at_rep rep;
	struct guest_mem *c;
	CUresult r = call_mem_at(t, addr, &rep);

	if (r)
		return r;
	c = guest_object(rep.mem, HANDLE_MEM);
	if (!c) { /* released, and only its mapping keeps the memory */
		prop.location.type = rep.in_host_memory ? CU_MEM_LOCATION_TYPE_HOST_NUMA
							: CU_MEM_LOCATION_TYPE_DEVICE;
		set_compression(&prop, rep.compressible);
		return vmm_import(t, rep.id, &prop, ret_handle);
	}
	atomic_fetch_add(&c->refs, 1);
	*ret_handle = rep.mem;
	return CUDA_SUCCESS;
}
