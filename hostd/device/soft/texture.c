/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects: from what CUDA describes to what simt samples. An object's
 * value is its place in a table that kernels look it up in. What is refused is what
 * driver 580 refuses on an H200; block-compressed views are not there.
 */
#include <stdlib.h>
#include <string.h>

#include "device/soft/soft.h"
#include "simt/texture.h"

/* Limits and alignments of an H200 (its attributes). */
#define BASE_ALIGN      512
#define PITCH_ALIGN     32
#define PITCH_WIDTH_MAX 131072
#define PITCH_ROWS_MAX  65000

#define KNOWN_FLAGS                                                                      \
	(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |       \
	 CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP)

struct dev_texture {
	struct dev_ctx *ctx;
	uint32_t value;
	struct simt_texture tex;
};

/* ---- formats ---- */

static bool set_format(struct simt_texture *t, unsigned format, unsigned channels)
{
	unsigned unorm = format - CU_AD_FORMAT_UNORM_INT8X1;

	t->channel_bytes = (uint8_t)array_channel_bytes(format);
	t->channels = (uint8_t)channels;
	if (!t->channel_bytes || (channels != 1 && channels != 2 && channels != 4))
		return false;
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_UNSIGNED_INT32:
		t->texel = SIMT_TEXEL_UINT;
		break;
	case CU_AD_FORMAT_SIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT32:
		t->texel = SIMT_TEXEL_SINT;
		break;
	case CU_AD_FORMAT_HALF:
	case CU_AD_FORMAT_FLOAT:
		t->texel = SIMT_TEXEL_FLOAT;
		break;
	default:
		t->texel = unorm < 6 ? SIMT_TEXEL_UNORM : SIMT_TEXEL_SNORM;
	}
	return true;
}

/* A view's format, in groups of 1, 2 and 4 channels. False: none, or compressed. */
static bool view_format(unsigned view, unsigned *ret_format, unsigned *ret_channels)
{
	static const uint8_t formats[] = {
		CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
		CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
		CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
		CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT,
	};
	unsigned i = view - CU_RES_VIEW_FORMAT_UINT_1X8;

	if (i / 3 >= ARRAY_SIZE(formats))
		return false;
	*ret_format = formats[i / 3];
	*ret_channels = 1u << i % 3;
	return true;
}

static CUresult set_sampler(struct simt_texture *t, const CUDA_TEXTURE_DESC *d)
{
	if (d->flags & ~(unsigned)KNOWN_FLAGS || (unsigned)d->filterMode > 1 ||
	    (unsigned)d->mipmapFilterMode > 1)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < 3; i++) {
		if ((unsigned)d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
			return CUDA_ERROR_INVALID_VALUE;
		t->address[i] = (uint8_t)d->addressMode[i];
	}
	t->normalized = d->flags & CU_TRSF_NORMALIZED_COORDINATES;
	t->linear = d->filterMode == CU_TR_FILTER_MODE_LINEAR;
	t->mip_linear = d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
	t->srgb = d->flags & CU_TRSF_SRGB && t->channel_bytes == 1;
	t->bias = d->mipmapLevelBias;
	t->min_lod = d->minMipmapLevelClamp;
	t->max_lod = d->maxMipmapLevelClamp;
	memcpy(t->border, d->borderColor, sizeof(t->border));
	/* small integers are fractions unless integers are asked for */
	if (t->channel_bytes < 4 && !(d->flags & CU_TRSF_READ_AS_INTEGER)) {
		if (t->texel == SIMT_TEXEL_UINT)
			t->texel = SIMT_TEXEL_UNORM;
		else if (t->texel == SIMT_TEXEL_SINT)
			t->texel = SIMT_TEXEL_SNORM;
	}
	return CUDA_SUCCESS;
}

/* ---- resources ---- */

static void set_level(struct simt_tex_level *to, const struct soft_level *from)
{
	*to = (struct simt_tex_level){
		.addr = from->addr,
		.pitch = from->pitch,
		.slice = from->slice,
		.width = (uint32_t)from->shape.width,
		.height = (uint32_t)MAX(from->shape.height, (uint64_t)1),
		.depth = (uint32_t)MAX(from->shape.depth, (uint64_t)1),
	};
}

