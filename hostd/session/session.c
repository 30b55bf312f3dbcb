/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a session: made before its guest is known, so that whatever is slow (the
 * device, its primary context) is done when the guest comes; ended once, by the last
 * lane's closing or by the first reason to.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "memory/pool/pool.h"
#include "memory/space.h"
#include "ops.h"
#include "ptx/extent/table.h"
#include "session/footprint.h"
#include "session/hostfunc.h"
#include "session/image.h"
#include "session/ipc_event.h"
#include "session/command.h"
#include "session/session.h"
#include "session/trace.h"

static void *ctx_hold(void *arg, struct dev_ctx **ret_ctx)
{
	struct sess_ctx *ctx = sess_hold_ctx(arg);

	if (ctx)
		*ret_ctx = ctx->dev;
	return ctx;
}

static void ctx_put(void *arg, void *held)
{
	obj_put(arg, &((struct sess_ctx *)held)->obj);
}

static void make_env(struct session *s)
{
	s->env = (struct mem_env){.ops = s->ops,
				  .dev = s->dev,
				  .granularity = s->info.granularity,
				  .accounts = &s->accounts,
				  .count = s->count,
				  .touch = &s->touch,
				  .ctx_hold = ctx_hold,
				  .ctx_put = ctx_put,
				  .arg = s};
}

static int open_device(struct session *s, const struct device_config *cfg)
{
	struct device_config c = *cfg;
	int r;

	c.output = sess_output;
	c.output_arg = s;
	c.ran = trace_ran;
	r = s->ops->open(&c, &s->dev);
	if (r < 0)
		return r;
	s->ops->info(s->dev, &s->info);
	make_env(s);
	r = space_new(&s->env, &s->space);
	if (r == 0)
		r = pools_new(&s->env, s->space, &s->pools);
	if (r == 0)
		r = managed_new(&s->env, s->space, &s->managed);
	if (r < 0)
		return r;
	return sess_ctx_new(s, 0, 0, &s->primary) == CUDA_SUCCESS ? 0 : -ENODEV;
}

/* Kernels that can be stopped are not waited for. */
static bool quiesce(void *arg)
{
	struct session *s = arg;
	enum device_rest rest = s->ops->stop ? s->ops->stop(s->dev) : DEVICE_REST_NONE;

	if (rest == DEVICE_REST_NONE)
		sess_quiesce(s);
	return rest == DEVICE_REST_STOPPED;
}

static void hold(void *arg)
{
	struct session *s = arg;

	if (s->ops->hold)
		s->ops->hold(s->dev);
}

static void go_on(void *arg)
{
	struct session *s = arg;

	if (s->ops->go_on)
		s->ops->go_on(s->dev);
}

static void catch_up(void *arg)
{
	sess_catch_up(arg);
}

static bool freeze(void *arg)
{
	struct session *s = arg;

	return s->ops->freeze && s->ops->freeze(s->dev);
}

static void thaw(void *arg)
{
	struct session *s = arg;

	s->ops->thaw(s->dev);
}

static bool preempt(void *arg, bool on)
{
	struct session *s = arg;

	return s->ops->preempt && s->ops->preempt(s->dev, on);
}

static struct sess_lane *lane_of(const struct gate_lane *l)
{
	return container_of(l, struct sess_lane, gate);
}

/* LANE_CALL: the program waits for a command of this lane, or of another that comes after this
 * one, or launches little before it waits; and a graph is many kernels by itself, with what goes
 * before it. */
static enum lane_behind behind(void *arg, const struct gate_lane *l)
{
	const struct sess_lane *sl = lane_of(l);
	struct session *s = arg;
	enum lane_behind r;

	if (!sl->msg || !sess_posted(sl) || !sess_in_burst(sl) ||
	    sl->msg->hdr.op == WIRE_OP_graph_launch || tickets_pressing(&s->tickets) ||
	    atomic_load(&s->ending))
		return LANE_CALL;
	r = lane_behind(sl->lane);
	return lane_peek(sl->lane) == WIRE_OP_graph_launch ? LANE_CALL : r;
}

