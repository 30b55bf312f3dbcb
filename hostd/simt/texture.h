/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces: how texels lie in device memory and how they are sampled. The
 * caller of simt fills struct simt_texture and puts it into simt_memory.textures; each
 * texel is read through the permissions, as any other byte.
 */
#ifndef WEFT_SIMT_TEXTURE_H
#define WEFT_SIMT_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

#define SIMT_TEX_LEVELS 18

enum simt_texel {
	SIMT_TEXEL_UINT,
	SIMT_TEXEL_SINT,
	SIMT_TEXEL_FLOAT, /* of 16 or 32 bits */
	SIMT_TEXEL_UNORM, /* integers that read as 0 to 1, */
	SIMT_TEXEL_SNORM, /* -1 to 1 */
};

enum simt_tex_address { /* as CU_TR_ADDRESS_MODE_* */
	SIMT_TEX_WRAP,
	SIMT_TEX_CLAMP,
	SIMT_TEX_MIRROR,
	SIMT_TEX_BORDER,
};

struct simt_tex_level {
	uint64_t addr, pitch, slice;   /* bytes from row to row, slice to slice */
	uint32_t width, height, depth; /* at least 1; depth: layers and faces as well */
};

struct simt_texture {
	struct simt_tex_level level[SIMT_TEX_LEVELS];
	uint32_t num_levels; /* at least 1 */
	uint8_t texel;       /* enum simt_texel */
	uint8_t channels;    /* 1, 2, 4 */
	uint8_t channel_bytes;
	uint8_t address[3]; /* enum simt_tex_address */
	bool normalized;    /* coordinates from 0 to 1 */
	bool linear;        /* filter between texels */
	bool mip_linear;    /* and between levels */
	bool srgb;
	float bias, min_lod, max_lod;
	float border[4];
};

#endif
