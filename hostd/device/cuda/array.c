/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays: the driver's own. Where their memory lies and how it is laid out only the
 * driver knows, so they cannot move as allocations do.
 */
#include "device/cuda/freeze/freeze.h"
#include "device/cuda/copy.h"
#include "device/cuda/memory.h"
#include "device/cuda/output.h"

#define REFUSED_FLAGS (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static CUDA_ARRAY3D_DESCRIPTOR descriptor(const struct array_shape *s, unsigned flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){.Width = s->width,
					 .Height = s->height,
					 .Depth = s->depth,
					 .Format = (CUarray_format)s->format,
					 .NumChannels = s->channels,
					 .Flags = s->flags | flags};
}

static CUresult make(const struct array_shape *s, unsigned flags, struct dev_array *ret)
{
	CUDA_ARRAY3D_DESCRIPTOR d = descriptor(s, flags);

	if (s->levels)
		return cu.cuMipmappedArrayCreate(&ret->mip, &d, s->levels);
	return cu.cuArray3DCreate(&ret->cu, &d);
}

static void drop(struct dev_array *a)
{
	if (a->mip)
		cu.cuMipmappedArrayDestroy(a->mip);
	if (a->cu)
		cu.cuArrayDestroy(a->cu);
}

/* An array without memory tells how much it wants. */
CUresult cuda_array_bytes(struct dev_ctx *ctx, const struct array_shape *s,
			  uint64_t *ret_bytes)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	struct dev_array a = {0};
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (s->flags & REFUSED_FLAGS)
		return CUDA_ERROR_NOT_SUPPORTED;
	res = make(s, CUDA_ARRAY3D_DEFERRED_MAPPING, &a);
	if (res)
		return cuda_note(ctx, res);
	if (a.mip)
		res = cu.cuMipmappedArrayGetMemoryRequirements(&need, a.mip,
							       ctx->dev->cu);
	else
		res = cu.cuArrayGetMemoryRequirements(&need, a.cu, ctx->dev->cu);
	drop(&a);
	if (!res)
		*ret_bytes = need.size;
	return cuda_note(ctx, res);
}

CUresult cuda_array_create(struct dev_ctx *ctx, const struct array_shape *s,
			   struct dev_array **ret_array)
{
	cuda_scoped_thawed(ctx->dev);
	_cleanup_free_ struct dev_array *a = NULL;
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (s->flags & REFUSED_FLAGS)
		return CUDA_ERROR_NOT_SUPPORTED;
	a = calloc(1, sizeof(*a));
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->ctx = ctx;
	a->shape = *s;
	res = cuda_note(ctx, make(s, 0, a));
	if (!res)
		*ret_array = steal(a);
	return res;
}

void cuda_array_destroy(struct dev_array *a)
{
	cuda_scoped_thawed(a->ctx->dev);
	if (!cuda_enter(a->ctx))
		drop(a);
	free(a);
}

CUresult cuda_array_level(struct dev_array *a, unsigned level, CUarray *ret_array)
{
	if (a->mip)
		return cu.cuMipmappedArrayGetLevel(ret_array, a->mip, level);
	if (level)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_array = a->cu;
	return CUDA_SUCCESS;
}

/* ---- copies ---- */

/* The driver checks as well; this keeps its sums from overflowing. */
static CUresult box_side(const struct dev_box *b, CUarray *ret_array)
{
	struct array_shape shape = array_level(&b->array->shape, b->level);

	if (!array_holds(&shape, b->x, b->y, b->z, b->width, b->height, b->depth))
		return CUDA_ERROR_INVALID_VALUE;
	return cuda_array_level(b->array, b->level, ret_array);
}

static CUresult fill_dst(const struct dev_box *b, CUDA_MEMCPY3D *d)
{
	d->dstMemoryType = CU_MEMORYTYPE_ARRAY;
	d->dstXInBytes = b->x;
	d->dstY = b->y;
	d->dstZ = b->z;
	return box_side(b, &d->dstArray);
}

static CUresult fill_src(const struct dev_box *b, CUDA_MEMCPY3D *d)
{
	d->srcMemoryType = CU_MEMORYTYPE_ARRAY;
	d->srcXInBytes = b->x;
	d->srcY = b->y;
	d->srcZ = b->z;
	return box_side(b, &d->srcArray);
}