static bool has_more(void *arg, const struct gate_lane *l)
{
	return lane_peek(lane_of(l)->lane) >= 0;
}

static const struct gate_ops gate_ops = {.behind = behind,
					 .has_more = has_more,
					 .quiesce = quiesce,
					 .catch_up = catch_up,
					 .closes = hold,
					 .opens = go_on,
					 .freeze = freeze,
					 .thaw = thaw,
					 .preempt = preempt};

int sess_new(const struct device_ops *ops, const struct device_config *cfg,
	     const struct accounts *broker, struct session **ret_s)
{
	struct session *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->ops = ops;
	s->count = &s->own_count;
	s->accounts = *broker;
	tickets_init(&s->tickets);
	gate_init(&s->gate, &gate_ops, s);
	gate_on_passed(&s->gate, trace_passed);
	atomic_init(&s->next_ctx_id, 1);
	pthread_mutex_init(&s->out_lock, NULL);
	pthread_mutex_init(&s->limits_lock, NULL);
	pthread_mutex_init(&s->lanes_lock, NULL);
	pthread_mutex_init(&s->refusal_lock, NULL);
	pthread_mutex_init(&s->contexts_lock, NULL);
	pthread_cond_init(&s->threads_cond, NULL);
	pthread_cond_init(&s->contexts_cond, NULL);
	list_init(&s->contexts);
	list_init(&s->libraries);
	r = obj_table_init(&s->objs);
	if (r == 0)
		r = footprint_new(s, &s->footprint);
	if (r == 0)
		r = hostfuncs_new(s, &s->hostfuncs);
	if (r == 0)
		r = images_new(&s->accounts, &s->images);
	if (r == 0)
		r = ipc_events_new(s, &s->ipc_events);
	if (r == 0)
		r = open_device(s, cfg);
	if (r < 0) {
		sess_free(s);
		return r;
	}
	*ret_s = s;
	return 0;
}

void sess_identify(struct session *s, const struct sess_identity *id)
{
	snprintf(s->tenant, sizeof(s->tenant), "%s", id->tenant);
	memcpy(s->token, id->token, sizeof(s->token));
	s->number = id->number;
}

struct drop {
	struct session *s;
	struct sess_ctx *ctx;
};

static void *drop_ctx(void *arg)
{
	struct drop *d = arg;

	obj_put(d->s, &d->ctx->obj);
	free(d);
	return NULL;
}

int sess_monitor(struct session *s)
{
	struct drop *d;
	int r;

	s->monitor = true;
	if (!s->primary)
		return 0;
	d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = (struct drop){s, s->primary};
	r = pthread_create(&s->drop_thread, NULL, drop_ctx, d);
	if (r) {
		free(d);
		return -r;
	}
	s->primary = NULL;
	s->dropping = true;
	return 0;
}

void sess_free(struct session *s)
{
	if (!s)
		return;
	if (s->dropping)
		pthread_join(s->drop_thread, NULL);
	/* Streams may stand still for a host function whose guest is gone, or for an
	 * event of another session. */
	hostfuncs_end(s->hostfuncs);
	if (s->ipc_events)
		ipc_events_end(s->ipc_events);
	gate_fini(&s->gate); /* its thread waits for contexts */
	obj_table_fini(s, &s->objs);
	if (s->primary)
		obj_put(s, &s->primary->obj);
	pools_free_all(s->pools);
	images_free(s->images);
	footprint_free(s->footprint);
	managed_free(s->managed);
	space_free(s->space);
	if (s->dev)
		s->ops->close(s->dev);
	hostmem_free(s->hostmem);
	touch_fini(&s->touch);
	ptx_templates_free(s->templates);
	hostfuncs_free(s->hostfuncs);
	ipc_events_free(s->ipc_events);
	pthread_mutex_destroy(&s->out_lock);
	pthread_mutex_destroy(&s->limits_lock);
	pthread_mutex_destroy(&s->lanes_lock);
	pthread_mutex_destroy(&s->refusal_lock);
	pthread_mutex_destroy(&s->contexts_lock);
	pthread_cond_destroy(&s->threads_cond);
	pthread_cond_destroy(&s->contexts_cond);
	free(s->out);
	free(s);
}

