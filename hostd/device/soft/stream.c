/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation is started by whichever thread removes the last obstacle: the one that
 * submits it, or the one that finishes what it waited for. Started operations go to an
 * engine, to the executor, or are done on the spot; soft_op_finish_locked() is called for
 * each exactly once. Finishing may start others, which may finish at once: to keep the
 * stack flat, what becomes ready goes through device.ready.
 *
 * CUDA's legacy default stream is expressed by dependencies alone: an operation of the
 * legacy stream waits for the last one of each blocking stream of the context, and one of
 * a blocking stream waits for the last one of the legacy stream. A record of a whole
 * context is an operation of a stream of its own, dev_ctx.joint, that waits for the last
 * one of every stream; an event that the whole context waits for is one of dev_ctx.gate,
 * for whose last one every operation of another stream waits.
 */
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/futex.h"
#include "device/soft/soft.h"

/* A word is polled that often before its thread parks: about two microseconds. */
#define SPIN_ROUNDS 64

static bool stream_done(const struct dev_stream *st)
{
	return st->completed == st->submitted;
}

static bool is_legacy(const struct dev_stream *st)
{
	return st == &st->ctx->legacy;
}

static bool is_joint(const struct dev_stream *st)
{
	return st == &st->ctx->joint;
}

static bool is_gate(const struct dev_stream *st)
{
	return st == &st->ctx->gate;
}

struct dev_stream *soft_stream_of(struct dev_ctx *ctx, struct dev_stream *st)
{
	return st ? st : &ctx->legacy;
}

void soft_stream_init(struct dev_stream *st, struct dev_ctx *ctx)
{
	*st = (struct dev_stream){.ctx = ctx, .refs = 1, .blocking = true};
	list_init(&st->link);
	list_init(&st->queue);
	list_init(&st->waits);
}

void soft_stream_put_locked(struct dev_stream *st)
{
	if (--st->refs)
		return;
	list_remove(&st->link);
	free(st);
}

/* ---- starting and finishing ---- */

void soft_unpark(uint32_t *word)
{
	/* Release: pairs with the acquire in soft_park_locked(). The word may be gone as
	 * soon as it says GO; a wake-up of what is there then is spurious and harmless.
	 */
	if (__atomic_exchange_n(word, SOFT_WORD_GO, __ATOMIC_RELEASE) == SOFT_WORD_PARKED)
		futex_wake(word, 1);
}

static void op_start_locked(struct device *dev, struct soft_op *op)
{
	op->started = true;
	switch (op->kind) {
	case SOFT_OP_MARK:
		soft_op_finish_locked(op);
		return;
	case SOFT_OP_EVENT:
		if (op->event->gen == op->event_gen)
			op->event->time_ns = clock_now_ns();
		soft_op_finish_locked(op);
		return;
	case SOFT_OP_CALLER:
		soft_unpark(&op->word);
		return;
	case SOFT_OP_COPY:
		soft_engine_queue_locked(&dev->engines[soft_copy_engine(op)], op);
		return;
	case SOFT_OP_HOST:
		soft_engine_queue_locked(&dev->engines[SOFT_ENGINE_HOST], op);
		return;
	case SOFT_OP_WORDS:
		soft_engine_queue_locked(&dev->engines[SOFT_ENGINE_WORDS], op);
		return;
	case SOFT_OP_KERNEL:
		if (soft_ctx_status(op->st->ctx) != CUDA_SUCCESS)
			soft_op_finish_locked(op);
		else
			soft_exec_start_locked(&dev->exec, op);
		return;
	case SOFT_OP_NUM_KINDS:
		break;
	}
	assert(!"kind of operation");
}

static void run_ready_locked(struct device *dev)
{
	if (dev->starting)
		return;
	dev->starting = true;
	while (!list_empty(&dev->ready)) {
		struct soft_op *op = list_entry(dev->ready.next, struct soft_op, engine);

		list_remove(&op->engine);
		op_start_locked(dev, op);
	}
	dev->starting = false;
}

