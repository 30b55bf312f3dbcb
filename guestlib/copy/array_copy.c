/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: copies from and to arrays
 *
 * Host memory that the device sees is device memory: one message. Other memory of the
 * program goes in pieces, boxes that are packed, through a stage (stage.h), from and to
 * which the device copies side by side with the processor. Small writes, and everything
 * where there is no shared memory, go through the lane, a call for each piece; so do
 * copies that a graph has this process carry out (copy.ctx).
 *
 * Data for the device has been copied out when a copy returns, data from it has arrived.
 */
#include <string.h>

#include "copy/array_copy.h"
#include "object/array.h"
#include "calls.h"
#include "object/stream.h"
#include "core/move.h"
#include "core/process.h"
#include "copy/stage.h"

/* Two slots of a stage: eight pieces are under way at once. */
#define STAGED_PIECE (2u * STAGE_SLOT_BYTES)
#define IN_FLIGHT    (STAGE_SLOTS * STAGE_SLOT_BYTES / STAGED_PIECE - 1)

/* From here on helpers move rows without gaps, in pieces that are worth it. */
#define HELPED_BYTES (4u << 20)
#define HELPED_PIECE (1u << 20)
/* One less, as pieces need not begin where the slots do. */
#define HELPED_FLIGHT (STAGE_SLOTS * STAGE_SLOT_BYTES / HELPED_PIECE - 1)

/* Up to here a write goes through the lane. */
#define SMALL_BYTES (64u << 10)

/* A box of an array and where its first byte is in the program's memory. */
struct piece {
	char *host;
	size_t x, y, z; /* from the whole's beginning */
	size_t width, height, depth;
	bool last;
};

/* A copy as pieces, in order of memory. */
struct cut {
	const struct copy_box *box;
	const struct copy_place *at;
	char *host;
	size_t pitch, slice;
	size_t dx, dy, dz; /* of a whole piece */
	size_t x, y, z;    /* of the next */
	bool helped;       /* move.h */
};

/* Whole slices if one fits, else whole rows, else parts of rows. */
static void cut_init(struct cut *c, const struct copy_box *b, bool write, size_t max)
{
	const struct copy_side *host = write ? &b->rows.src : &b->rows.dst;
	size_t w = b->rows.width, h = b->rows.height;

	*c = (struct cut){.box = b,
			  .at = write ? &b->dst_at : &b->src_at,
			  .host = (char *)(uintptr_t)host->addr,
			  .pitch = host->pitch,
			  .slice = write ? b->src_slice : b->dst_slice};
	c->dx = MIN(w, max);
	c->dy = w > max ? 1 : MIN(h, max / w);
	c->dz = w <= max && c->dy == h ? MIN(b->depth, max / (w * h)) : 1;
}

static bool cut_next(struct cut *c, struct piece *ret)
{
	size_t w = c->box->rows.width, h = c->box->rows.height, d = c->box->depth;

	if (c->z >= d)
		return false;
	*ret = (struct piece){.host = c->host + c->z * c->slice + c->y * c->pitch + c->x,
			      .x = c->x,
			      .y = c->y,
			      .z = c->z,
			      .width = MIN(c->dx, w - c->x),
			      .height = MIN(c->dy, h - c->y),
			      .depth = MIN(c->dz, d - c->z)};
	c->x += c->dx;
	if (c->x >= w) {
		c->x = 0;
		c->y += c->dy;
	}
	if (c->y >= h) {
		c->y = 0;
		c->z += c->dz;
	}
	ret->last = c->z >= d;
	return true;
}

static size_t piece_bytes(const struct piece *p)
{
	return p->width * p->height * p->depth;
}

/* Moves all rows between memory and the packed form. */
static void move_rows(const struct cut *c, const struct piece *p, char *packed,
		      bool to_host)
{
	size_t y, z;

	if (p->width == c->pitch && (p->depth == 1 || c->slice == p->height * c->pitch)) {
		move_bytes(to_host ? p->host : packed, to_host ? packed : p->host,
			   piece_bytes(p), c->helped);
		return;
	}
	for (z = 0; z < p->depth; z++) {
		for (y = 0; y < p->height; y++) {
			char *row = p->host + z * c->slice + y * c->pitch;

			memcpy(to_host ? row : packed, to_host ? packed : row, p->width);
			packed += p->width;
		}
	}
}