void sess_end(struct session *s, int reason)
{
	bool was = atomic_exchange(&s->ending, true);

	if (was)
		return;
	atomic_store(&s->end_reason, reason);
	if (s->hooks.ending)
		s->hooks.ending(s->hooks.arg);
	tickets_end(&s->tickets);
	gate_end(&s->gate);
	hostfuncs_end(s->hostfuncs);
	ipc_events_end(s->ipc_events);
	pthread_mutex_lock(&s->lanes_lock);
	for (unsigned i = 0; i < SESS_LANES_MAX; i++) {
		if (s->lanes[i] && s->lanes[i] != SESS_LANE_RESERVED)
			lane_kill(s->lanes[i]->lane);
	}
	pthread_mutex_unlock(&s->lanes_lock);
	if (s->hooks.end)
		s->hooks.end(s->hooks.arg);
}

/* ---- streams and objects of a command ---- */

void *sess_pin(struct sess_lane *sl, struct sess_obj *o)
{
	if (!o)
		return NULL;
	if (sl->n_pins == SESS_PINS_MAX) {
		obj_put(sl->s, o);
		return NULL;
	}
	sl->pins[sl->n_pins++] =
		(struct sess_pin){.obj = o, .key = KEPT_OBJECT(o->handle)};
	return o;
}

void *sess_get(struct sess_lane *sl, enum handle_type type, uint64_t h)
{
	const struct kept_slot *k = kept_find(&sl->kept, &sl->s->objs, KEPT_OBJECT(h));

	if (likely(k) && handle_type(h) == type)
		return k->obj;
	return sess_pin(sl, obj_find(sl->s, type, h));
}

static void stream_fini(struct session *s, struct sess_obj *o)
{
	struct sess_stream *st = container_of(o, struct sess_stream, obj);

	if (!st->dev)
		return;
	pools_stream_gone(s->pools, o->ctx->dev, st->dev);
	s->ops->stream.destroy(st->dev);
}

CUresult sess_stream_new(struct session *s, struct sess_ctx *ctx, uint64_t h,
			 unsigned flags, int priority, struct sess_stream **ret_stream)
{
	struct sess_stream *st = obj_new(HANDLE_STREAM, h, sizeof(*st), ctx, stream_fini);
	CUresult r;

	if (!st)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&st->in_lane);
	r = s->ops->stream.create(ctx->dev, flags, priority, &st->dev);
	if (r != CUDA_SUCCESS) {
		obj_put(s, &st->obj);
		return r;
	}
	*ret_stream = st;
	return CUDA_SUCCESS;
}

/* The thread's default stream of a context is made at its first use. */
static CUresult thread_stream(struct sess_lane *sl, struct sess_stream **ret_stream)
{
	struct sess_stream *st;
	CUresult r;

	list_for_each (st, &sl->thread_streams, in_lane) {
		if (st->obj.ctx == sl->ctx) {
			*ret_stream = st;
			return CUDA_SUCCESS;
		}
	}
	r = sess_stream_new(sl->s, sl->ctx, 0, 0, 0, &st);
	if (r != CUDA_SUCCESS)
		return r;
	list_append(&sl->thread_streams, &st->in_lane);
	*ret_stream = st;
	return CUDA_SUCCESS;
}

/* Longer than a few bytes take, if nothing else keeps the device from copying. */
#define SETTLE_NS (200 * NSEC_PER_USEC)

