/* SPDX-License-Identifier: Apache-2.0 */
/* Textures, surfaces, tensor maps; references of modules. */
#ifndef WEFT_DEVICE_CUDA_TEXTURE_H
#define WEFT_DEVICE_CUDA_TEXTURE_H

#include "device/cuda/device.h"

/* texture.c */
CUresult cuda_texture_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex);
CUresult cuda_surface_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex);
void cuda_texture_destroy(struct dev_texture *tex);

/* texref.c */
CUresult cuda_texref_find(struct dev_module *mod, const char *name, bool surface);
CUresult cuda_texref_set(struct dev_module *mod, const char *name, bool surface,
			 const struct dev_texture_desc *d, bool bound);
CUresult cuda_tensor_map(struct dev_ctx *ctx, const struct dev_tensor_map *m,
			 CUtensorMap *ret_map);
CUresult cuda_tensor_map_move(struct dev_ctx *ctx, CUtensorMap *map, CUdeviceptr address);

#endif
