/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of copies that both ways take: within the device, and through a stage or the lane. */
#include "calls.h"
#include "copy/copy_way.h"
#include "core/move.h"
#include "core/process.h"

/* ---- within the device ---- */

bool copy_begin_on_device(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct copy_dtod_cmd *cmd = begin_copy_dtod(t);

	if (!cmd)
		return false;
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
	return true;
}

CUresult copy_on_device(struct guest_thread *t, const struct copy *c, uint64_t stream)
{
	struct lane_reply reply;

	if (!copy_begin_on_device(t, c, stream))
		return guest_lost(t);
	return c->async ? guest_post(t)
			: guest_call(t, sizeof(struct copy_dtod_rep), &reply);
}

/* ---- through a stage or the lane ---- */

/* From here on helper threads move bytes. */
#define HELPED_BYTES (4u << 20)
#define LARGE_PIECE  (1u << 20)
static_assert(LARGE_PIECE <= WIRE_PAYLOAD_MAX, "pieces fit into a lane as well");

struct copy_way copy_way_find(struct guest_thread *t, const struct copy *c, size_t total,
			      enum stage_use use)
{
	struct copy_way w = {.use = use, .piece = WIRE_PAYLOAD_MAX};

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

void copy_way_end(struct copy_way *w, bool idle)
{
	if (w->helped)
		move_end();
	if (w->stage)
		stage_put(w->stage, w->use, idle);
}