/* ---- through the lane ---- */

static struct wire_array_box box_of(const struct cut *c, const struct piece *p)
{
	return (struct wire_array_box){.array = c->at->array->root,
				       .level = c->at->array->level,
				       .x = (uint32_t)(c->at->x + p->x),
				       .y = (uint32_t)(c->at->y + p->y),
				       .z = (uint32_t)(c->at->z + p->z),
				       .width = p->width,
				       .height = (uint32_t)p->height,
				       .depth = (uint32_t)p->depth};
}

/* Where the bytes go; NULL: guest_lost(). */
static void *begin_write(struct guest_thread *t, const struct cut *c,
			 const struct piece *p, uint64_t stream)
{
	uint32_t bytes = (uint32_t)piece_bytes(p);
	struct host_array_write_cmd *of_graph;
	struct array_write_cmd *cmd;
	void *payload;

	if (c->box->rows.ctx) {
		of_graph = begin_host_array_write(t, bytes, &payload);
		if (!of_graph)
			return NULL;
		of_graph->box = box_of(c, p);
		of_graph->ctx = c->box->rows.ctx;
		return payload;
	}
	cmd = begin_array_write(t, bytes, &payload);
	if (!cmd)
		return NULL;
	cmd->box = box_of(c, p);
	cmd->stream = stream;
	return payload;
}

static CUresult send_piece(struct guest_thread *t, const struct cut *c,
			   const struct piece *p, uint64_t stream)
{
	void *payload = begin_write(t, c, p, stream);
	struct lane_reply reply;

	if (!payload)
		return guest_lost(t);
	move_rows(c, p, payload, false);
	return guest_call(t, sizeof(struct array_write_rep), &reply);
}

static bool begin_read(struct guest_thread *t, const struct cut *c, const struct piece *p,
		       uint64_t stream)
{
	struct host_array_read_cmd *of_graph;
	struct array_read_cmd *cmd;

	if (c->box->rows.ctx) {
		of_graph = begin_host_array_read(t);
		if (!of_graph)
			return false;
		of_graph->box = box_of(c, p);
		of_graph->ctx = c->box->rows.ctx;
		return true;
	}
	cmd = begin_array_read(t);
	if (!cmd)
		return false;
	cmd->box = box_of(c, p);
	cmd->stream = stream;
	return true;
}

static CUresult receive_piece(struct guest_thread *t, const struct cut *c,
			      const struct piece *p, uint64_t stream)
{
	struct lane_reply reply;
	CUresult r;

	if (!begin_read(t, c, p, stream))
		return guest_lost(t);
	r = guest_call(t, sizeof(struct array_read_rep), &reply);
	if (r)
		return r;
	if (reply.payload_size != piece_bytes(p) || reply.more)
		return guest_broken(t);
	move_rows(c, p, (char *)(uintptr_t)reply.payload, true);
	return CUDA_SUCCESS;
}

static CUresult through_lane(struct guest_thread *t, const struct copy_box *b, bool write,
			     uint64_t stream)
{
	CUresult r = CUDA_SUCCESS;
	struct piece p;
	struct cut c;

	cut_init(&c, b, write, WIRE_PAYLOAD_MAX);
	while (r == CUDA_SUCCESS && cut_next(&c, &p))
		r = write ? send_piece(t, &c, &p, stream)
			  : receive_piece(t, &c, &p, stream);
	return r;
}

/* ---- on the device ---- */

struct wire_array_side array_side(const struct copy_place *at,
				  const struct copy_side *side, size_t slice)
{
	return (struct wire_array_side){.array = at->array ? at->array->root : 0,
					.addr = at->array ? 0 : side->addr,
					.pitch = side->pitch,
					.slice = slice,
					.level = at->array ? at->array->level : 0,
					.x = (uint32_t)at->x,
					.y = (uint32_t)at->y,
					.z = (uint32_t)at->z};
}

