/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, and what they take of the device's memory. The first one was made and charged
 * before the guest came; when it ends what was paid for it is good for the next one.
 */
#include "memory/pool/pool.h"
#include "memory/space.h"
#include "session/footprint.h"
#include "session/hostfunc.h"
#include "session/command.h"

/* Events that are waited for, and not spun for. */
#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING)

static void ctx_fini(struct session *s, struct sess_obj *o)
{
	struct sess_ctx *ctx = container_of(o, struct sess_ctx, obj);
	uint64_t apart = ctx->apart + ctx->limits_charged;

	if (!ctx->dev)
		return;
	pools_ctx_gone(s->pools, ctx->dev);
	hostfuncs_ctx_gone(s->hostfuncs, ctx->dev);
	tally_ending(&s->apart, apart);
	if (ctx->caught_up)
		s->ops->event.destroy(ctx->caught_up);
	s->ops->ctx.destroy(ctx->dev);
	tally_ended(&s->apart, apart);
	pthread_mutex_lock(&s->contexts_lock);
	list_remove(&ctx->in_session);
	pthread_cond_broadcast(&s->contexts_cond);
	pthread_mutex_unlock(&s->contexts_lock);
	if (ctx->charged || ctx->limits_charged)
		space_uncharge(s->space, ctx->charged + ctx->limits_charged);
	if (ctx->paid)
		atomic_fetch_add(&s->paid, 1);
	footprint_shrunk(s);
}

/* Whether a context has been paid for that is not there; then it is now. */
static bool take_paid(struct session *s)
{
	unsigned n = atomic_load(&s->paid);

	while (n) {
		if (atomic_compare_exchange_weak(&s->paid, &n, n - 1))
			return true;
	}
	return false;
}

static void set_apart(struct session *s, struct sess_ctx *ctx, uint64_t bytes)
{
	ctx->apart = bytes;
	tally_made(&s->apart, bytes);
	if (s->overhead)
		footprint_changed(s);
}

uint64_t sess_overhead(struct session *s)
{
	s->overhead = s->ops->overhead(s->dev);
	s->primary->apart = s->overhead;
	tally_making(&s->apart, s->overhead);
	tally_made(&s->apart, s->overhead);
	return s->overhead;
}

bool sess_fill(struct session *s, bool on)
{
	return s->ops->filler && s->ops->filler(s->primary->dev, on);
}

bool sess_find_tpcs(struct session *s, struct dev_tpc_map *ret_map)
{
	return s->ops->find_tpcs &&
	       s->ops->find_tpcs(s->primary->dev, ret_map) == CUDA_SUCCESS;
}

/* Makes the device's context and, if it is not paid for, charges what it took, at most
 * s->overhead: what other threads allocate meanwhile is not the context's. Memory they
 * have freed goes back before, not meanwhile. */
static CUresult create(struct session *s, unsigned flags, struct sess_ctx *ctx)
{
	bool paid = !s->overhead || take_paid(s);
	uint64_t before = 0, after, took;
	CUresult r;

	if (!paid) {
		space_flush(s->space);
		before = s->ops->overhead(s->dev);
	}
	tally_making(&s->apart, s->overhead);
	r = s->ops->ctx.create(s->dev, flags, &ctx->dev);
	if (r != CUDA_SUCCESS) {
		tally_unmade(&s->apart, s->overhead);
		if (paid && s->overhead)
			atomic_fetch_add(&s->paid, 1);
		return r;
	}
	ctx->paid = paid;
	if (paid) {
		set_apart(s, ctx, s->overhead);
		return CUDA_SUCCESS;
	}
	after = s->ops->overhead(s->dev);
	took = after > before ? MIN(after - before, s->overhead) : 0;
	r = space_charge(s->space, took);
	if (r != CUDA_SUCCESS) {
		s->ops->ctx.destroy(ctx->dev);
		ctx->dev = NULL;
		took = 0;
	}
	ctx->charged = took;
	tally_unmade(&s->apart, s->overhead - took);
	set_apart(s, ctx, took);
	return r;
}

CUresult sess_ctx_new(struct session *s, uint64_t h, unsigned flags,
		      struct sess_ctx **ret_ctx)
{
	struct sess_ctx *ctx;
	CUresult r;

