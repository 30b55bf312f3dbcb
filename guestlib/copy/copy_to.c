/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the device cannot see, to the device. */
#include <string.h>

#include "calls.h"
#include "copy/copy_way.h"
#include "object/stream.h"
#include "object/hostfunc.h"
#include "object/hostmem.h"
#include "core/move.h"
#include "core/process.h"

/* Copies that nobody waits for share slots of a stage up to here; below, they travel in
 * the lane, and the driver takes pageable bytes at once. */
#define SMALL_BYTES (64u << 10)
#define TINY_BYTES  (2u << 10)

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
	return copy_on_device(t, &dev, stream);
}

static CUresult send_piece(struct guest_thread *t, const struct copy *c, uint64_t stream,
			   const struct piece *p, const struct copy_way *w)
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
			      uint64_t stream, size_t row, const struct copy_way *w)
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
				uint64_t stream, const struct copy_way *w)
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

CUresult copy_to_device(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	size_t total = c->width * c->height, row;
	CUresult r = CUDA_SUCCESS;
	struct stage_piece room;
	struct copy_way w;

	if (unlikely(read_in_order(c)))
		r = stream_wait(t, stream);
	if (r)
		return r;
	if (c->async && total <= SMALL_BYTES && !c->ctx)
		return htod_small(t, c, stream);
	if (!c->async && total <= STAGE_SLOT_BYTES && !c->ctx &&
	    stage_append(t, STAGE_TAKEN, stream, total, &room))
		return htod_taken(t, c, stream, &room);
	w = copy_way_find(t, c, total, STAGE_TO_DEVICE);
	if (c->height > 1 && c->width <= w.piece / 2)
		r = htod_short_rows(t, c, stream, &w);
	else
		for (row = 0; row < c->height && r == CUDA_SUCCESS; row++)
			r = htod_long_row(t, c, stream, row, &w);
	copy_way_end(&w, true);
	return r;
}