/* Puts op on the ready list if nothing holds it back any more. */
static void op_try_locked(struct soft_op *op)
{
	/* not on the list yet: a wait for its own stream ends twice, for both reasons */
	if (!op->started && !op->n_blockers && op->st->queue.next == &op->link &&
	    list_empty(&op->engine))
		list_append(&op->st->ctx->dev->ready, &op->engine);
}

static void release_waits_locked(struct dev_stream *st)
{
	struct soft_wait *w, *tmp;

	list_for_each_safe (w, tmp, &st->waits, link) {
		if (w->seq > st->completed)
			continue;
		list_remove(&w->link);
		if (!w->op) {
			soft_unpark(&w->word);
			continue;
		}
		w->op->n_blockers--;
		op_try_locked(w->op);
	}
}

void soft_op_finish_locked(struct soft_op *op)
{
	struct dev_stream *st = op->st;
	struct device *dev = st->ctx->dev;

	list_remove(&op->link);
	st->completed = op->seq;
	release_waits_locked(st);
	if (!list_empty(&st->queue))
		op_try_locked(list_entry(st->queue.next, struct soft_op, link));
	if (op->event)
		soft_event_put_locked(op->event);
	if (op->waits != op->own_waits)
		free(op->waits);
	if (op->free)
		op->free(op);
	soft_stream_put_locked(st);
	run_ready_locked(dev);
}

/* ---- submitting ---- */

static void op_add_wait_locked(struct soft_op *op, struct dev_stream *on, uint64_t seq)
{
	struct soft_wait *w;

	if (on->completed >= seq)
		return;
	w = &op->waits[op->n_waits++];
	*w = (struct soft_wait){.seq = seq, .op = op};
	list_append(&on->waits, &w->link);
	op->n_blockers++;
}

/* Whether the legacy stream has to wait for s, and does not do so yet. */
static bool holds_legacy(const struct dev_stream *s)
{
	return s->blocking && !stream_done(s) && s->before_legacy < s->submitted;
}

/* Whether the next operation of st, legacy or joint, has to wait for one of s. */
static bool holds(const struct dev_stream *st, const struct dev_stream *s)
{
	return is_legacy(st) ? holds_legacy(s) : !stream_done(s);
}

/* At most: for what is given, the gate, the legacy stream; and for others. */
static size_t count_waits_locked(struct dev_stream *st)
{
	struct dev_stream *s;
	size_t n = SOFT_OP_OWN_WAITS;

	if (!is_legacy(st) && !is_joint(st))
		return n;
	list_for_each (s, &st->ctx->streams, link)
		n += holds(st, s);
	return n;
}

static void add_implicit_waits_locked(struct dev_stream *st, struct soft_op *op)
{
	struct dev_stream *legacy = &st->ctx->legacy, *s;

	if (!is_gate(st))
		op_add_wait_locked(op, &st->ctx->gate, st->ctx->gate.submitted);
	if (is_joint(st))
		op_add_wait_locked(op, legacy, legacy->submitted);
	if (is_legacy(st) || is_joint(st)) {
		list_for_each (s, &st->ctx->streams, link) {
			if (!holds(st, s))
				continue;
			op_add_wait_locked(op, s, s->submitted);
			if (is_legacy(st))
				s->before_legacy = s->submitted;
		}
	} else if (st->blocking && st->after_legacy < legacy->submitted) {
		op_add_wait_locked(op, legacy, legacy->submitted);
		st->after_legacy = legacy->submitted;
	}
}

CUresult soft_op_submit_after_locked(struct dev_stream *st, struct soft_op *op,
				     struct dev_stream *st_after, uint64_t seq_after)
{
	CUresult res = soft_ctx_status(st->ctx);
	size_t n;

