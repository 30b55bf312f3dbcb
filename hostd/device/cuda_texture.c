/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps. The address in one is not checked: like a pointer in a kernel's
 * parameters, it is the GPU that finds out what lies there.
 */
#include "device/cuda_device.h"

CUresult cuda_tensor_map(struct dev_ctx *ctx, const struct dev_tensor_map *m,
			 CUtensorMap *ret_map)
{
	void *address = (void *)(uintptr_t)m->address;
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (!m->rank || m->rank > DEV_TENSOR_RANK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	switch (m->kind) {
	case DEV_TENSOR_MAP_TILED:
		return cu.cuTensorMapEncodeTiled(
			ret_map, (CUtensorMapDataType)m->data_type, m->rank, address,
			m->dim, m->stride, m->box, m->element_stride,
			(CUtensorMapInterleave)m->interleave,
			(CUtensorMapSwizzle)m->swizzle,
			(CUtensorMapL2promotion)m->l2_promotion,
			(CUtensorMapFloatOOBfill)m->oob_fill);
	case DEV_TENSOR_MAP_IM2COL:
		return cu.cuTensorMapEncodeIm2col(
			ret_map, (CUtensorMapDataType)m->data_type, m->rank, address,
			m->dim, m->stride, m->lower, m->upper, m->box[0], m->box[1],
			m->element_stride, (CUtensorMapInterleave)m->interleave,
			(CUtensorMapSwizzle)m->swizzle,
			(CUtensorMapL2promotion)m->l2_promotion,
			(CUtensorMapFloatOOBfill)m->oob_fill);
	case DEV_TENSOR_MAP_IM2COL_WIDE:
		return cu.cuTensorMapEncodeIm2colWide(
			ret_map, (CUtensorMapDataType)m->data_type, m->rank, address,
			m->dim, m->stride, m->lower[0], m->upper[0], m->box[0], m->box[1],
			m->element_stride, (CUtensorMapInterleave)m->interleave,
			(CUtensorMapIm2ColWideMode)m->mode,
			(CUtensorMapSwizzle)m->swizzle,
			(CUtensorMapL2promotion)m->l2_promotion,
			(CUtensorMapFloatOOBfill)m->oob_fill);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuda_tensor_map_move(struct dev_ctx *ctx, CUtensorMap *map, CUdeviceptr address)
{
	CUresult res = cuda_enter(ctx);

	return res ? res : cu.cuTensorMapReplaceAddress(map, (void *)(uintptr_t)address);
}