/*
 * A copy was taken, and the program believes it done. CUDA promises other streams
 * nothing, but as good as always it is: so is it here.
 */
static void settle(struct sess_lane *sl)
{
	uint64_t start = clock_now_ns();

	sl->taken.under_way = false;
	if (sl->taken.stream != SESS_STREAM_LEGACY || !sl->ctx ||
	    sl->ctx->dev != sl->taken.ctx)
		return;
	while (sl->s->ops->stream.query(sl->ctx->dev, NULL) == CUDA_ERROR_NOT_READY &&
	       clock_now_ns() - start < SETTLE_NS)
		cpu_relax();
}

CUresult sess_stream(struct sess_lane *sl, uint64_t h, struct dev_stream **ret_stream,
		     struct dev_ctx **ret_ctx)
{
	struct sess_ctx *ctx;
	CUresult r = sess_stream_in(sl, h, ret_stream, &ctx);

	if (r == CUDA_SUCCESS && ret_ctx)
		*ret_ctx = ctx->dev;
	return r;
}

CUresult sess_stream_in(struct sess_lane *sl, uint64_t h, struct dev_stream **ret_stream,
			struct sess_ctx **ret_ctx)
{
	struct sess_stream *st = NULL;
	CUresult r;

	if (unlikely(sl->taken.under_way) && h != sl->taken.stream)
		settle(sl);
	if (h == SESS_STREAM_LEGACY || h == SESS_STREAM_THREAD) {
		if (!sl->ctx)
			return CUDA_ERROR_INVALID_CONTEXT;
		if (h == SESS_STREAM_THREAD) {
			r = thread_stream(sl, &st);
			if (r != CUDA_SUCCESS)
				return r;
		}
	} else {
		st = sess_get(sl, HANDLE_STREAM, h);
		if (!st)
			return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret_stream = st ? st->dev : NULL;
	*ret_ctx = st ? st->obj.ctx : sl->ctx;
	return CUDA_SUCCESS;
}

void sess_drop_thread_streams(struct sess_lane *sl, struct sess_ctx *ctx)
{
	struct sess_stream *st, *tmp;

	list_for_each_safe (st, tmp, &sl->thread_streams, in_lane) {
		if (ctx && st->obj.ctx != ctx)
			continue;
		list_remove(&st->in_lane);
		obj_put(sl->s, &st->obj);
	}
}

struct sess_ctx *sess_hold_ctx(struct session *s)
{
	struct sess_obj *o = NULL;

	pthread_mutex_lock(&s->lanes_lock);
	if (s->primary)
		o = obj_ref(&s->primary->obj);
	pthread_mutex_unlock(&s->lanes_lock);
	if (!o)
		o = obj_any(s, HANDLE_CONTEXT);
	return o ? container_of(o, struct sess_ctx, obj) : NULL;
}

struct sess_ctx *sess_any_ctx(struct sess_lane *sl)
{
	struct sess_ctx *ctx = sl->ctx;

	if (ctx)
		return sess_pin(sl, obj_ref(&ctx->obj));
	ctx = sess_hold_ctx(sl->s);
	return ctx ? sess_pin(sl, &ctx->obj) : NULL;
}

void sess_memory(struct session *s, uint64_t *ret_free, uint64_t *ret_total)
{
	uint64_t used, peak;

	if (!s->accounts.memory ||
	    s->accounts.memory(s->accounts.arg, ret_free, ret_total) < 0) {
		space_usage(s->space, &used, &peak);
		*ret_total = s->info.memory_bytes;
		*ret_free = *ret_total - MIN(used, *ret_total);
	}
}

int sess_tenant(struct session *s, struct msg_tenant *ret_tenant)
{
	if (!s->accounts.tenant)
		return -EOPNOTSUPP;
	return s->accounts.tenant(s->accounts.arg, ret_tenant);
}