static CUresult copy_and_wait(struct dev_ctx *ctx, struct dev_stream *st,
			      const CUDA_MEMCPY3D *d)
{
	CUresult res = cu.cuMemcpy3DAsync(d, cuda_stream_of(st));

	if (!res)
		res = cu.cuStreamSynchronize(cuda_stream_of(st));
	cuda_output_flush(ctx->dev);
	return cuda_note(ctx, res);
}

CUresult cuda_array_write(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_box *dst, const void *host_buf)
{
	CUDA_MEMCPY3D d = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = host_buf,
			   .srcPitch = dst->width,
			   .srcHeight = dst->height,
			   .WidthInBytes = dst->width,
			   .Height = dst->height,
			   .Depth = dst->depth};
	CUresult res = cuda_enter(ctx);

	if (!res)
		res = fill_dst(dst, &d);
	return res ? res : copy_and_wait(ctx, st, &d);
}

CUresult cuda_array_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 const struct dev_box *src)
{
	CUDA_MEMCPY3D d = {.dstMemoryType = CU_MEMORYTYPE_HOST,
			   .dstHost = host_buf,
			   .dstPitch = src->width,
			   .dstHeight = src->height,
			   .WidthInBytes = src->width,
			   .Height = src->height,
			   .Depth = src->depth};
	CUresult res = cuda_enter(ctx);

	if (!res)
		res = fill_src(src, &d);
	return res ? res : copy_and_wait(ctx, st, &d);
}

/* Slices whose rows lie in rows: each must be the guest's, gaps need not. */
static bool slices_ok(struct device *dev, const struct dev_slices *m,
		      const struct dev_box *b)
{
	size_t slice, span;

	if (b->height > 1 && m->pitch < b->width)
		return false;
	if (__builtin_mul_overflow(m->pitch, b->height - 1, &slice) ||
	    __builtin_add_overflow(slice, b->width, &slice))
		return false;
	if (b->depth > 1 && (m->slice < slice || !m->pitch || m->slice % m->pitch))
		return false;
	if (__builtin_mul_overflow(m->slice, b->depth - 1, &span) ||
	    __builtin_add_overflow(span, slice, &span) || m->addr + span < m->addr)
		return false;
	if (cuda_may(dev, m->addr, span))
		return true;
	for (size_t z = 0; z < b->depth; z++) {
		if (!cuda_may(dev, m->addr + z * m->slice, slice))
			return false;
	}
	return true;
}

CUresult cuda_array_params(struct device *dev, const struct dev_copy_3d *c,
			   CUDA_MEMCPY3D *ret_d)
{
	const struct dev_slices *to = &c->dst.memory, *from = &c->src.memory;
	const struct dev_box *box = &c->dst.box;
	CUDA_MEMCPY3D d = {
		.WidthInBytes = box->width, .Height = box->height, .Depth = box->depth};
	CUresult res = CUDA_SUCCESS;

	if (c->dst.box.array) {
		res = fill_dst(box, &d);
	} else if (slices_ok(dev, to, box)) {
		d.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		d.dstDevice = to->addr;
		d.dstPitch = to->pitch;
		d.dstHeight = to->pitch ? to->slice / to->pitch : 0;
	} else {
		res = CUDA_ERROR_INVALID_VALUE;
	}
	if (res)
		return res;
	if (c->src.box.array) {
		res = fill_src(&c->src.box, &d);
	} else if (slices_ok(dev, from, box)) {
		d.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		d.srcDevice = from->addr;
		d.srcPitch = from->pitch;
		d.srcHeight = from->pitch ? from->slice / from->pitch : 0;
	} else {
		res = CUDA_ERROR_INVALID_VALUE;
	}
	if (!res)
		*ret_d = d;
	return res;
}

CUresult cuda_array_copy(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_3d *c)
{
	const struct dev_box *box = &c->dst.box;
	CUDA_MEMCPY3D d;
	CUresult res = cuda_enter(ctx);

	if (res || !box->width || !box->height || !box->depth)
		return res;
	res = cuda_array_params(ctx->dev, c, &d);
	if (res)
		return res;
	cuda_is_other(ctx, st);
	res = cuda_note(ctx, cu.cuMemcpy3DAsync(&d, cuda_stream_of(st)));
	cuda_was_other(ctx, st);
	return res;
}
