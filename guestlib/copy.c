// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: moving bytes between the guest and the device
 *
 * Host to device: pieces of at most WIRE_PAYLOAD_MAX are copied into the lane and posted;
 * the worker works on one while the next is being copied. A synchronous copy sends its
 * last piece as a call, whose reply also says if an earlier piece failed.
 * Device to host: one call; the worker streams pieces back as they come off the device.
 * Copies from the device into pageable memory may finish synchronously in CUDA, too.
 * Between addresses that the device sees, pinned host memory among them: one message.
 */
#include <string.h>

#include "calls.h"
#include "capture.h"
#include "copy.h"
#include "hostmem.h"
#include "process.h"

/* ---- host to device ---- */

static void *begin_write(struct guest_thread *t, const struct copy *c, uint64_t dst,
			 uint32_t width, uint32_t height)
{
	void *payload;
	struct host_write_cmd *cmd = begin_host_write(t, width * height, &payload);

	if (!cmd)
		return NULL;
	cmd->dst = dst;
	cmd->pitch = c->dst.pitch;
	cmd->width = width;
	cmd->height = height;
	cmd->ctx = c->ctx;
	return payload;
}

static void *begin_htod(struct guest_thread *t, const struct copy *c, uint64_t stream,
			uint64_t dst, uint32_t width, uint32_t height)
{
	struct copy_htod_cmd *cmd;
	void *payload;

	if (c->ctx)
		return begin_write(t, c, dst, width, height);
	cmd = begin_copy_htod(t, width * height, &payload);
	if (!cmd)
		return NULL;
	cmd->dst = dst;
	cmd->pitch = c->dst.pitch;
	cmd->width = width;
	cmd->height = height;
	cmd->stream = stream;
	return payload;
}

static CUresult end_htod(struct guest_thread *t, bool wait)
{
	struct lane_reply reply;

	return wait ? guest_call(t, sizeof(struct copy_htod_rep), &reply) : guest_post(t);
}

/* Rows that are too long for one piece, and plain copies. */
static CUresult htod_long_row(struct guest_thread *t, const struct copy *c,
			      uint64_t stream, size_t row, bool last_row)
{
	const char *src = (const char *)(uintptr_t)c->src.addr + row * c->src.pitch;
	uint64_t dst = c->dst.addr + row * c->dst.pitch;
	size_t left = c->width;

	while (left) {
		uint32_t n = (uint32_t)MIN(left, (size_t)WIRE_PAYLOAD_MAX);
		void *payload = begin_htod(t, c, stream, dst, n, 1);
		CUresult r;

		if (!payload)
			return guest_lost(t);
		memcpy(payload, src, n);
		left -= n;
		src += n;
		dst += n;
		r = end_htod(t, c->ctx || (!c->async && last_row && !left));
		if (r)
			return r;
	}
	return CUDA_SUCCESS;
}

/* As many whole rows as fit into each piece. */
static CUresult htod_short_rows(struct guest_thread *t, const struct copy *c,
				uint64_t stream)
{
	size_t per_piece = WIRE_PAYLOAD_MAX / c->width;
	size_t row = 0, i;

	while (row < c->height) {
		size_t n = MIN(per_piece, c->height - row);
		const char *src =
			(const char *)(uintptr_t)c->src.addr + row * c->src.pitch;
		char *payload = begin_htod(t, c, stream, c->dst.addr + row * c->dst.pitch,
					   (uint32_t)c->width, (uint32_t)n);
		CUresult r;

		if (!payload)
			return guest_lost(t);
		for (i = 0; i < n; i++)
			memcpy(payload + i * c->width, src + i * c->src.pitch, c->width);
		row += n;
		r = end_htod(t, c->ctx || (!c->async && row == c->height));
		if (r)
			return r;
	}
	return CUDA_SUCCESS;
}

static CUresult htod(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	size_t row;
	CUresult r = CUDA_SUCCESS;

	if (c->height > 1 && c->width <= WIRE_PAYLOAD_MAX / 2)
		return htod_short_rows(t, c, stream);
	for (row = 0; row < c->height && r == CUDA_SUCCESS; row++)
		r = htod_long_row(t, c, stream, row, row + 1 == c->height);
	return r;
}

/* ---- device to host ---- */

/* Where the next byte of a copy into rows goes. */
struct row_sink {
	char *row;
	size_t pitch, width;
	size_t at;     /* in the row */
	uint64_t left; /* bytes in all */
};

static void sink_bytes(struct row_sink *s, const char *data, size_t size)
{
	while (size) {
		size_t n = MIN(size, s->width - s->at);

		memcpy(s->row + s->at, data, n);
		data += n;
		size -= n;
		s->left -= n;
		s->at += n;
		if (s->at == s->width) {
			s->at = 0;
			s->row += s->pitch;
		}
	}
}

