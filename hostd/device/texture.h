/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface objects: of a context, destroyed before it. */
#ifndef WEFT_DEVICE_TEXTURE_H
#define WEFT_DEVICE_TEXTURE_H

#include "device/handles.h"

/* Source and sampling of a texture; cuda.h has the meaning of the numbers. */
struct dev_texture_desc {
	struct dev_array *array; /* NULL: memory */
	bool is_level;           /* only this level of it */
	unsigned level;
	CUdeviceptr addr;
	size_t width, height, pitch; /* elements, rows, bytes; pitch 0: linear, bytes */
	CUarray_format format;
	unsigned channels;
	CUDA_TEXTURE_DESC sampler;
	bool has_view;
	CUDA_RESOURCE_VIEW_DESC view;
};

struct device_texture_ops {
	/* Makes a texture; *ret_value is what kernels are given. */
	CUresult (*create)(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			   uint64_t *ret_value, struct dev_texture **ret_tex);
	/* Makes a surface; of desc only array, is_level and level count. */
	CUresult (*create_surface)(struct dev_ctx *ctx, const struct dev_texture_desc *d,
				   uint64_t *ret_value, struct dev_texture **ret_tex);
	void (*destroy)(struct dev_texture *tex); /* surfaces as well */
	/* Looks for a reference of a module. NOT_FOUND: there is none; soft has none at
	 * all. */
	CUresult (*find_ref)(struct dev_module *mod, const char *name, bool surface);
	/* Sets what a reference says: d->sampler; bound: what it reads as well. */
	CUresult (*set_ref)(struct dev_module *mod, const char *name, bool surface,
			    const struct dev_texture_desc *d, bool bound);
};

#endif
