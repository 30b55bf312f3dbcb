/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of features that some devices lack: a log of messages,
 * functions that hosts and devices share. They answer as a real driver does for a device without
 * them.
 */
#include <stdio.h>
#include <string.h>

#include "object/context.h"
#include "code/module.h"
#include "core/process.h"
#include "object/refuse.h"

/* ---- in libraries ---- */

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
