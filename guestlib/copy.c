// SPDX-License-Identifier: Apache-2.0
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

#include "calls.h"
#include "capture.h"
#include "copy.h"
#include "extent.h"
#include "hostmem.h"
#include "move.h"
#include "process.h"
#include "stage.h"

/* Copies that nobody waits for share slots of a stage up to here; below, they travel in
 * the lane, and the driver takes pageable bytes at once. */
#define SMALL_BYTES (64u << 10)
#define TINY_BYTES  (2u << 10)
/* From here on helper threads move bytes. */
#define HELPED_BYTES (4u << 20)
#define LARGE_PIECE  (1u << 20)
static_assert(LARGE_PIECE <= WIRE_PAYLOAD_MAX, "pieces fit into a lane as well");

/* ---- within the device ---- */

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
	cmd->mark = c->mark;
	cmd->number = c->number;
	return c->async ? guest_post(t)
			: guest_call(t, sizeof(struct copy_dtod_rep), &reply);
}

static CUresult wait_stream(struct guest_thread *t, uint64_t stream)
{
	struct cuStreamSynchronize_cmd *cmd = begin_cuStreamSynchronize(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->hStream = stream;
	return guest_call(t, sizeof(struct cuStreamSynchronize_rep), &reply);
}

/* ---- host to device ---- */

/* Rows on their way, packed without gaps between here and there. */
struct piece {
	uint64_t dst;
	const char *src;
	size_t width, height;
	bool last; /* of the copy */
};

static void pack(char *to, const struct piece *p, size_t src_pitch, bool helped)
{
	if (p->height == 1) {
		move_bytes(to, p->src, p->width, helped);
		return;
	}
	for (size_t i = 0; i < p->height; i++)
		memcpy(to + i * p->width, p->src + i * src_pitch, p->width);
}

static void *begin_write(struct guest_thread *t, const struct copy *c,
			 const struct piece *p)
{
	void *payload;
	struct host_write_cmd *cmd =
		begin_host_write(t, (uint32_t)(p->width * p->height), &payload);

	if (!cmd)
		return NULL;
	cmd->dst = p->dst;
	cmd->pitch = c->dst.pitch;
	cmd->width = (uint32_t)p->width;
	cmd->height = (uint32_t)p->height;
	cmd->ctx = c->ctx;
	return payload;
}

static void *begin_htod(struct guest_thread *t, const struct copy *c, uint64_t stream,
			const struct piece *p)
{
	struct copy_htod_cmd *cmd;
	void *payload;

	if (c->ctx)
		return begin_write(t, c, p);
	cmd = begin_copy_htod(t, (uint32_t)(p->width * p->height), &payload);
	if (!cmd)
		return NULL;
	cmd->dst = p->dst;
	cmd->pitch = c->dst.pitch;
	cmd->width = (uint32_t)p->width;
	cmd->height = (uint32_t)p->height;
	cmd->stream = stream;
	return payload;
}

/* Through the lane. */
static CUresult send_payload(struct guest_thread *t, const struct copy *c,
			     uint64_t stream, const struct piece *p)
{
	struct lane_reply reply;
	char *payload = begin_htod(t, c, stream, p);

	if (!payload)
		return guest_lost(t);
	pack(payload, p, c->src.pitch, false);
	return c->ctx || (!c->async && p->last)
		       ? guest_call(t, sizeof(struct copy_htod_rep), &reply)
		       : guest_post(t);
}

/* Through a stage: the device fetches the bytes by itself. */
static CUresult send_staged(struct guest_thread *t, const struct copy *c, uint64_t stream,
			    const struct piece *p, const struct stage_piece *room,
			    bool helped)
{
	struct copy dev = {.dst = {.addr = p->dst, .pitch = c->dst.pitch},
			   .src = {.addr = room->dev, .pitch = p->width},
			   .width = p->width,
			   .height = p->height,
			   .shared = true,
			   .mark = room->mark.addr,
			   .number = room->mark.number,
			   .async = c->async || !p->last};

	pack(room->mem, p, c->src.pitch, helped);
	return dtod(t, &dev, stream);
}

/* How the pieces of a copy travel. */
struct way {
	struct stage *stage; /* NULL: through the lane */
	bool helped;
	size_t piece; /* bytes */
};

static struct way find_way(struct guest_thread *t, const struct copy *c, size_t total,
			   enum stage_use use)
{
	struct way w = {.piece = WIRE_PAYLOAD_MAX};

	if (c->ctx || !guest_process.host_size)
		return w;
	w.stage = stage_take(t, use);
	if (!w.stage)
		return w;
	w.helped = total >= HELPED_BYTES && c->height == 1 && move_begin();
	/* Several pieces of a middling copy overlap; a large one is shared by helpers. */
	w.piece = total >= HELPED_BYTES ? LARGE_PIECE : STAGE_SLOT_BYTES;
	return w;
}

static CUresult send_piece(struct guest_thread *t, const struct copy *c, uint64_t stream,
			   const struct piece *p, const struct way *w)
{
	struct stage_piece room;

	if (!w->stage || !stage_room(w->stage, p->width * p->height, &room))
		return send_payload(t, c, stream, p);
	if (c->async || !p->last)
		stage_mark(w->stage, &room);
	return send_staged(t, c, stream, p, &room, w->helped);
}

/* Rows that are too long for one piece, and plain copies. */
static CUresult htod_long_row(struct guest_thread *t, const struct copy *c,
			      uint64_t stream, size_t row, const struct way *w)
{
	struct piece p = {.src = (const char *)(uintptr_t)c->src.addr +
				 row * c->src.pitch,
			  .dst = c->dst.addr + row * c->dst.pitch,
			  .height = 1};
	size_t left = c->width;
	CUresult r = CUDA_SUCCESS;

	while (left && r == CUDA_SUCCESS) {
		p.width = MIN(left, w->piece);
		left -= p.width;
		p.last = !left && row + 1 == c->height;
		r = send_piece(t, c, stream, &p, w);
		p.src += p.width;
		p.dst += p.width;
	}
	return r;
}

/* As many whole rows as fit into each piece. */
static CUresult htod_short_rows(struct guest_thread *t, const struct copy *c,
				uint64_t stream, const struct way *w)
{
	size_t per_piece = w->piece / c->width;
	CUresult r = CUDA_SUCCESS;
	size_t row = 0;

	while (row < c->height && r == CUDA_SUCCESS) {
		struct piece p = {
			.src = (const char *)(uintptr_t)c->src.addr + row * c->src.pitch,
			.dst = c->dst.addr + row * c->dst.pitch,
			.width = c->width,
			.height = MIN(per_piece, c->height - row),
		};

		row += p.height;
		p.last = row == c->height;
		r = send_piece(t, c, stream, &p, w);
	}
	return r;
}

static struct piece whole(const struct copy *c)
{
	return (struct piece){.src = (const char *)(uintptr_t)c->src.addr,
			      .dst = c->dst.addr,
			      .width = c->width,
			      .height = c->height,
			      .last = true};
}

/* Many of these share a slot. */
static CUresult htod_small(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct piece p = whole(c);
	struct stage_piece room;

	if (c->width * c->height > TINY_BYTES &&
	    stage_append(t, STAGE_POSTED, stream, c->width * c->height, &room))
		return send_staged(t, c, stream, &p, &room, false);
	return send_payload(t, c, stream, &p);
}

/*
 * A synchronous copy of pageable memory is over for CUDA when its bytes have been taken:
 * here, when the device has been told.
 */
static CUresult htod_taken(struct guest_thread *t, const struct copy *c, uint64_t stream,
			   const struct stage_piece *room)
{
	const struct piece p = whole(c);
	struct copy_take_cmd *cmd;
	struct lane_reply reply;

	pack(room->mem, &p, c->src.pitch, false);
	cmd = begin_copy_take(t);
	if (!cmd)
		return guest_lost(t);
	cmd->dst = c->dst.addr;
	cmd->src = room->dev;
	cmd->dst_pitch = c->dst.pitch;
	cmd->src_pitch = c->width;
	cmd->width = c->width;
	cmd->height = c->height;
	cmd->stream = stream;
	cmd->mark = room->mark.addr;
	cmd->number = room->mark.number;
	return guest_call(t, sizeof(struct copy_take_rep), &reply);
}

/*
 * Whether the bytes may only be read when the stream gets there: a function of the
 * program in the stream may be what writes them. Pinned memory that the device cannot see
 * is read in stream order; pageable memory at once, but for copies that wait anyway.
 */
static bool read_in_order(const struct copy *c)
{
	struct hostmem h;

	if (likely(!hostfunc_pending()) || c->ctx)
		return false;
	return !c->async || hostmem_find(c->src.addr, &h);
}

static CUresult htod(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	size_t total = c->width * c->height, row;
	CUresult r = CUDA_SUCCESS;
	struct stage_piece room;
	struct way w;

	if (unlikely(read_in_order(c)))
		r = wait_stream(t, stream);
	if (r)
		return r;
	if (c->async && total <= SMALL_BYTES && !c->ctx)
		return htod_small(t, c, stream);
	if (!c->async && total <= STAGE_SLOT_BYTES && !c->ctx &&
	    stage_append(t, STAGE_TAKEN, stream, total, &room))
		return htod_taken(t, c, stream, &room);
	w = find_way(t, c, total, STAGE_TO_DEVICE);
	if (c->height > 1 && c->width <= w.piece / 2)
		r = htod_short_rows(t, c, stream, &w);
	else
		for (row = 0; row < c->height && r == CUDA_SUCCESS; row++)
			r = htod_long_row(t, c, stream, row, &w);
	if (w.helped)
		move_end();
	if (w.stage)
		stage_put(w.stage, STAGE_TO_DEVICE, true);
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

static void sink_bytes(struct row_sink *s, const char *data, size_t size, bool helped)
{
	while (size) {
		size_t n = MIN(size, s->width - s->at);

		move_bytes(s->row + s->at, data, n, helped);
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

static CUresult receive_payload(struct guest_thread *t, const struct copy *c,
				uint64_t stream, struct row_sink *s)
{
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
		if (reply.payload_size > s->left)
			return guest_broken(t);
		sink_bytes(s, reply.payload, reply.payload_size, false);
		if (!reply.more)
			return s->left ? guest_broken(t) : CUDA_SUCCESS;
		r = guest_next(t, sizeof(struct copy_dtoh_rep), &reply);
	}
	return r;
}

/* Pieces that the device is bringing, oldest first. */
struct arrivals {
	struct stage_piece piece[STAGE_SLOTS];
	uint32_t size[STAGE_SLOTS];
	unsigned first, n, max;
	size_t offset; /* of the next piece to ask for, in packed rows */
};

/* Asks the device for the next piece; *ret_r if there was room to. */
static bool ask_piece(struct guest_thread *t, const struct copy *c, uint64_t stream,
		      const struct way *w, struct arrivals *a, CUresult *ret_r)
{
	size_t rows = c->height > 1 ? w->piece / c->width : 1;
	size_t row = c->height > 1 ? a->offset / c->width : 0;
	struct copy dev = {.src = {.addr = c->src.addr, .pitch = c->src.pitch},
			   .shared = true,
			   .async = true};
	unsigned i = (a->first + a->n) % STAGE_SLOTS;

	dev.height = MIN(rows, c->height - row);
	dev.width = c->height > 1 ? c->width : MIN(c->width - a->offset, w->piece);
	dev.src.addr += c->height > 1 ? row * c->src.pitch : a->offset;
	a->size[i] = (uint32_t)(dev.width * dev.height);
	if (!stage_room(w->stage, a->size[i], &a->piece[i]))
		return false;
	dev.dst = (struct copy_side){.addr = a->piece[i].dev, .pitch = dev.width};
	stage_mark(w->stage, &a->piece[i]);
	dev.mark = a->piece[i].mark.addr;
	dev.number = a->piece[i].mark.number;
	*ret_r = dtod(t, &dev, stream);
	a->offset += a->size[i];
	a->n++;
	return true;
}

/* Takes the oldest piece, waiting for it. */
static CUresult take_piece(struct guest_thread *t, uint64_t stream, const struct way *w,
			   struct arrivals *a, struct row_sink *s)
{
	const struct stage_piece *p = &a->piece[a->first];
	CUresult r = CUDA_SUCCESS;

	if (!stage_done(w->stage, p)) {
		r = wait_stream(t, stream);
		if (r == CUDA_SUCCESS && !stage_done(w->stage, p))
			return guest_broken(t);
	}
	/* A copy that was refused is known before its mark can be done. */
	if (r == CUDA_SUCCESS && unlikely(guest_process.status->deferred))
		r = wait_stream(t, stream);
	if (r)
		return r;
	sink_bytes(s, p->mem, a->size[a->first], w->helped);
	a->first = (a->first + 1) % STAGE_SLOTS;
	a->n--;
	return CUDA_SUCCESS;
}

static CUresult receive_staged(struct guest_thread *t, const struct copy *c,
			       uint64_t stream, const struct way *w, struct row_sink *s)
{
	/* One less, as pieces need not begin where the slots do. */
	struct arrivals a = {
		.max = STAGE_SLOTS / (unsigned)(w->piece / STAGE_SLOT_BYTES) - 1};
	size_t total = s->left;
	CUresult r = CUDA_SUCCESS;

	while (s->left && r == CUDA_SUCCESS) {
		while (a.offset < total && a.n < a.max && r == CUDA_SUCCESS) {
			if (!ask_piece(t, c, stream, w, &a, &r))
				return guest_broken(t); /* nobody else has the stage */
		}
		if (r == CUDA_SUCCESS)
			r = take_piece(t, stream, w, &a, s);
	}
	/* Tells what has failed before, and lets printed text come first. */
	return r ? r : wait_stream(t, stream);
}

/* All of it in one piece: the reply says that it is there. */
static CUresult receive_small(struct guest_thread *t, const struct copy *c,
			      uint64_t stream, const struct stage_piece *room,
			      struct row_sink *s)
{
	struct copy dev = {.src = c->src,
			   .dst = {.addr = room->dev, .pitch = c->width},
			   .width = c->width,
			   .height = c->height,
			   .shared = true};
	CUresult r = dtod(t, &dev, stream);

	if (r == CUDA_SUCCESS)
		sink_bytes(s, room->mem, s->left, false);
	return r;
}

static CUresult dtoh(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct row_sink s = {.row = (char *)(uintptr_t)c->dst.addr,
			     .pitch = c->dst.pitch,
			     .width = c->width,
			     .left = (uint64_t)c->width * c->height};
	struct way w = find_way(t, c, s.left, STAGE_TO_HOST);
	struct stage_piece room;
	CUresult r;

	if (!w.stage || (c->height > 1 && c->width > w.piece))
		r = receive_payload(t, c, stream, &s);
	else if (s.left > STAGE_SLOT_BYTES)
		r = receive_staged(t, c, stream, &w, &s);
	else if (stage_room(w.stage, s.left, &room))
		r = receive_small(t, c, stream, &room, &s);
	else
		r = receive_payload(t, c, stream, &s);
	if (w.helped)
		move_end();
	if (w.stage)
		stage_put(w.stage, STAGE_TO_HOST, r == CUDA_SUCCESS);
	return r;
}

/* ---- within the host ---- */

/* Takes its place in the stream by waiting for it. */
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

CUresult copy_rows(struct guest_thread *t, const struct copy *given, uint64_t stream)
{
	struct copy c = *given;
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
	CUresult r = guest_enter(guest_need_on(c->stream), &t);

	if (r == CUDA_SUCCESS && c->async && unlikely(capture_wants(c->stream, c->ptsz)))
		return capture(c);
	if (r == CUDA_SUCCESS)
		r = guest_stream(c->stream, c->ptsz, &stream);
	return r ? r : copy_rows(t, c, stream);
}
