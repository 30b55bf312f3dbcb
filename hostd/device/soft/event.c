/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: the last record of an event is a number of a stream, done when the stream has
 * got there. The time is taken when the record's operation is reached.
 */
#include "base/clock.h"
#include "base/macros.h"
#include "device/soft/soft.h"

void soft_event_put_locked(struct dev_event *ev)
{
	if (--ev->refs)
		return;
	if (ev->st)
		soft_stream_put_locked(ev->st);
	free(ev);
}

static bool event_done_locked(const struct dev_event *ev)
{
	return !ev->recorded || ev->st->completed >= ev->seq;
}

CUresult soft_event_create(struct dev_ctx *ctx, unsigned flags,
			   struct dev_event **ret_event)
{
	CUresult res = soft_ctx_status(ctx);
	struct dev_event *ev;

	if (res)
		return res;
	if (flags & CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ev->ctx = ctx;
	ev->refs = 1;
	ev->timing = !(flags & CU_EVENT_DISABLE_TIMING);
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->events, &ev->link);
	*ret_event = ev;
	return CUDA_SUCCESS;
}

void soft_event_destroy(struct dev_event *ev)
{
	scoped_lock(&ev->ctx->dev->lock);
	list_remove(&ev->link);
	soft_event_put_locked(ev);
}

static void op_free(struct soft_op *op)
{
	free(op);
}

/* Queues the record; 0 and *ret_seq, or why not. */
static CUresult record_locked(struct dev_event *ev, struct dev_stream *st)
{
	struct soft_op *op;
	uint64_t gen = ev->gen + 1;
	CUresult res;

	if (soft_stream_idle_locked(st)) { /* reached already: no operation needed */
		st->completed = ++st->submitted;
		ev->time_ns = clock_now_ns();
		ev->seq = st->submitted;
		ev->gen = gen;
		return CUDA_SUCCESS;
	}
	op = calloc(1, sizeof(*op));
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->kind = SOFT_OP_EVENT;
	op->free = op_free;
	op->event = ev;
	ev->refs++;
	op->event_gen = ev->gen = gen;
	res = soft_op_submit_locked(st, op);
	if (res) {
		soft_event_put_locked(ev);
		free(op);
		return res;
	}
	ev->seq = st->submitted; /* op itself may be gone */
	return CUDA_SUCCESS;
}

static CUresult record(struct dev_ctx *ctx, struct dev_event *ev, struct dev_stream *st)
{
	CUresult res = soft_ctx_status(ctx);

	if (res)
		return res;
	if (ev->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	scoped_lock(&ctx->dev->lock);
	res = record_locked(ev, st);
	if (res)
		return res;
	st->refs++;
	if (ev->st)
		soft_stream_put_locked(ev->st);
	ev->st = st;
	ev->recorded = true;
	return CUDA_SUCCESS;
}

CUresult soft_event_record(struct dev_ctx *ctx, struct dev_event *ev,
			   struct dev_stream *st)
{
	return record(ctx, ev, soft_stream_of(ctx, st));
}

CUresult soft_ctx_record_event(struct dev_ctx *ctx, struct dev_event *ev)
{
	return record(ctx, ev, &ctx->joint);
}

CUresult soft_event_query(struct dev_event *ev)
{
	CUresult res = soft_ctx_status(ev->ctx);

	if (res)
		return res;
	scoped_lock(&ev->ctx->dev->lock);
	return event_done_locked(ev) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult soft_event_synchronize(struct dev_event *ev)
{
	struct dev_ctx *ctx = ev->ctx;
	CUresult res = soft_ctx_status(ctx);

	if (!res) {
		scoped_lock(&ctx->dev->lock);
		if (!event_done_locked(ev))
			soft_stream_wait_locked(ev->st, ev->seq);
	}
	soft_output_flush(&ctx->output);
	return soft_ctx_status(ctx);
}

CUresult soft_event_elapsed(struct dev_event *start, struct dev_event *end, float *ret_ms)
{
	CUresult res = soft_ctx_status(start->ctx);

	if (res)
		return res;
	if (start->ctx != end->ctx || !start->timing || !end->timing)
		return CUDA_ERROR_INVALID_HANDLE;
	scoped_lock(&start->ctx->dev->lock);
	if (!start->recorded || !end->recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_done_locked(start) || !event_done_locked(end))
		return CUDA_ERROR_NOT_READY;
	*ret_ms = (float)((double)((int64_t)(end->time_ns - start->time_ns)) / 1e6);
	return CUDA_SUCCESS;
}