	if (s->monitor)
		return CUDA_ERROR_NOT_PERMITTED;
	ctx = obj_new(HANDLE_CONTEXT, h, sizeof(*ctx), NULL, ctx_fini);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&ctx->objs);
	list_init(&ctx->in_session);
	ctx->id = atomic_fetch_add(&s->next_ctx_id, 1);
	r = create(s, flags, ctx);
	if (r != CUDA_SUCCESS) {
		obj_put(s, &ctx->obj);
		return r;
	}
	pthread_mutex_lock(&s->contexts_lock);
	list_append(&s->contexts, &ctx->in_session);
	pthread_mutex_unlock(&s->contexts_lock);
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

/* The context made next after the one with that number, a reference; NULL: there is none.
 * One that is being destroyed is waited for: that ends its work. */
static struct sess_ctx *ctx_after(struct session *s, unsigned id)
{
	struct sess_ctx *ctx, *found;

	pthread_mutex_lock(&s->contexts_lock);
	for (;;) {
		found = NULL;
		list_for_each (ctx, &s->contexts, in_session) {
			if (ctx->id > id && (!found || ctx->id < found->id))
				found = ctx;
		}
		if (!found || obj_ref_live(&found->obj))
			break;
		pthread_cond_wait(&s->contexts_cond, &s->contexts_lock);
	}
	pthread_mutex_unlock(&s->contexts_lock);
	return found;
}

static void for_each_ctx(struct session *s,
			 void (*fn)(struct session *s, struct sess_ctx *ctx))
{
	struct sess_ctx *ctx;
	unsigned id;

	for (ctx = ctx_after(s, 0); ctx; ctx = ctx_after(s, id)) {
		id = ctx->id;
		fn(s, ctx);
		obj_put(s, &ctx->obj);
	}
}

static void quiesce(struct session *s, struct sess_ctx *ctx)
{
	(void)s->ops->ctx.synchronize(ctx->dev);
}

void sess_quiesce(struct session *s)
{
	for_each_ctx(s, quiesce);
}

/* A driver's waiting for a context may be for what comes meanwhile as well. */
static void catch_up(struct session *s, struct sess_ctx *ctx)
{
	const struct device_event_ops *ops = &s->ops->event;

	if (!ctx->caught_up && ops->create(ctx->dev, EVENT_FLAGS, &ctx->caught_up))
		ctx->caught_up = NULL;
	if (!ctx->caught_up || s->ops->ctx.record_event(ctx->dev, ctx->caught_up) ||
	    ops->synchronize(ctx->caught_up))
		quiesce(s, ctx);
}

void sess_catch_up(struct session *s)
{
	for_each_ctx(s, catch_up);
}

static CUresult set_limit(struct session *s, struct sess_ctx *ctx, CUlimit limit,
			  size_t value, uint64_t before)
{
	uint64_t after = s->ops->ctx.limit_bytes(ctx->dev, limit, value), more, less;
	CUresult r = CUDA_SUCCESS;

	if (after > before)
		r = space_charge(s->space, after - before);
	if (r != CUDA_SUCCESS)
		return r;
	more = after > before ? after - before : 0;
	less = after < before ? MIN(before - after, ctx->limits_charged) : 0;
	tally_making(&s->apart, more);
	tally_ending(&s->apart, less);
	r = s->ops->ctx.set_limit(ctx->dev, limit, value);
	if (r == CUDA_SUCCESS) {
		tally_made(&s->apart, more);
		tally_ended(&s->apart, less);
		ctx->limits_charged += more - less;
	} else {
		tally_unmade(&s->apart, more);
		tally_unended(&s->apart, less);
		less = more;
	}
	if (less)
		space_uncharge(s->space, less);
	footprint_changed(s);
	return r;
}

CUresult sess_ctx_set_limit(struct session *s, struct sess_ctx *ctx, CUlimit limit,
			    size_t value)
{
	size_t old;
	CUresult r;

	pthread_mutex_lock(&s->limits_lock);
	r = s->ops->ctx.get_limit(ctx->dev, limit, &old);
	if (r == CUDA_SUCCESS)
		r = set_limit(s, ctx, limit, value,
			      s->ops->ctx.limit_bytes(ctx->dev, limit, old));
	else /* what cannot be asked for has its own error when set */
		r = s->ops->ctx.set_limit(ctx->dev, limit, value);
	pthread_mutex_unlock(&s->limits_lock);
	return r;
}
