/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: physical memory, and who has access to ranges. */
#include "calls.h"
#include "core/process.h"
#include "object/vmm.h"

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity,
					       const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!granularity || !prop ||
	    (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = guest_process.device.granularity; /* wherever it lies */
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct guest_thread *t;
	bool host;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!handle || flags || !size || size % guest_process.device.granularity)
		return CUDA_ERROR_INVALID_VALUE;
	r = vmm_check_prop(prop, &host);
	/* Programs that share host memory by handle want the CPU's access too (NCCL,
	 * which has another way). */
	if (r == CUDA_SUCCESS && host && prop->requestedHandleTypes)
		r = CUDA_ERROR_NOT_SUPPORTED;
	return r ? r : vmm_create(t, size, host, prop, handle);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	return r ? r : vmm_release(t, handle);
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
					     void *addr)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!handle || !guest_is_device((uintptr_t)addr))
		return CUDA_ERROR_INVALID_VALUE;
	return vmm_retain_at(t, (uintptr_t)addr, handle);
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	struct guest_mem *c;
	CUresult r = guest_status();

	if (r)
		return r;
	c = guest_object(handle, HANDLE_MEM);
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

	return vmm_check_prop(&prop, ret_host);
}

static CUresult set_access(struct guest_thread *t, CUdeviceptr ptr, size_t size,
			   const CUmemAccessDesc *desc)
{
	bool host;
	CUresult r = location_is_host(&desc->location, &host);

	if (r)
		return r;
	return call_mem_set_access(t, ptr, size, host, (uint32_t)desc->flags);
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
	struct mem_get_access_rep rep;
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
	r = call_mem_get_access(t, ptr, host, &rep);
	if (r)
		return r;
	*flags = rep.access;
	return CUDA_SUCCESS;
}
