/* SPDX-License-Identifier: Apache-2.0 */
/* From the device to host memory that it cannot see. */
#include "calls.h"
#include "copy/copy_way.h"
#include "object/stream.h"
#include "core/move.h"
#include "core/process.h"

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
	uint64_t now = idle_now();
	CUresult r;

	static_assert(sizeof(struct copy_dtoh_rep) == sizeof(struct host_read_rep),
		      "one way to read both");
	static_assert(sizeof(struct copy_htod_rep) == sizeof(struct host_write_rep),
		      "likewise");
	if (c->ctx ? !begin_read(t, c) : !begin_dtoh(t, c, stream))
		return guest_lost(t);
	r = guest_ask(t, sizeof(struct copy_dtoh_rep), &reply);
	if (r == CUDA_SUCCESS && !c->ctx) /* what came before the copy is done */
		idle_note(t, stream, now);
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
		      const struct copy_way *w, struct arrivals *a, CUresult *ret_r)
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
	*ret_r = copy_on_device(t, &dev, stream);
	a->offset += a->size[i];
	a->n++;
	return true;
}

/* Takes the oldest piece, waiting for it. */
static CUresult take_piece(struct guest_thread *t, uint64_t stream,
			   const struct copy_way *w, struct arrivals *a,
			   struct row_sink *s)
{
	const struct stage_piece *p = &a->piece[a->first];
	CUresult r = CUDA_SUCCESS;

	if (!stage_done(w->stage, p)) {
		r = stream_wait(t, stream);
		if (r == CUDA_SUCCESS && !stage_done(w->stage, p))
			return guest_broken(t);
	}
	/* A copy that was refused is known before its mark can be done. */
	if (r == CUDA_SUCCESS && unlikely(guest_process.status->deferred))
		r = stream_wait(t, stream);
	if (r)
		return r;
	sink_bytes(s, p->mem, a->size[a->first], w->helped);
	a->first = (a->first + 1) % STAGE_SLOTS;
	a->n--;
	return CUDA_SUCCESS;
}

static CUresult receive_staged(struct guest_thread *t, const struct copy *c,
			       uint64_t stream, const struct copy_way *w,
			       struct row_sink *s)
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
	return r ? r : stream_wait(t, stream);
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
	struct lane_reply reply;
	uint64_t now = idle_now();
	CUresult r;

	if (!copy_begin_on_device(t, &dev, stream))
		return guest_lost(t);
	r = guest_send(t);
	if (r)
		return r;
	if (c->height == 1) /* the device is at work for some microseconds */
		move_prepare(s->row, s->left);
	r = guest_answer(t, sizeof(struct copy_dtod_rep), &reply);
	if (r)
		return r;
	idle_note(t, stream, now);
	sink_bytes(s, room->mem, s->left, false);
	return CUDA_SUCCESS;
}

CUresult copy_from_device(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct row_sink s = {.row = (char *)(uintptr_t)c->dst.addr,
			     .pitch = c->dst.pitch,
			     .width = c->width,
			     .left = (uint64_t)c->width * c->height};
	struct copy_way w = copy_way_find(t, c, s.left, STAGE_TO_HOST);
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
	copy_way_end(&w, r == CUDA_SUCCESS);
	return r;
}
