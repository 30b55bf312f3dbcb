/* SPDX-License-Identifier: Apache-2.0 */
/* Profilers and core dumps: there is no tool, so starting and stopping one is easy. */
#include <stdio.h>
#include <string.h>

#include "object/context.h"
#include "core/process.h"

CUresult CUDAAPI cuProfilerInitialize(const char *config, const char *output,
				      CUoutput_mode mode)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI cuProfilerStart(void)
{
	return ctx_check_current();
}

CUresult CUDAAPI cuProfilerStop(void)
{
	return ctx_check_current();
}

/* Core dumps are never written; that is what is said of them. */
static CUresult get_dump_attribute(CUcoredumpSettings attr, void *value, size_t *size)
{
	if (!value || !size || (int)attr <= 0 || attr >= CU_COREDUMP_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	memset(value, 0, *size);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCoredumpGetAttribute(CUcoredumpSettings attr, void *value,
					size_t *size)
{
	CUresult r = ctx_check_current();

	return r ? r : get_dump_attribute(attr, value, size);
}

CUresult CUDAAPI cuCoredumpGetAttributeGlobal(CUcoredumpSettings attr, void *value,
					      size_t *size)
{
	CUresult r = guest_status();

	return r ? r : get_dump_attribute(attr, value, size);
}

CUresult CUDAAPI cuCoredumpSetAttribute(CUcoredumpSettings attr, void *value,
					size_t *size)
{
	CUresult r = ctx_check_current();

	return r ? r : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI cuCoredumpSetAttributeGlobal(CUcoredumpSettings attr, void *value,
					      size_t *size)
{
	CUresult r = guest_status();

	return r ? r : CUDA_ERROR_NOT_SUPPORTED;
}