static CUresult set_array(struct simt_texture *t, const struct dev_texture_desc *d)
{
	const struct dev_array *a = d->array;

	if (d->level >= a->n_levels || !set_format(t, a->shape.format, a->shape.channels))
		return CUDA_ERROR_INVALID_VALUE;
	static_assert(SIMT_TEX_LEVELS >= ARRAY_LEVELS_MAX, "all levels have room");
	t->num_levels = d->is_level ? 1 : a->n_levels;
	for (unsigned i = 0; i < t->num_levels; i++)
		set_level(&t->level[i], &a->level[d->is_level ? d->level : i]);
	return CUDA_SUCCESS;
}

static CUresult set_memory(struct simt_texture *t, const struct dev_texture_desc *d)
{
	struct simt_tex_level *l = &t->level[0];
	unsigned elem;

	if (!d->addr || d->addr % BASE_ALIGN || !set_format(t, d->format, d->channels))
		return CUDA_ERROR_INVALID_VALUE;
	elem = t->channels * t->channel_bytes;
	t->num_levels = 1;
	if (!d->pitch) {
		uint64_t n = d->width / elem;

		*l = (struct simt_tex_level){.addr = d->addr,
					     .width = (uint32_t)MIN(n, UINT32_MAX),
					     .height = 1,
					     .depth = 1};
		l->width = MAX(l->width, 1u);
		return CUDA_SUCCESS;
	}
	if (d->pitch % PITCH_ALIGN || d->width > PITCH_WIDTH_MAX ||
	    d->height > PITCH_ROWS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*l = (struct simt_tex_level){.addr = d->addr,
				     .pitch = d->pitch,
				     .width = MAX((uint32_t)d->width, 1u),
				     .height = MAX((uint32_t)d->height, 1u),
				     .depth = 1};
	return CUDA_SUCCESS;
}

/* A part of the levels and layers, and another way to read elements of the same size. */
static CUresult set_view(struct simt_texture *t, const struct dev_texture_desc *d)
{
	const CUDA_RESOURCE_VIEW_DESC *v = &d->view;
	unsigned elem = t->channels * t->channel_bytes, format, channels, n;
	bool layers = d->array && d->array->shape.flags & (ARRAY_LAYERED | ARRAY_CUBEMAP);

	if (!d->array || !view_format(v->format, &format, &channels) ||
	    !set_format(t, format, channels) || t->channels * t->channel_bytes != elem ||
	    v->width != t->level[0].width ||
	    MAX(v->height, (size_t)1) != t->level[0].height ||
	    v->lastMipmapLevel >= t->num_levels ||
	    v->firstMipmapLevel > v->lastMipmapLevel || v->firstLayer > v->lastLayer ||
	    (layers && v->lastLayer >= t->level[0].depth))
		return CUDA_ERROR_INVALID_VALUE;
	n = v->lastMipmapLevel - v->firstMipmapLevel + 1;
	memmove(t->level, t->level + v->firstMipmapLevel, n * sizeof(t->level[0]));
	t->num_levels = n;
	for (unsigned i = 0; i < n && layers; i++) {
		t->level[i].addr += v->firstLayer * t->level[i].slice;
		t->level[i].depth = v->lastLayer - v->firstLayer + 1;
	}
	return CUDA_SUCCESS;
}

/* ---- objects ---- */

static CUresult publish(struct dev_ctx *ctx, struct dev_texture *tex, uint64_t *ret_value)
{
	tex->ctx = ctx;
	tex->value = soft_memory_texture_add(&ctx->dev->mem, &tex->tex);
	if (!tex->value)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_value = tex->value;
	return CUDA_SUCCESS;
}

CUresult soft_texture_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex)
{
	_cleanup_free_ struct dev_texture *tex = calloc(1, sizeof(*tex));
	CUresult res = soft_ctx_status(ctx);

	if (!res && !tex)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (!res)
		res = d->array ? set_array(&tex->tex, d) : set_memory(&tex->tex, d);
	if (!res && d->has_view)
		res = set_view(&tex->tex, d);
	if (!res)
		res = set_sampler(&tex->tex, &d->sampler);
	if (!res)
		res = publish(ctx, tex, ret_value);
	if (!res)
		*ret_tex = steal(tex);
	return res;
}

CUresult soft_surface_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex)
{
	_cleanup_free_ struct dev_texture *tex = calloc(1, sizeof(*tex));
	CUresult res = soft_ctx_status(ctx);

	if (!res && !tex)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (!res)
		res = set_array(&tex->tex, d);
	if (!res)
		res = publish(ctx, tex, ret_value);
	if (!res)
		*ret_tex = steal(tex);
	return res;
}

void soft_texture_destroy(struct dev_texture *tex)
{
	soft_memory_texture_remove(&tex->ctx->dev->mem, tex->value);
	free(tex);
}
