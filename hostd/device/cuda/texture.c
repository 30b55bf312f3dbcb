/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects, tensor maps. The addresses in them are not checked: as
 * with a pointer in a kernel's parameters, it is the GPU that finds out what lies there.
 */
#include <string.h>

#include "device/cuda/copy.h"
#include "device/cuda/texture.h"

struct dev_texture {
	struct dev_ctx *ctx;
	uint64_t value;
	bool surface;
};

static CUresult resource(const struct dev_texture_desc *d, CUDA_RESOURCE_DESC *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (d->array && d->array->mip && !d->is_level) {
		ret->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		ret->res.mipmap.hMipmappedArray = d->array->mip;
	} else if (d->array) {
		ret->resType = CU_RESOURCE_TYPE_ARRAY;
		return cuda_array_level(d->array, d->level, &ret->res.array.hArray);
	} else if (d->pitch) {
		ret->resType = CU_RESOURCE_TYPE_PITCH2D;
		ret->res.pitch2D.devPtr = d->addr;
		ret->res.pitch2D.format = d->format;
		ret->res.pitch2D.numChannels = d->channels;
		ret->res.pitch2D.width = d->width;
		ret->res.pitch2D.height = d->height;
		ret->res.pitch2D.pitchInBytes = d->pitch;
	} else {
		ret->resType = CU_RESOURCE_TYPE_LINEAR;
		ret->res.linear.devPtr = d->addr;
		ret->res.linear.format = d->format;
		ret->res.linear.numChannels = d->channels;
		ret->res.linear.sizeInBytes = d->width;
	}
	return CUDA_SUCCESS;
}

static CUresult create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
		       bool surface, uint64_t *ret_value, struct dev_texture **ret_tex)
{
	_cleanup_free_ struct dev_texture *tex = calloc(1, sizeof(*tex));
	CUDA_RESOURCE_DESC res_desc;
	unsigned long long value;
	CUresult res = cuda_enter(ctx);

	if (!res && !tex)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (!res)
		res = resource(d, &res_desc);
	if (!res)
		res = surface ? cu.cuSurfObjectCreate(&value, &res_desc)
			      : cu.cuTexObjectCreate(&value, &res_desc, &d->sampler,
						     d->has_view ? &d->view : NULL);
	if (res)
		return cuda_note(ctx, res);
	*tex = (struct dev_texture){.ctx = ctx, .value = value, .surface = surface};
	*ret_value = value;
	*ret_tex = steal(tex);
	return CUDA_SUCCESS;
}

CUresult cuda_texture_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex)
{
	return create(ctx, d, false, ret_value, ret_tex);
}

CUresult cuda_surface_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex)
{
	return create(ctx, d, true, ret_value, ret_tex);
}

void cuda_texture_destroy(struct dev_texture *tex)
{
	if (!cuda_enter(tex->ctx)) {
		if (tex->surface)
			cu.cuSurfObjectDestroy(tex->value);
		else
			cu.cuTexObjectDestroy(tex->value);
	}
	free(tex);
}

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