	while (!res && st->submitted - st->completed >= SOFT_QUEUE_MAX) {
		soft_stream_wait_locked(st, st->submitted - SOFT_QUEUE_MAX + 1);
		res = soft_ctx_status(st->ctx);
	}
	if (res)
		return res;
	n = count_waits_locked(st);
	op->waits = op->own_waits;
	op->n_waits = op->n_blockers = 0;
	if (n > SOFT_OP_OWN_WAITS)
		op->waits = calloc(n, sizeof(*op->waits));
	if (!op->waits)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->st = st;
	op->started = false;
	op->seq = ++st->submitted;
	st->refs++;
	list_append(&st->queue, &op->link);
	list_init(&op->engine);
	if (st_after)
		op_add_wait_locked(op, st_after, seq_after);
	add_implicit_waits_locked(st, op);
	op_try_locked(op);
	run_ready_locked(st->ctx->dev);
	return CUDA_SUCCESS;
}

CUresult soft_op_submit_locked(struct dev_stream *st, struct soft_op *op)
{
	return soft_op_submit_after_locked(st, op, NULL, 0);
}

bool soft_stream_idle_locked(struct dev_stream *st)
{
	struct dev_stream *s;

	if (!stream_done(st) || !stream_done(&st->ctx->gate))
		return false;
	if (!is_legacy(st) && !is_joint(st))
		return !st->blocking || stream_done(&st->ctx->legacy);
	list_for_each (s, &st->ctx->streams, link) {
		if ((s->blocking || is_joint(st)) && !stream_done(s))
			return false;
	}
	return stream_done(&st->ctx->legacy);
}

/* ---- waiting ---- */

void soft_park_locked(struct dev_stream *st, uint32_t *word)
{
	struct device *dev = st->ctx->dev;
	struct dev_ctx *ctx = st->ctx;
	struct dev_stream *only = is_legacy(st) ? NULL : st;
	uint32_t wait;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != SOFT_WORD_GO) {
		if (soft_exec_help_locked(&dev->exec, ctx, only))
			continue;
		pthread_mutex_unlock(&dev->lock);
		for (int i = 0; i < SPIN_ROUNDS; i++) {
			if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == SOFT_WORD_GO)
				break;
			cpu_relax();
		}
		wait = SOFT_WORD_WAIT;
		__atomic_compare_exchange_n(word, &wait, SOFT_WORD_PARKED, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);
		while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != SOFT_WORD_GO)
			futex_wait(word, SOFT_WORD_PARKED, NULL);
		pthread_mutex_lock(&dev->lock);
	}
}

void soft_stream_wait_locked(struct dev_stream *st, uint64_t seq)
{
	struct soft_wait w = {.seq = seq};

	if (st->completed >= seq)
		return;
	st->refs++;
	list_append(&st->waits, &w.link);
	soft_park_locked(st, &w.word);
	soft_stream_put_locked(st);
}

struct stream_point {
	struct dev_stream *st;
	uint64_t seq;
};

/* Waits for what the context's streams hold now; blocking_only: all but NON_BLOCKING. */
static void wait_streams_locked(struct dev_ctx *ctx, bool blocking_only)
{
	_cleanup_free_ struct stream_point *points = NULL;
	struct dev_stream *s;
	size_t n = 0, i = 0;

	list_for_each (s, &ctx->streams, link)
		n += !stream_done(s) && (s->blocking || !blocking_only);
	points = calloc(n + 1, sizeof(*points));
	if (points) {
		list_for_each (s, &ctx->streams, link) {
			if (stream_done(s) || (blocking_only && !s->blocking))
				continue;
			s->refs++;
			points[i++] = (struct stream_point){s, s->submitted};
		}
	}
	soft_stream_wait_locked(&ctx->legacy, ctx->legacy.submitted);
	if (!blocking_only) {
		soft_stream_wait_locked(&ctx->gate, ctx->gate.submitted);
		soft_stream_wait_locked(&ctx->joint, ctx->joint.submitted);
	}
	for (i = 0; points && i < n; i++) {
		soft_stream_wait_locked(points[i].st, points[i].seq);
		soft_stream_put_locked(points[i].st);
	}
}

