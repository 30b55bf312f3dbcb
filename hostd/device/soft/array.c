/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of the software GPU: rows of elements in memory of the device's own, one level
 * behind the other. Copies of them are copies of rows. What is refused, and the limits,
 * are an H200's; compressed and planar formats are not there.
 */
#include <stdlib.h>
#include <string.h>

#include "device/soft/soft.h"

#define ROW_ALIGN   64
#define LEVEL_ALIGN 512

#define KNOWN_FLAGS                                                                      \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |       \
	 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)
#define REFUSED_FLAGS (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static bool within(const struct array_shape *s, uint64_t width, uint64_t height,
		   uint64_t depth)
{
	return s->width && s->width <= width && s->height <= height && s->depth <= depth;
}

static bool extent_ok(const struct array_shape *s)
{
	bool layered = s->flags & CUDA_ARRAY3D_LAYERED;

	if (s->flags & CUDA_ARRAY3D_CUBEMAP)
		return within(s, 32768, 32768, layered ? 2046 : 6) &&
		       s->width == s->height && s->depth && s->depth % 6 == 0;
	if (layered)
		return within(s, 32768, 32768, 2048) && s->depth;
	if (s->depth)
		return within(s, 16384, 16384, 16384) && s->height;
	return within(s, 131072, 65536, 0);
}

static bool format_ok(const struct array_shape *s)
{
	unsigned n = s->channels;

	if (s->format >= CU_AD_FORMAT_UNORM_INT8X1 && s->format <= 0xcb)
		return n == 1u << (s->format - CU_AD_FORMAT_UNORM_INT8X1) % 3;
	return array_channel_bytes(s->format) && (n == 1 || n == 2 || n == 4);
}

static CUresult shape_check(const struct array_shape *s)
{
	if (s->flags & REFUSED_FLAGS)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (s->flags & ~KNOWN_FLAGS || !extent_ok(s) || !format_ok(s))
		return CUDA_ERROR_INVALID_VALUE;
	if (s->flags & CUDA_ARRAY3D_TEXTURE_GATHER && (!s->height || s->depth))
		return CUDA_ERROR_INVALID_VALUE;
	return s->levels > ARRAY_LEVELS_MAX || s->levels > array_levels(s)
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

/* Where each level lies, from 0; the sizes that are allowed cannot overflow. */
static uint64_t lay_out(const struct array_shape *s, struct soft_level *ret_level)
{
	unsigned elem = array_elem_bytes(s);
	uint64_t at = 0;

	for (unsigned i = 0; i < MAX(s->levels, 1u); i++) {
		struct soft_level *l = &ret_level[i];

		l->shape = array_level(s, i);
		l->addr = at;
		l->pitch = ALIGN_UP(l->shape.width * elem, (uint64_t)ROW_ALIGN);
		l->slice = l->pitch * MAX(l->shape.height, (uint64_t)1);
		at += l->slice * MAX(l->shape.depth, (uint64_t)1);
		at = ALIGN_UP(at, (uint64_t)LEVEL_ALIGN);
	}
	return at;
}

CUresult soft_array_bytes(struct dev_ctx *ctx, const struct array_shape *s,
			  uint64_t *ret_bytes)
{
	struct soft_level level[ARRAY_LEVELS_MAX];
	CUresult res = soft_ctx_status(ctx);

	if (!res)
		res = shape_check(s);
	if (!res)
		*ret_bytes = soft_memory_charge(lay_out(s, level));
	return res;
}

CUresult soft_array_create(struct dev_ctx *ctx, const struct array_shape *s,
			   struct dev_array **ret_array)
{
	_cleanup_free_ struct dev_array *a = NULL;
	CUresult res = soft_ctx_status(ctx);

	if (!res)
		res = shape_check(s);
	if (res)
		return res;
	a = calloc(1, sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->ctx = ctx;
	a->shape = *s;
	a->elem_bytes = array_elem_bytes(s);
	a->n_levels = MAX(s->levels, 1u);
	a->bytes = lay_out(s, a->level);
	a->base = a->bytes > SOFT_OWN_SIZE ? 0
					   : soft_memory_alloc(&ctx->dev->mem, a->bytes);
	if (!a->base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < a->n_levels; i++)
		a->level[i].addr += a->base;
	*ret_array = steal(a);
	return CUDA_SUCCESS;
}

void soft_array_destroy(struct dev_array *a)
{
	soft_memory_free(&a->ctx->dev->mem, a->base, a->bytes);
	free(a);
}

/* ---- copies ---- */

/* The rows of a box. */
static CUresult box_rows(const struct dev_box *b, struct dev_slices *ret)
{
	const struct soft_level *l;

	if (b->level >= b->array->n_levels)
		return CUDA_ERROR_INVALID_VALUE;
	l = &b->array->level[b->level];
	if (!array_holds(&l->shape, b->x, b->y, b->z, b->width, b->height, b->depth))
		return CUDA_ERROR_INVALID_VALUE;
	ret->addr = l->addr + b->z * l->slice + b->y * l->pitch + b->x;
	ret->pitch = l->pitch;
	ret->slice = l->slice;
	return CUDA_SUCCESS;
}

CUresult soft_array_write(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_box *dst, const void *host_buf)
{
	const char *from = host_buf;
	struct dev_slices m;
	CUresult res = box_rows(dst, &m);

	for (size_t z = 0; z < dst->depth && !res; z++) {
		res = soft_write_rows(ctx, st, m.addr + z * m.slice, m.pitch, from,
				      dst->width, dst->height);
		from += dst->width * dst->height;
	}
	return res;
}

CUresult soft_array_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 const struct dev_box *src)
{
	char *to = host_buf;
	struct dev_slices m;
	CUresult res = box_rows(src, &m);

	for (size_t z = 0; z < src->depth && !res; z++) {
		res = soft_read_rows(ctx, st, to, m.addr + z * m.slice, m.pitch,
				     src->width, src->height);
		to += src->width * src->height;
	}
	return res;
}

/* Memory of the guest: that its rows may be touched is checked when they are copied. */
static CUresult side_rows(const struct dev_side *s, const struct dev_box *box,
			  struct dev_slices *ret)
{
	uint64_t span;

	if (s->box.array)
		return box_rows(&s->box, ret);
	*ret = s->memory;
	if (__builtin_mul_overflow(ret->slice, box->depth, &span) ||
	    ret->addr + span < ret->addr)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult soft_array_copy(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_3d *c)
{
	const struct dev_box *box = &c->dst.box;
	struct dev_slices dst, src;
	CUresult res = side_rows(&c->dst, box, &dst);

	if (!res)
		res = side_rows(&c->src, box, &src);
	for (size_t z = 0; z < box->depth && !res; z++) {
		struct dev_copy_2d rows = {
			.dst = dst.addr + z * dst.slice,
			.src = src.addr + z * src.slice,
			.dst_pitch = dst.pitch,
			.src_pitch = src.pitch,
			.width = box->width,
			.height = box->height,
		};

		res = soft_copy(ctx, st, &rows);
	}
	return res;
}
