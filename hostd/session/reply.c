/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results on their way back: replies, and the text that kernels printed, which goes ahead
 * of the reply whose call made it visible.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "session/command.h"
#include "ipc/wmem.h"
#include "memory/pool/pool.h"
#include "session/trace.h"

/* A kernel's printf buffer holds 1 MiB unless told otherwise; a guest that never calls
 * anything that waits loses text beyond a few of those. */
#define OUT_MAX   (8u << 20)
#define OUT_PIECE (64u << 10)

void sess_output(void *arg, const char *text, size_t size)
{
	struct session *s = arg;

	pthread_mutex_lock(&s->out_lock);
	if (size > OUT_MAX - s->out_size)
		size = OUT_MAX - s->out_size;
	if (s->out_size + size > s->out_room) {
		size_t room = MAX(s->out_size + size, MIN(2 * s->out_room, OUT_MAX));
		bool paid = wmem_take(&s->accounts, room - s->out_room) == 0;
		char *p = paid ? realloc(s->out, room) : NULL;

		if (p) {
			s->out = p;
			s->out_room = room;
		} else {
			if (paid)
				wmem_put(&s->accounts, room - s->out_room);
			size = s->out_room - s->out_size;
		}
	}
	if (size) {
		memcpy(s->out + s->out_size, text, size);
		s->out_size += size;
		/* release: pairs with the load in flush_output(). */
		atomic_store_explicit(&s->out_pending, true, memory_order_release);
	}
	pthread_mutex_unlock(&s->out_lock);
}

static int send_text(struct sess_lane *sl, const char *text, size_t size)
{
	for (size_t at = 0; at < size;) {
		uint32_t n = MIN(size - at, (size_t)OUT_PIECE);
		void *payload;
		int r;

		if (!lane_reply_begin(sl->lane, WIRE_F_OUTPUT, 0, n, &payload))
			return -EPIPE;
		memcpy(payload, text + at, n);
		r = lane_reply(sl->lane);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

static int flush_output(struct sess_lane *sl)
{
	struct session *s = sl->s;
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (likely(!atomic_load_explicit(&s->out_pending, memory_order_acquire)))
		return 0;
	pthread_mutex_lock(&s->out_lock);
	text = steal(s->out);
	size = s->out_size;
	s->out_size = s->out_room = 0;
	atomic_store_explicit(&s->out_pending, false, memory_order_relaxed);
	pthread_mutex_unlock(&s->out_lock);
	if (atomic_load_explicit(&s->mute, memory_order_relaxed))
		return 0;
	return send_text(sl, text, size);
}

/* The first few waits are not worth what the device needs to know of the window. */
#define PROMPT_FIRST 16

/*
 * Whether the work can hardly be done yet: it was submitted just now, and the guest waited
 * already. To ask the device for the reply takes longer than work which is nearly done.
 */
static bool device_may_answer(struct sess_lane *sl, uint64_t handle)
{
	struct session *s = sl->s;

	return s->ops->stream.synchronize_to && sl->last_stream == handle &&
	       lane_prompt(sl->lane) && sl->n_prompt++ >= PROMPT_FIRST &&
	       !atomic_load_explicit(&s->deferred, memory_order_relaxed) &&
	       !atomic_load_explicit(&s->sticky, memory_order_relaxed) &&
	       !atomic_load_explicit(&s->out_pending, memory_order_acquire);
}

/*
 * Waits, with the reply made before for the device to send. *ret_result is what the wait
 * gave: CUDA_SUCCESS, and the reply is out; NOT_SUPPORTED, and nobody has waited. Returns 0
 * or -EPIPE.
 */
static int device_answers(struct sess_lane *sl, struct dev_ctx *ctx,
			  struct dev_stream *st, CUresult *ret_result)
{
	_Atomic uint64_t *word;
	uint64_t value;

	if (!lane_reply_begin(sl->lane, 0, sizeof(struct wire_result), 0, NULL))
		return -EPIPE;
	word = lane_reply_prepare(sl->lane, &value);
	if (word)
		*ret_result = sl->s->ops->stream.synchronize_to(ctx, st, word, value);
	if (*ret_result == CUDA_ERROR_NOT_SUPPORTED)
		sl->n_prompt = 0;
	return *ret_result == CUDA_SUCCESS ? lane_reply_settle(sl->lane) : 0;
}

int sess_answer_synchronized(struct sess_lane *sl, struct dev_ctx *ctx,
			     struct dev_stream *st, uint64_t handle)
{
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;
	struct wire_result res = {};
	uint64_t begin_ns = trace_begin(sl->s);
	bool answered;
	int e = 0;

	if (device_may_answer(sl, handle))
		e = device_answers(sl, ctx, st, &r);
	sl->last_stream = 0;
	answered = r == CUDA_SUCCESS;
	if (e == 0 && r == CUDA_ERROR_NOT_SUPPORTED)
		r = sl->s->ops->stream.synchronize(ctx, st);
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	pools_synced(sl->s->pools);
	if (e < 0 || answered)
		return e;
	res.result = sess_sync_result(sl, r);
	return sess_done(sl, &res, sizeof(res));
}

void *sess_reply_begin(struct sess_lane *sl, uint16_t flags, uint32_t body_size,
		       uint32_t payload_size, void **ret_payload)
{
	struct wire_result *res;

	if (!sl->replying && flush_output(sl) < 0)
		return NULL;
	sl->replying = true;
	res = lane_reply_begin(sl->lane, flags, body_size, payload_size, ret_payload);
	if (res) {
		lane_fixed(sl->lane, MIN(body_size, codec_shapes[sl->msg->hdr.op].rep));
		res->sticky = atomic_load_explicit(&sl->s->sticky, memory_order_relaxed);
	}
	return res;
}

int sess_reply_end(struct sess_lane *sl)
{
	return lane_reply(sl->lane);
}

int sess_done(struct sess_lane *sl, const void *rep, uint32_t rep_size)
{
	const struct wire_result *res = rep;
	uint32_t sticky;
	void *body;

	if (sess_posted(sl)) {
		if (unlikely(res->result)) {
			batch_end(sl); /* what failed earlier is reported first */
			sess_failed(sl, sl->msg->hdr.op, res->result);
		}
		return 0;
	}
	if (unlikely(res->result))
		sess_note_failure(sl, sl->msg->hdr.op, res->result);
	if (flush_output(sl) < 0)
		return -EPIPE;
	body = lane_reply_begin(sl->lane, 0, rep_size, 0, NULL);
	if (!body)
		return -EPIPE;
	memcpy(body, rep, rep_size);
	sticky = atomic_load_explicit(&sl->s->sticky, memory_order_relaxed);
	((struct wire_result *)body)->sticky = sticky;
	return lane_reply(sl->lane);
}
