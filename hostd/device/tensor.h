/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: 128 bytes for kernels, encoded as the device wants them. */
#ifndef WEFT_DEVICE_TENSOR_H
#define WEFT_DEVICE_TENSOR_H

#include "device/handles.h"

#define DEV_TENSOR_RANK_MAX 5

enum dev_tensor_map_kind {
	DEV_TENSOR_MAP_TILED,
	DEV_TENSOR_MAP_IM2COL,
	DEV_TENSOR_MAP_IM2COL_WIDE,
};

/* Arguments of cuTensorMapEncode*, all checked by the device. Numbers as in cuda.h. */
struct dev_tensor_map {
	enum dev_tensor_map_kind kind;
	unsigned data_type, rank, interleave, swizzle, l2_promotion, oob_fill;
	unsigned mode; /* wide */
	CUdeviceptr address;
	cuuint64_t dim[DEV_TENSOR_RANK_MAX];
	cuuint64_t stride[DEV_TENSOR_RANK_MAX - 1];
	cuuint32_t box[DEV_TENSOR_RANK_MAX]; /* tiled; else channels, pixels */
	cuuint32_t element_stride[DEV_TENSOR_RANK_MAX];
	int lower[DEV_TENSOR_RANK_MAX - 2], upper[DEV_TENSOR_RANK_MAX - 2];
};

struct device_tensor_ops {
	/* Encodes one; soft: CUDA_ERROR_NOT_SUPPORTED. */
	CUresult (*map)(struct dev_ctx *ctx, const struct dev_tensor_map *m,
			CUtensorMap *ret_map);
	/* Gives another address to a map that map() made, or bytes of a guest's. */
	CUresult (*move)(struct dev_ctx *ctx, CUtensorMap *map, CUdeviceptr address);
};

#endif
