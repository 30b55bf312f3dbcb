/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory graphs have. */
#include "graph/mem.h"
#include "object/device.h"

/* Nothing is kept that no graph names. */
CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r == CUDA_SUCCESS)
		graph_mem_flush();
	return r;
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr,
					      void *value)
{
	CUresult r = device_check(dev);
	uint64_t v;

	if (r)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	graph_scope();
	r = graph_mem_attribute(attr, &v);
	if (r == CUDA_SUCCESS)
		*(cuuint64_t *)value = v;
	return r;
}

/* The marks can be put back, nothing else. */
CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr,
					      void *value)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!value || *(cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	graph_scope();
	return graph_mem_reset_high(attr);
}
