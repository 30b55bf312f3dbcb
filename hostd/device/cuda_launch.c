/* SPDX-License-Identifier: Apache-2.0 */
/* What functions are asked, and launches. */
#include <string.h>

#include "device/cuda_device.h"
#include "device/cuda_module.h"

CUresult cuda_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx, cu.cuFuncGetAttribute(ret_value, attr, f->cu));
}

CUresult cuda_func_set_attribute(struct dev_func *f, CUfunction_attribute attr, int value)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx, cu.cuFuncSetAttribute(f->cu, attr, value));
}

CUresult cuda_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p)
{
	CUresult res = cuda_enter(f->mod->ctx);
	size_t offset, size;

	if (!res)
		res = cu.cuFuncGetParamInfo(f->cu, index, &offset, &size);
	if (res)
		return cuda_note(f->mod->ctx, res);
	*ret_p = (struct dev_param){(uint32_t)offset, (uint32_t)size};
	return CUDA_SUCCESS;
}

CUresult cuda_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx,
			 cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				 ret_blocks, f->cu, block_size, shared_bytes, flags));
}

/* ---- launches ---- */

CUresult cuda_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l)
{
	CUlaunchAttribute attrs[2];
	CUlaunchConfig config = {
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared_bytes,
		.hStream = cuda_stream_of(st),
		.attrs = attrs,
	};
	size_t size = l->params_size;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)l->params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (l->func->mod->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (size != l->func->params_size) /* before the driver reads past the end */
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	memset(attrs, 0, sizeof(attrs));
	if (l->cooperative) {
		attrs[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
		attrs[config.numAttrs++].value.cooperative = 1;
	}
	if (l->cluster[0]) {
		attrs[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
		attrs[config.numAttrs].value.clusterDim.x = l->cluster[0];
		attrs[config.numAttrs].value.clusterDim.y = l->cluster[1];
		attrs[config.numAttrs++].value.clusterDim.z = l->cluster[2];
	}
	return cuda_note(ctx, cu.cuLaunchKernelEx(&config, l->func->cu, NULL,
						  size ? extra : NULL));
}
