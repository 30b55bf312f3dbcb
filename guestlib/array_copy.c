// SPDX-License-Identifier: Apache-2.0
/*
 * Copies from and to arrays. Between an array and the program's memory bytes travel
 * packed, in boxes of at most WIRE_PAYLOAD_MAX, each in a call: the worker stages
 * nothing, so an asynchronous copy of this kind has been done when it returns. Host
 * memory that the device sees is device memory here.
 */
#include <string.h>

#include "array.h"
#include "calls.h"

/* A box of an array and where its first byte is in the program's memory. */
struct piece {
	const struct copy_place *at; /* of the whole */
	char *host;
	size_t pitch, slice;
	size_t x, y, z; /* of this one, from the whole's beginning */
	size_t width, height, depth;
};

static size_t piece_bytes(const struct piece *p)
{
	return p->width * p->height * p->depth;
}

/* Moves all rows between memory and the packed form. */
static void move_rows(const struct piece *p, char *packed, bool to_host)
{
	size_t y, z;

	for (z = 0; z < p->depth; z++) {
		for (y = 0; y < p->height; y++) {
			char *row = p->host + z * p->slice + y * p->pitch;

			memcpy(to_host ? row : packed, to_host ? packed : row, p->width);
			packed += p->width;
		}
	}
}

/* The fields that array_write and array_read share. */
#define FILL_BOX(cmd, p, wire_stream)                                                    \
	do {                                                                             \
		(cmd)->array = (p)->at->array->root;                                     \
		(cmd)->level = (p)->at->array->level;                                    \
		(cmd)->x = (uint32_t)((p)->at->x + (p)->x);                              \
		(cmd)->y = (uint32_t)((p)->at->y + (p)->y);                              \
		(cmd)->z = (uint32_t)((p)->at->z + (p)->z);                              \
		(cmd)->width = (uint32_t)(p)->width;                                     \
		(cmd)->height = (uint32_t)(p)->height;                                   \
		(cmd)->depth = (uint32_t)(p)->depth;                                     \
		(cmd)->stream = (wire_stream);                                           \
	} while (0)

static CUresult write_piece(struct guest_thread *t, const struct piece *p,
			    uint64_t stream)
{
	struct array_write_cmd *cmd;
	struct lane_reply reply;
	void *payload;

	cmd = begin_array_write(t, (uint32_t)piece_bytes(p), &payload);
	if (!cmd)
		return guest_lost(t);
	FILL_BOX(cmd, p, stream);
	move_rows(p, payload, false);
	return guest_call(t, sizeof(struct array_write_rep), &reply);
}

static CUresult read_piece(struct guest_thread *t, const struct piece *p, uint64_t stream)
{
	struct array_read_cmd *cmd = begin_array_read(t);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	FILL_BOX(cmd, p, stream);
	r = guest_call(t, sizeof(struct array_read_rep), &reply);
	if (r)
		return r;
	if (reply.payload_size != piece_bytes(p) || reply.more)
		return guest_broken(t);
	move_rows(p, (char *)(uintptr_t)reply.payload, true);
	return CUDA_SUCCESS;
}

/* Cuts the box: whole slices if one fits, else whole rows, else parts of rows. */
static CUresult with_host(struct guest_thread *t, const struct copy_box *b,
			  uint64_t stream)
{
	bool write = b->dst_at.array;
	const struct copy_side *host = write ? &b->rows.src : &b->rows.dst;
	size_t slice = write ? b->src_slice : b->dst_slice;
	size_t w = b->rows.width, h = b->rows.height, max = WIRE_PAYLOAD_MAX;
	size_t dx = MIN(w, max), dy = w > max ? 1 : MIN(h, max / w);
	size_t dz = w <= max && dy == h ? MIN(b->depth, max / (w * h)) : 1;
	struct piece p = {.at = write ? &b->dst_at : &b->src_at,
			  .pitch = host->pitch,
			  .slice = slice};
	CUresult r;

	for (p.z = 0; p.z < b->depth; p.z += dz) {
		for (p.y = 0; p.y < h; p.y += dy) {
			for (p.x = 0; p.x < w; p.x += dx) {
				p.width = MIN(dx, w - p.x);
				p.height = MIN(dy, h - p.y);
				p.depth = MIN(dz, b->depth - p.z);
				p.host = (char *)(uintptr_t)host->addr + p.z * p.slice +
					 p.y * p.pitch + p.x;
				r = write ? write_piece(t, &p, stream)
					  : read_piece(t, &p, stream);
				if (r)
					return r;
			}
		}
	}
	return CUDA_SUCCESS;
}

static CUresult on_device(struct guest_thread *t, const struct copy_box *b,
			  uint64_t stream, bool async)
{
	const struct copy_place *dst = &b->dst_at, *src = &b->src_at;
	struct array_copy_cmd *cmd = begin_array_copy(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->dst_array = dst->array ? dst->array->root : 0;
	cmd->dst_level = dst->array ? dst->array->level : 0;
	cmd->dst_x = (uint32_t)dst->x;
	cmd->dst_y = (uint32_t)dst->y;
	cmd->dst_z = (uint32_t)dst->z;
	cmd->dst = dst->array ? 0 : b->rows.dst.addr;
	cmd->dst_pitch = b->rows.dst.pitch;
	cmd->dst_slice = b->dst_slice;
	cmd->src_array = src->array ? src->array->root : 0;
	cmd->src_level = src->array ? src->array->level : 0;
	cmd->src_x = (uint32_t)src->x;
	cmd->src_y = (uint32_t)src->y;
	cmd->src_z = (uint32_t)src->z;
	cmd->src = src->array ? 0 : b->rows.src.addr;
	cmd->src_pitch = b->rows.src.pitch;
	cmd->src_slice = b->src_slice;
	cmd->width = (uint32_t)b->rows.width;
	cmd->height = (uint32_t)b->rows.height;
	cmd->depth = (uint32_t)b->depth;
	cmd->wait = b->rows.shared && !async;
	cmd->stream = stream;
	return async ? guest_post(t)
		     : guest_call(t, sizeof(struct array_copy_rep), &reply);
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

	if (!array_copy_fits(b))
		return CUDA_ERROR_INVALID_VALUE;
	return dst_host || src_host ? with_host(t, b, stream)
				    : on_device(t, b, stream, async);
}