static bool begin_dtoh(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct copy_dtoh_cmd *cmd = begin_copy_dtoh(t);

	if (!cmd)
		return false;
	cmd->src = c->src.addr;
	cmd->pitch = c->src.pitch;
	cmd->width = c->width;
	cmd->height = c->height;
	cmd->stream = stream;
	return true;
}

static bool begin_read(struct guest_thread *t, const struct copy *c)
{
	struct host_read_cmd *cmd = begin_host_read(t);

	if (!cmd)
		return false;
	cmd->src = c->src.addr;
	cmd->pitch = c->src.pitch;
	cmd->width = c->width;
	cmd->height = c->height;
	cmd->ctx = c->ctx;
	return true;
}

static CUresult dtoh(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct row_sink s = {.row = (char *)(uintptr_t)c->dst.addr,
			     .pitch = c->dst.pitch,
			     .width = c->width,
			     .left = (uint64_t)c->width * c->height};
	struct lane_reply reply;
	CUresult r;

	static_assert(sizeof(struct copy_dtoh_rep) == sizeof(struct host_read_rep),
		      "one way to read both");
	static_assert(sizeof(struct copy_htod_rep) == sizeof(struct host_write_rep),
		      "likewise");
	if (c->ctx ? !begin_read(t, c) : !begin_dtoh(t, c, stream))
		return guest_lost(t);
	r = guest_call(t, sizeof(struct copy_dtoh_rep), &reply);
	while (r == CUDA_SUCCESS) {
		if (reply.payload_size > s.left)
			return guest_broken(t);
		sink_bytes(&s, reply.payload, reply.payload_size);
		if (!reply.more)
			return s.left ? guest_broken(t) : CUDA_SUCCESS;
		r = guest_next(t, sizeof(struct copy_dtoh_rep), &reply);
	}
	return r;
}

/* ---- the others ---- */

static CUresult dtod(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct copy_dtod_cmd *cmd = begin_copy_dtod(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->dst = c->dst.addr;
	cmd->src = c->src.addr;
	cmd->dst_pitch = c->dst.pitch;
	cmd->src_pitch = c->src.pitch;
	cmd->width = c->width;
	cmd->height = c->height;
	cmd->stream = stream;
	/* The reply to a synchronous one within the device says that it was accepted;
	 * CUDA's does not wait. */
	cmd->wait = c->shared && !c->async;
	return c->async ? guest_post(t)
			: guest_call(t, sizeof(struct copy_dtod_rep), &reply);
}

/* A copy within the host takes its place in the stream by waiting for it. */
static CUresult wait_stream(struct guest_thread *t, uint64_t stream)
{
	struct cuStreamSynchronize_cmd *cmd = begin_cuStreamSynchronize(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->hStream = stream;
	return guest_call(t, sizeof(struct cuStreamSynchronize_rep), &reply);
}

static CUresult htoh(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	CUresult r = c->ctx ? CUDA_SUCCESS : wait_stream(t, stream);
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

/* Makes rows without gaps one row. */
static void join_rows(struct copy *c)
{
	if (c->height > 1 && c->dst.pitch == c->width && c->src.pitch == c->width &&
	    c->width <= SIZE_MAX / c->height) {
		c->width *= c->height;
		c->height = 1;
	}
}

CUresult copy_rows(struct guest_thread *t, const struct copy *given, uint64_t stream)
{
	struct copy c = *given;
	CUresult r;

	if (!c.width || !c.height)
		return CUDA_SUCCESS;
	if (!c.dst.addr || !c.src.addr ||
	    (c.height > 1 && (c.dst.pitch < c.width || c.src.pitch < c.width)))
		return CUDA_ERROR_INVALID_VALUE;
	join_rows(&c);
	if (!c.ctx && !(c.dst.device && c.src.device)) {
		r = copy_share(&c, (c.height - 1) * c.dst.pitch + c.width,
			       (c.height - 1) * c.src.pitch + c.width);
		if (r)
			return r;
	}
	if (c.dst.device)
		return c.src.device ? dtod(t, &c, stream) : htod(t, &c, stream);
	return c.src.device ? dtoh(t, &c, stream) : htoh(t, &c, stream);
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

	return c->width && c->height ? capture_copy(&p, c->stream, c->ptsz)
				     : CUDA_SUCCESS;
}

CUresult copy_do(const struct copy *c)
{
	struct guest_thread *t;
	uint64_t stream;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS && c->async && unlikely(capture_wants(c->stream, c->ptsz)))
		return capture(c);
	if (r == CUDA_SUCCESS)
		r = guest_stream(c->stream, c->ptsz, &stream);
	return r ? r : copy_rows(t, c, stream);
}