void soft_ctx_wait_locked(struct dev_ctx *ctx)
{
	wait_streams_locked(ctx, false);
}

CUresult soft_run_in_order(struct dev_ctx *ctx, struct dev_stream *st,
			   CUresult (*work)(struct dev_ctx *ctx, void *arg), void *arg)
{
	struct soft_op op = {.kind = SOFT_OP_CALLER};
	struct device *dev = ctx->dev;
	CUresult res, lost;

	st = soft_stream_of(ctx, st);
	pthread_mutex_lock(&dev->lock);
	res = soft_op_submit_locked(st, &op);
	if (res) {
		pthread_mutex_unlock(&dev->lock);
		return res;
	}
	soft_park_locked(st, &op.word);
	pthread_mutex_unlock(&dev->lock);
	res = soft_ctx_status(ctx);
	if (!res)
		res = work(ctx, arg);
	pthread_mutex_lock(&dev->lock);
	soft_op_finish_locked(&op);
	pthread_mutex_unlock(&dev->lock);
	soft_output_flush(&ctx->output);
	lost = soft_ctx_status(ctx);
	return lost ? lost : res;
}

/* ---- device_ops: streams ---- */

CUresult soft_stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
			    struct dev_stream **ret_stream)
{
	CUresult res = soft_ctx_status(ctx);
	struct dev_stream *st;

	if (res)
		return res;
	if (flags & ~(unsigned)DEV_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	st = malloc(sizeof(*st));
	if (!st)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_stream_init(st, ctx);
	st->blocking = !(flags & DEV_STREAM_NON_BLOCKING);
	st->priority = soft_priority(priority);
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->streams, &st->link);
	*ret_stream = st;
	return CUDA_SUCCESS;
}

CUresult soft_stream_set_attribute(struct dev_ctx *ctx, struct dev_stream *st,
				   CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	CUresult res = soft_ctx_status(ctx);

	if (res || attr != CU_STREAM_ATTRIBUTE_PRIORITY)
		return res;
	scoped_lock(&ctx->dev->lock);
	soft_stream_of(ctx, st)->priority = soft_priority(value->priority);
	return CUDA_SUCCESS;
}

void soft_stream_destroy(struct dev_stream *st)
{
	scoped_lock(&st->ctx->dev->lock);
	st->dead = true;
	soft_stream_put_locked(st);
}

