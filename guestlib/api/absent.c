/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of features that some devices lack: managed memory, a log of messages, functions
 * that hosts and devices share. They answer as a real driver does for a device without them.
 */
#include <stdio.h>
#include <string.h>

#include "object/context.h"
#include "code/module.h"
#include "core/process.h"
#include "object/refuse.h"

/* ---- managed memory: no address is ever of it ---- */

static CUresult not_managed(void)
{
	CUresult r = ctx_check_current();

	return r ? r : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!dptr || !bytes ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	return guest_refuse(REFUSAL_FUNCTION, "cuMemAllocManaged");
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice,
			     CUdevice device)
{
	return not_managed();
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice,
				CUmemLocation location)
{
	return not_managed();
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t size,
					CUmem_range_attribute attribute, CUdeviceptr ptr,
					size_t count)
{
	return not_managed();
}

CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *sizes,
					 CUmem_range_attribute *attributes, size_t n,
					 CUdeviceptr ptr, size_t count)
{
	return not_managed();
}

static CUresult prefetch(CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream,
			 bool ptsz)
{
	return not_managed();
}

static CUresult prefetch_to(CUdeviceptr ptr, size_t count, CUmemLocation location,
			    unsigned flags, CUstream stream, bool ptsz)
{
	return not_managed();
}

static CUresult attach(CUstream stream, CUdeviceptr ptr, size_t length, unsigned flags,
		       bool ptsz)
{
	return not_managed();
}

static CUresult prefetch_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
			       CUmemLocation *locations, size_t *indices, size_t n,
			       unsigned long long flags, CUstream stream, bool ptsz)
{
	return not_managed();
}

static CUresult discard_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
			      unsigned long long flags, CUstream stream, bool ptsz)
{
	return not_managed();
}

GUEST_PAIR(cuMemPrefetchAsync, ptsz,
	   (CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream), prefetch,
	   ptr, count, device, stream)
GUEST_PAIR(cuMemPrefetchAsync_v2, ptsz,
	   (CUdeviceptr ptr, size_t count, CUmemLocation location, unsigned int flags,
	    CUstream stream),
	   prefetch_to, ptr, count, location, flags, stream)
GUEST_PAIR(cuStreamAttachMemAsync, ptsz,
	   (CUstream stream, CUdeviceptr ptr, size_t length, unsigned int flags), attach,
	   stream, ptr, length, flags)
GUEST_PAIR(cuMemPrefetchBatchAsync, ptsz,
	   (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
	    size_t *indices, size_t n, unsigned long long flags, CUstream stream),
	   prefetch_batch, ptrs, sizes, count, locations, indices, n, flags, stream)
GUEST_PAIR(cuMemDiscardBatchAsync, ptsz,
	   (CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags,
	    CUstream stream),
	   discard_batch, ptrs, sizes, count, flags, stream)
GUEST_PAIR(cuMemDiscardAndPrefetchBatchAsync, ptsz,
	   (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
	    size_t *indices, size_t n, unsigned long long flags, CUstream stream),
	   prefetch_batch, ptrs, sizes, count, locations, indices, n, flags, stream)

/* ---- in libraries ---- */

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				     const char *name)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return guest_object((uintptr_t)library, HANDLE_LIBRARY)
		       ? CUDA_ERROR_NOT_FOUND
		       : CUDA_ERROR_INVALID_HANDLE;
}

/* On a device without unified function pointers an H200 says so too. */
CUresult CUDAAPI cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library,
					     const char *symbol)
{
	CUresult r = guest_status();

	return r ? r : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the log: nothing is written to it ---- */

static int log_listener;

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback fn, void *data,
					CUlogsCallbackHandle *ret_handle)
{
	if (!fn || !ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_handle = (CUlogsCallbackHandle)(void *)&log_listener;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
	return (void *)handle == &log_listener ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuLogsCurrent(CUlogIterator *ret_iterator, unsigned int flags)
{
	if (!ret_iterator || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_iterator = 0;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsDumpToFile(CUlogIterator *iterator, const char *path,
				  unsigned int flags)
{
	FILE *f;

	if (!path || flags)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(path, "we");
	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	fclose(f);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
				    unsigned int flags)
{
	if (!buffer || !size || !*size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*buffer = '\0';
	*size = 0;
	return CUDA_SUCCESS;
}
