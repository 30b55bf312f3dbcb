/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: moving bytes between the guest and the device
 *
 * Host memory that the device sees: one message, one DMA.
 *
 * Other host memory, to the device, goes through a stage (stage.h) in pieces: while one
 * is being copied into it, the device fetches the last. From the device: likewise, the
 * other way round. A few KiB travel in the lane, and the driver takes them at once.
 * Without shared memory, or while a stage is held up by a busy stream, pieces travel in
 * the lane. A synchronous copy ends with a call, whose reply also says if an earlier
 * piece failed; of few pageable bytes it comes before the device is done. Copies from the
 * device into pageable memory may finish synchronously in CUDA, too.
 */
#include <string.h>

#include "core/capturing.h"
#include "copy/copy.h"
#include "copy/copy_way.h"
#include "object/extent.h"
#include "object/hostmem.h"
#include "object/managed.h"
#include "object/stream.h"

/* ---- within the host ---- */

/* Takes its place in the stream by waiting for it. */
static CUresult htoh(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	CUresult r = c->ctx ? CUDA_SUCCESS : stream_wait(t, stream);
	size_t i;

	for (i = 0; i < c->height && r == CUDA_SUCCESS; i++)
		memmove((char *)(uintptr_t)c->dst.addr + i * c->dst.pitch,
			(const char *)(uintptr_t)c->src.addr + i * c->src.pitch,
			c->width);
	return r;
}

CUresult copy_share(struct copy *c, uint64_t dst_span, uint64_t src_span)
{
	enum hostmem_view d = HOSTMEM_SHARED, s = HOSTMEM_SHARED;
	uint64_t dst = c->dst.addr, src = c->src.addr;

	if (!c->dst.device)
		d = hostmem_view(dst, dst_span, &dst);
	if (!c->src.device)
		s = hostmem_view(src, src_span, &src);
	if (unlikely(d == HOSTMEM_OUTSIDE || s == HOSTMEM_OUTSIDE))
		return CUDA_ERROR_INVALID_VALUE;
	if (d != HOSTMEM_SHARED || s != HOSTMEM_SHARED)
		return CUDA_SUCCESS;
	if (!c->dst.device && !c->src.device && !c->async)
		return CUDA_SUCCESS; /* the processor is there already */
	c->shared |= !c->dst.device || !c->src.device;
	c->dst.addr = dst;
	c->src.addr = src;
	c->dst.device = c->src.device = true;
	return CUDA_SUCCESS;
}

static bool is_managed(const struct copy_side *side)
{
	return side->device && managed_is(side->addr);
}

void copy_share_managed(struct copy *c)
{
	c->shared |= is_managed(&c->dst) || is_managed(&c->src);
}

CUresult copy_begin(struct guest_thread *t, const struct copy *c, struct managed_hold *h)
{
	h->held = false;
	return unlikely(managed_carrier) && (is_managed(&c->dst) || is_managed(&c->src))
		       ? managed_begin(t, h)
		       : CUDA_SUCCESS;
}

/* Makes rows without gaps one row. */
static void join_rows(struct copy *c)
{
	if (c->height > 1 && c->dst.pitch == c->width && c->src.pitch == c->width &&
	    c->width <= SIZE_MAX / c->height) {
		c->width *= c->height;
		c->height = 1;
	}
}

static CUresult check_side(struct guest_thread *t, const struct copy *c,
			   const struct copy_side *side)
{
	uint64_t rows;

	if (!side->device || !guest_is_device(side->addr))
		return CUDA_SUCCESS; /* host memory, which hostmem.h knows */
	if (__builtin_mul_overflow(c->height - 1, side->pitch, &rows) ||
	    rows + c->width < rows)
		return CUDA_ERROR_INVALID_VALUE;
	return extent_check(t, side->addr, rows + c->width);
}

/* A copy whose sides are what they are to be. */
static CUresult do_rows(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	CUresult r;

	if (c->dst.device && c->src.device)
		return copy_on_device(t, c, stream);
	if (c->dst.device) {
		r = copy_to_device(t, c, stream);
		return r || !c->shared || c->async ? r : stream_wait(t, stream);
	}
	return c->src.device ? copy_from_device(t, c, stream) : htoh(t, c, stream);
}

CUresult copy_rows(struct guest_thread *t, const struct copy *given, uint64_t stream)
{
	struct copy c = *given;
	struct managed_hold hold;
	CUresult r;

	if (!c.width || !c.height)
		return CUDA_SUCCESS;
	if (!c.dst.addr || !c.src.addr ||
	    (c.height > 1 && (c.dst.pitch < c.width || c.src.pitch < c.width)))
		return CUDA_ERROR_INVALID_VALUE;
	r = c.ctx ? CUDA_SUCCESS : check_side(t, &c, &c.dst);
	if (r == CUDA_SUCCESS && !c.ctx)
		r = check_side(t, &c, &c.src);
	if (r)
		return r;
	join_rows(&c);
	copy_share_managed(&c);
	if (!c.ctx && !(c.dst.device && c.src.device)) {
		r = copy_share(&c, (c.height - 1) * c.dst.pitch + c.width,
			       (c.height - 1) * c.src.pitch + c.width);
		if (r)
			return r;
	}
	r = copy_begin(t, &c, &hold);
	if (unlikely(r))
		return r;
	r = do_rows(t, &c, stream);
	managed_done(&hold);
	return r;
}

/* As cuGraphMemcpyNodeGetParams will show it. */
static CUresult capture(const struct copy *c)
{
	CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .srcDevice = c->src.addr,
			   .srcPitch = c->src.pitch,
			   .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			   .dstDevice = c->dst.addr,
			   .dstPitch = c->dst.pitch,
			   .WidthInBytes = c->width,
			   .Height = c->height,
			   .Depth = 1};

	return c->width && c->height ? capture_hooks->copy(&p, c->stream, c->ptsz)
				     : CUDA_SUCCESS;
}

CUresult copy_do(const struct copy *c)
{
	struct guest_thread *t;
	uint64_t stream;
	CUresult r = guest_enter(guest_need_on(c->stream), &t);

	if (r == CUDA_SUCCESS && c->async && unlikely(capture_wants(c->stream, c->ptsz)))
		return capture(c);
	if (r == CUDA_SUCCESS)
		r = guest_stream(c->stream, c->ptsz, &stream);
	return r ? r : copy_rows(t, c, stream);
}