CUresult soft_stream_query(struct dev_ctx *ctx, struct dev_stream *st)
{
	CUresult res = soft_ctx_status(ctx);
	bool idle;

	if (res)
		return res;
	scoped_lock(&ctx->dev->lock);
	idle = st ? stream_done(st) : soft_stream_idle_locked(&ctx->legacy);
	return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static void wait_locked(struct dev_ctx *ctx, struct dev_stream *st)
{
	if (st)
		soft_stream_wait_locked(st, st->submitted);
	else
		wait_streams_locked(ctx, true);
}

CUresult soft_stream_synchronize(struct dev_ctx *ctx, struct dev_stream *st)
{
	CUresult res = soft_ctx_status(ctx);

	if (!res) {
		scoped_lock(&ctx->dev->lock);
		wait_locked(ctx, st);
	}
	soft_output_flush(&ctx->output);
	return soft_ctx_status(ctx);
}

CUresult soft_stream_synchronize_to(struct dev_ctx *ctx, struct dev_stream *st,
				    _Atomic uint64_t *word, uint64_t value)
{
	CUresult res = soft_ctx_status(ctx);

	if (!res) {
		scoped_lock(&ctx->dev->lock);
		wait_locked(ctx, st);
	}
	/* Text that kernels printed goes ahead. Acquire: pairs with output_put(). */
	if (__atomic_load_n(&ctx->output.any, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_NOT_SUPPORTED;
	res = soft_ctx_status(ctx);
	if (!res)
		atomic_store_explicit(word, value, memory_order_seq_cst);
	return res;
}

static void op_free(struct soft_op *op)
{
	free(op);
}

static CUresult wait_event_locked(struct dev_stream *st, struct dev_event *ev)
{
	struct dev_stream *after = ev->st;
	struct soft_op *op;
	CUresult res;

	if (!ev->recorded || after->completed >= ev->seq)
		return CUDA_SUCCESS;
	op = calloc(1, sizeof(*op));
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->kind = SOFT_OP_MARK;
	op->free = op_free;
	after->refs++; /* while it waits for room, ev may be recorded elsewhere */
	res = soft_op_submit_after_locked(st, op, after, ev->seq);
	soft_stream_put_locked(after);
	if (res)
		free(op);
	return res;
}

CUresult soft_stream_wait_event(struct dev_ctx *ctx, struct dev_stream *st,
				struct dev_event *ev)
{
	CUresult res = soft_ctx_status(ctx);

	if (res)
		return res;
	scoped_lock(&ctx->dev->lock);
	return wait_event_locked(soft_stream_of(ctx, st), ev);
}

CUresult soft_ctx_wait_event(struct dev_ctx *ctx, struct dev_event *ev)
{
	CUresult res = soft_ctx_status(ctx);

	if (res)
		return res;
	scoped_lock(&ctx->dev->lock);
	return wait_event_locked(&ctx->gate, ev);
}

/* ---- device_ops: host functions ---- */

struct host_op {
	struct soft_op op;
	void (*fn)(void *arg, uint64_t token);
	void *arg;
	uint64_t token; /* 0: not called yet */
};

static void host_op_free(struct soft_op *op)
{
	free(container_of(op, struct host_op, op));
}

CUresult soft_host_func(struct dev_ctx *ctx, struct dev_stream *st,
			void (*fn)(void *arg, uint64_t token), void *arg)
{
	struct host_op *h = calloc(1, sizeof(*h));
	CUresult res;

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->op.kind = SOFT_OP_HOST;
	h->op.free = host_op_free;
	h->fn = fn;
	h->arg = arg;
	scoped_lock(&ctx->dev->lock);
	res = soft_op_submit_locked(soft_stream_of(ctx, st), &h->op);
	if (res)
		free(h);
	return res;
}

void soft_host_run(struct soft_op *op)
{
	struct host_op *h = container_of(op, struct host_op, op);
	struct device *dev = op->st->ctx->dev;
	void (*fn)(void *, uint64_t) = h->fn;
	void *arg = h->arg;
	uint64_t token = 0;

	pthread_mutex_lock(&dev->lock);
	if (soft_ctx_status(op->st->ctx) == CUDA_SUCCESS) {
		token = h->token = ++dev->last_token;
		list_append(&dev->host_ops, &op->engine);
	}
	pthread_mutex_unlock(&dev->lock);
	fn(arg, token); /* h may be gone when it returns */
	if (token)
		return;
	pthread_mutex_lock(&dev->lock);
	soft_op_finish_locked(op);
	pthread_mutex_unlock(&dev->lock);
}

void soft_host_func_done(struct device *dev, uint64_t token)
{
	struct host_op *h;

	scoped_lock(&dev->lock);
	list_for_each (h, &dev->host_ops, op.engine) {
		if (h->token != token)
			continue;
		list_remove(&h->op.engine);
		soft_op_finish_locked(&h->op);
		return;
	}
}

void soft_host_drop_locked(struct dev_ctx *ctx)
{
	struct host_op *h, *tmp;

	list_for_each_safe (h, tmp, &ctx->dev->host_ops, op.engine) {
		if (h->op.st->ctx != ctx)
			continue;
		list_remove(&h->op.engine);
		soft_op_finish_locked(&h->op);
	}
}
