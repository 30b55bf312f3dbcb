/* SPDX-License-Identifier: Apache-2.0 */
#include "device/soft.h"

CUresult soft_texture_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult soft_surface_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

void soft_texture_destroy(struct dev_texture *tex)
{
}
