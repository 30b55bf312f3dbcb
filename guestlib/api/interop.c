/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources of OpenGL, EGL and VDPAU, memory and semaphores of other drivers. There are
 * none in the guest, so nothing can be registered or imported, and these answer as a
 * driver on a machine without a display does when it is given what it does not know.
 * (Given anything but NULL, a driver follows the pointer; here that is an invalid
 * handle.)
 */
#include <errno.h>
#include <fcntl.h>

#include "core/process.h"
#include "object/refuse.h"

/* No resource exists. */
static CUresult no_resource(void)
{
	CUresult r = guest_status();

	return r ? r : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
	return no_resource();
}

CUresult CUDAAPI cuGraphicsSubResourceGetMappedArray(CUarray *array,
						     CUgraphicsResource resource,
						     unsigned int index,
						     unsigned int level)
{
	return no_resource();
}

CUresult CUDAAPI cuGraphicsResourceGetMappedMipmappedArray(CUmipmappedArray *array,
							   CUgraphicsResource resource)
{
	return no_resource();
}

CUresult CUDAAPI cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *ptr, size_t *size,
						       CUgraphicsResource resource)
{
	return no_resource();
}

CUresult CUDAAPI cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource resource,
						  unsigned int flags)
{
	return no_resource();
}

CUresult CUDAAPI cuGraphicsResourceSetMapFlags(CUgraphicsResource resource,
					       unsigned int flags)
{
	return no_resource();
}

static CUresult map(unsigned count, CUgraphicsResource *resources, CUstream stream,
		    bool ptsz)
{
	CUresult r = guest_status();

	if (r)
		return r;
	return !count || !resources ? CUDA_ERROR_INVALID_VALUE
				    : CUDA_ERROR_INVALID_HANDLE;
}

GUEST_PAIR(cuGraphicsMapResources, ptsz,
	   (unsigned int count, CUgraphicsResource *resources, CUstream stream), map,
	   count, resources, stream)
GUEST_PAIR(cuGraphicsUnmapResources, ptsz,
	   (unsigned int count, CUgraphicsResource *resources, CUstream stream), map,
	   count, resources, stream)

/* ---- other drivers ---- */

/* Refuses an import: a descriptor that is not open is an unknown error, as with a real
 * driver. */
static CUresult import_fd(int fd, const char *what)
{
	if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
		return CUDA_ERROR_UNKNOWN;
	return (CUresult)guest_refuse(REFUSAL_FEATURE, what);
}

CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *memory,
					const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!memory || !desc || desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_INVALID_VALUE;
	return import_fd(desc->handle.fd, "cuImportExternalMemory: file");
}

CUresult CUDAAPI cuImportExternalSemaphore(
	CUexternalSemaphore *semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!semaphore || !desc ||
	    desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_INVALID_VALUE;
	return import_fd(desc->handle.fd, "cuImportExternalSemaphore: file");
}

/* Nothing was imported. */
static CUresult no_import(void)
{
	CUresult r = guest_status();

	return r ? r : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI
cuExternalMemoryGetMappedBuffer(CUdeviceptr *ptr, CUexternalMemory memory,
				const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	return no_import();
}

CUresult CUDAAPI cuExternalMemoryGetMappedMipmappedArray(
	CUmipmappedArray *array, CUexternalMemory memory,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	return no_import();
}

CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory memory)
{
	return no_import();
}

CUresult CUDAAPI cuDestroyExternalSemaphore(CUexternalSemaphore semaphore)
{
	return no_import();
}

static CUresult signal_all(const CUexternalSemaphore *semaphores,
			   const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
			   unsigned count, CUstream stream, bool ptsz)
{
	return no_import();
}

static CUresult wait_all(const CUexternalSemaphore *semaphores,
			 const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
			 unsigned count, CUstream stream, bool ptsz)
{
	return no_import();
}

GUEST_PAIR(cuSignalExternalSemaphoresAsync, ptsz,
	   (const CUexternalSemaphore *semaphores,
	    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count,
	    CUstream stream),
	   signal_all, semaphores, params, count, stream)
GUEST_PAIR(cuWaitExternalSemaphoresAsync, ptsz,
	   (const CUexternalSemaphore *semaphores,
	    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
	    CUstream stream),
	   wait_all, semaphores, params, count, stream)
