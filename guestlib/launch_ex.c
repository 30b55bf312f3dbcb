// SPDX-License-Identifier: Apache-2.0
/* cuLaunchKernelEx: launches with attributes. */
#include "launch.h"

/*
 * What an attribute means for us. Hints (priority, access policy, memory
 * synchronisation domain, programmatic serialisation, which only allows an earlier start)
 * change no result and are accepted.
 */
static CUresult apply(const CUlaunchAttribute *a, struct launch *l)
{
	switch ((int)a->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		l->cooperative = a->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		l->cluster[0] = a->value.clusterDim.x;
		l->cluster[1] = a->value.clusterDim.y;
		l->cluster[2] = a->value.clusterDim.z;
		return l->cluster[0] && l->cluster[1] && l->cluster[2]
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction func, void **params,
			  void **extra, bool ptsz)
{
	struct launch l = {.func = func, .params = params, .extra = extra, .ptsz = ptsz};
	unsigned i;
	CUresult r;

	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	l.grid[0] = config->gridDimX;
	l.grid[1] = config->gridDimY;
	l.grid[2] = config->gridDimZ;
	l.block[0] = config->blockDimX;
	l.block[1] = config->blockDimY;
	l.block[2] = config->blockDimZ;
	l.shared_bytes = config->sharedMemBytes;
	l.stream = config->hStream;
	for (i = 0; i < config->numAttrs; i++) {
		r = apply(&config->attrs[i], &l);
		if (r)
			return r;
	}
	return launch_do(&l);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
				  void **params, void **extra)
{
	return launch_ex(config, f, params, extra, false);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
				       void **params, void **extra)
{
	return launch_ex(config, f, params, extra, true);
}