static CUresult on_device(struct guest_thread *t, const struct copy_box *b,
			  uint64_t stream, bool async)
{
	struct array_copy_cmd *cmd = begin_array_copy(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->dst = array_side(&b->dst_at, &b->rows.dst, b->dst_slice);
	cmd->src = array_side(&b->src_at, &b->rows.src, b->src_slice);
	cmd->width = (uint32_t)b->rows.width;
	cmd->height = (uint32_t)b->rows.height;
	cmd->depth = (uint32_t)b->depth;
	cmd->wait = b->rows.shared && !async;
	cmd->stream = stream;
	return async ? guest_post(t)
		     : guest_call(t, sizeof(struct array_copy_rep), &reply);
}

/* Between a piece of the array and its place in a stage. */
static CUresult with_stage(struct guest_thread *t, const struct cut *c,
			   const struct piece *p, const struct stage_piece *room,
			   bool write, uint64_t stream, bool async)
{
	struct copy_box b = {
		.rows = {.width = p->width, .height = p->height, .shared = true},
		.depth = p->depth};
	struct copy_place at = {.array = c->at->array,
				.x = c->at->x + p->x,
				.y = c->at->y + p->y,
				.z = c->at->z + p->z};
	struct copy_side side = {.device = true, .addr = room->dev, .pitch = p->width};

	if (write) {
		b.dst_at = at;
		b.rows.src = side;
		b.src_slice = p->width * p->height;
	} else {
		b.src_at = at;
		b.rows.dst = side;
		b.dst_slice = p->width * p->height;
	}
	return on_device(t, &b, stream, async);
}

/* ---- through a stage ---- */

/* Has the device say, behind the copy, that it is done with a piece of the stage. */
static CUresult mark(struct guest_thread *t, struct stage *stage,
		     struct stage_piece *room, uint64_t stream)
{
	struct fill_cmd *cmd = begin_fill(t);

	if (!cmd)
		return guest_lost(t);
	stage_mark(stage, room);
	cmd->dst = room->mark.addr;
	cmd->pitch = 0;
	cmd->width = 1;
	cmd->height = 1;
	cmd->value = room->mark.number;
	cmd->elem_bytes = sizeof(room->mark.number);
	cmd->stream = stream;
	return guest_post(t);
}

static CUresult write_staged(struct guest_thread *t, const struct copy_box *b,
			     struct stage *stage, bool helped, uint64_t stream,
			     bool async)
{
	struct stage_piece room;
	CUresult r = CUDA_SUCCESS;
	struct piece p;
	struct cut c;

	cut_init(&c, b, true, helped ? HELPED_PIECE : STAGED_PIECE);
	c.helped = helped;
	while (r == CUDA_SUCCESS && cut_next(&c, &p)) {
		bool post = async || !p.last;

		if (!stage_room(stage, piece_bytes(&p), &room)) {
			r = send_piece(t, &c, &p, stream);
			continue;
		}
		move_rows(&c, &p, room.mem, false);
		r = with_stage(t, &c, &p, &room, true, stream, post);
		if (r == CUDA_SUCCESS && post)
			r = mark(t, stage, &room, stream);
	}
	return r;
}

/* Pieces that the device is bringing, oldest first. */
struct arrivals {
	struct {
		struct piece p;
		struct stage_piece room;
	} a[IN_FLIGHT];
	unsigned first, n, max;
};

static CUresult ask(struct guest_thread *t, const struct cut *c, const struct piece *p,
		    struct stage *stage, uint64_t stream, struct arrivals *v)
{
	unsigned i = (v->first + v->n) % IN_FLIGHT;
	CUresult r;

	v->a[i].p = *p;
	if (!stage_room(stage, piece_bytes(p), &v->a[i].room))
		return guest_broken(t); /* nobody else has the stage */
	r = with_stage(t, c, p, &v->a[i].room, false, stream, true);
	if (r == CUDA_SUCCESS)
		r = mark(t, stage, &v->a[i].room, stream);
	v->n++;
	return r;
}

/* The oldest piece, once it is there. */
static CUresult take(struct guest_thread *t, const struct cut *c, struct stage *stage,
		     uint64_t stream, struct arrivals *v)
{
	const struct stage_piece *room = &v->a[v->first].room;
	CUresult r = CUDA_SUCCESS;

	if (!stage_done(stage, room)) {
		r = stream_wait(t, stream);
		if (r == CUDA_SUCCESS && !stage_done(stage, room))
			return guest_broken(t);
	}
	/* A copy that was refused is known before its mark can be done. */
	if (r == CUDA_SUCCESS && unlikely(guest_process.status->deferred))
		r = stream_wait(t, stream);
	if (r)
		return r;
	move_rows(c, &v->a[v->first].p, room->mem, true);
	v->first = (v->first + 1) % IN_FLIGHT;
	v->n--;
	return CUDA_SUCCESS;
}

static CUresult read_staged(struct guest_thread *t, const struct copy_box *b,
			    struct stage *stage, bool helped, uint64_t stream)
{
	struct arrivals v = {.max = helped ? HELPED_FLIGHT : IN_FLIGHT};
	struct stage_piece room;
	CUresult r = CUDA_SUCCESS;
	struct piece p;
	struct cut c;
	bool more;

	cut_init(&c, b, false, helped ? HELPED_PIECE : STAGED_PIECE);
	c.helped = helped;
	more = cut_next(&c, &p);
	if (p.last && stage_room(stage, piece_bytes(&p), &room)) {
		r = with_stage(t, &c, &p, &room, false, stream, false);
		if (r == CUDA_SUCCESS)
			move_rows(&c, &p, room.mem, true);
		return r;
	}
	while (r == CUDA_SUCCESS && (more || v.n)) {
		while (r == CUDA_SUCCESS && more && v.n < v.max) {
			r = ask(t, &c, &p, stage, stream, &v);
			more = cut_next(&c, &p);
		}
		if (r == CUDA_SUCCESS)
			r = take(t, &c, stage, stream, &v);
	}
	/* Tells what has failed before, and lets printed text come first. */
	return r ? r : stream_wait(t, stream);
}

static CUresult with_host(struct guest_thread *t, const struct copy_box *b, bool write,
			  uint64_t stream, bool async)
{
	enum stage_use use = write ? STAGE_TO_DEVICE : STAGE_TO_HOST;
	size_t total = b->rows.width * b->rows.height * b->depth;
	const struct copy_side *host = write ? &b->rows.src : &b->rows.dst;
	struct stage *stage = NULL;
	bool helped;
	CUresult r;

	if (guest_process.host_size && !b->rows.ctx && !(write && total <= SMALL_BYTES))
		stage = stage_take(t, use);
	if (!stage)
		return through_lane(t, b, write, stream);
	helped = total >= HELPED_BYTES && host->pitch == b->rows.width && move_begin();
	r = write ? write_staged(t, b, stage, helped, stream, async)
		  : read_staged(t, b, stage, helped, stream);
	if (helped)
		move_end();
	stage_put(stage, use, write || r == CUDA_SUCCESS);
	return r;
}

static bool fits(const struct copy_place *at, const struct copy_box *b)
{
	return !at->array || array_holds(&at->array->shape, at->x, at->y, at->z,
					 b->rows.width, b->rows.height, b->depth);
}

bool array_copy_fits(const struct copy_box *b)
{
	return fits(&b->dst_at, b) && fits(&b->src_at, b);
}

CUresult array_copy_box(struct guest_thread *t, const struct copy_box *b, uint64_t stream,
			bool async)
{
	bool dst_host = !b->dst_at.array && !b->rows.dst.device;
	bool src_host = !b->src_at.array && !b->rows.src.device;
	struct copy_box shared = *b;
	struct managed_hold hold;
	CUresult r;

	if (!array_copy_fits(b))
		return CUDA_ERROR_INVALID_VALUE;
	copy_share_managed(&shared.rows);
	r = copy_begin(t, &shared.rows, &hold);
	if (r)
		return r;
	r = dst_host || src_host ? with_host(t, b, src_host, stream, async)
				 : on_device(t, &shared, stream, async);
	managed_done(&hold);
	return r;
}
