/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the device reaches: allocated here, or registered. */
#include <sys/mman.h>

#include "object/context.h"
#include "object/hostmem.h"
#include "object/refuse.h"
#include "core/thread.h"

#define ALLOC_FLAGS                                                                      \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                          \
	 CU_MEMHOSTALLOC_WRITECOMBINED)

#define REGISTER_FLAGS                                                                   \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                    \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t size, unsigned int flags)
{
	struct hostmem h = {.size = size, .flags = flags};
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!pp || size > SIZE_MAX - HOSTMEM_PAGE || (flags & ~(unsigned)ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	r = hostmem_alloc_here(t, &h);
	if (r == CUDA_SUCCESS)
		*pp = (void *)h.base;
	return r;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t size)
{
	return cuMemHostAlloc(pp, size, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!p)
		return CUDA_SUCCESS;
	r = guest_unsafe(t);
	return r ? r : hostmem_free(t, p);
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t size, unsigned int flags)
{
	struct hostmem h = {.base = (uintptr_t)p,
			    .host = (uintptr_t)p,
			    .size = size,
			    .flags = flags,
			    .registered = true};
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!p || !size || h.base + size < h.base || guest_is_device(h.base) ||
	    h.base + size > SIZE_MAX - HOSTMEM_PAGE ||
	    (flags & ~(unsigned)REGISTER_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	/* Fails where nothing is mapped, and does nothing else. */
	if (msync((void *)ALIGN_DOWN(h.base, HOSTMEM_PAGE), size + h.base % HOSTMEM_PAGE,
		  MS_ASYNC))
		return CUDA_ERROR_INVALID_VALUE;
	r = guest_unsafe(t);
	if (r)
		return r;
	h.ctx = t->wire_id;
	return hostmem_register(t, &h);
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	struct guest_thread *t;
	struct hostmem h;
	CUresult r = guest_enter(NEED_ANY, &t);

	if (r)
		return r;
	if (hostmem_find((uintptr_t)p, &h) && h.alias)
		return CUDA_ERROR_INVALID_VALUE;
	if (hostmem_take((uintptr_t)p, true, &h))
		return hostmem_unregister(t, &h);
	/* Not the beginning of a range, or no range at all. */
	return hostmem_find((uintptr_t)p, &h) ? CUDA_ERROR_INVALID_VALUE
					      : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* ---- questions ---- */

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!flags || !hostmem_find((uintptr_t)p, &h) || h.managed)
		return CUDA_ERROR_INVALID_VALUE;
	/* As the driver answers with unified addressing: all memory is mapped. */
	*flags = h.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	if (!(h.flags & CU_MEMHOSTALLOC_WRITECOMBINED))
		*flags &= ~(unsigned)CU_MEMHOSTALLOC_PORTABLE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p,
					      unsigned int flags)
{
	struct hostmem h;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!dptr || flags || !hostmem_find((uintptr_t)p, &h) || h.managed)
		return CUDA_ERROR_INVALID_VALUE;
	if (!h.dev)
		return guest_refuse(REFUSAL_FEATURE, "cuMemHostGetDevicePointer");
	*dptr = h.dev + ((uintptr_t)p - h.base);
	return CUDA_SUCCESS;
}
