/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, and what they take of the device's memory. The first one was made and charged
 * before the guest came; when it ends what was paid for it is good for the next one.
 */
#include "memory/pool.h"
#include "memory/space.h"
#include "session/hostfunc.h"
#include "session/session.h"

static void ctx_fini(struct session *s, struct sess_obj *o)
{
	struct sess_ctx *ctx = container_of(o, struct sess_ctx, obj);

	if (!ctx->dev)
		return;
	pools_ctx_gone(s->pools, ctx->dev);
	hostfuncs_ctx_gone(s->hostfuncs, ctx->dev);
	s->ops->ctx_destroy(ctx->dev);
	pthread_mutex_lock(&s->contexts_lock);
	list_remove(&ctx->in_session);
	pthread_cond_broadcast(&s->contexts_cond);
	pthread_mutex_unlock(&s->contexts_lock);
	if (ctx->charged || ctx->limits_charged)
		space_uncharge(s->space, ctx->charged + ctx->limits_charged);
	if (ctx->paid)
		atomic_fetch_add(&s->paid, 1);
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

/* What other threads allocate meanwhile is not the context's, hence the bound; and what
 * they have freed goes back before, not meanwhile. */
static CUresult create(struct session *s, unsigned flags, struct sess_ctx *ctx)
{
	bool paid = !s->overhead || take_paid(s);
	uint64_t before = 0, after, took;
	CUresult r;

	if (!paid) {
		space_flush(s->space);
		before = s->ops->overhead(s->dev);
	}
	r = s->ops->ctx_create(s->dev, flags, &ctx->dev);
	if (r != CUDA_SUCCESS) {
		if (paid && s->overhead)
			atomic_fetch_add(&s->paid, 1);
		return r;
	}
	ctx->paid = paid;
	if (paid)
		return CUDA_SUCCESS;
	after = s->ops->overhead(s->dev);
	took = after > before ? MIN(after - before, s->overhead) : 0;
	r = space_charge(s->space, took);
	if (r != CUDA_SUCCESS) {
		s->ops->ctx_destroy(ctx->dev);
		ctx->dev = NULL;
	}
	ctx->charged = r == CUDA_SUCCESS ? took : 0;
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

void sess_quiet(struct session *s)
{
	struct sess_ctx *ctx;
	unsigned id;

	for (ctx = ctx_after(s, 0); ctx; ctx = ctx_after(s, id)) {
		id = ctx->id;
		(void)s->ops->ctx_synchronize(ctx->dev);
		obj_put(s, &ctx->obj);
	}
}

static CUresult set_limit(struct session *s, struct sess_ctx *ctx, CUlimit limit,
			  size_t value, uint64_t before)
{
	uint64_t after = s->ops->ctx_limit_bytes(ctx->dev, limit, value), back;
	CUresult r = CUDA_SUCCESS;

	if (after > before)
		r = space_charge(s->space, after - before);
	if (r != CUDA_SUCCESS)
		return r;
	r = s->ops->ctx_set_limit(ctx->dev, limit, value);
	if (after > before && r == CUDA_SUCCESS)
		ctx->limits_charged += after - before;
	else if (after > before)
		space_uncharge(s->space, after - before);
	if (after < before && r == CUDA_SUCCESS) {
		back = MIN(before - after, ctx->limits_charged);
		ctx->limits_charged -= back;
		space_uncharge(s->space, back);
	}
	return r;
}

CUresult sess_ctx_set_limit(struct session *s, struct sess_ctx *ctx, CUlimit limit,
			    size_t value)
{
	size_t old;
	CUresult r;

	pthread_mutex_lock(&s->limits_lock);
	r = s->ops->ctx_get_limit(ctx->dev, limit, &old);
	if (r == CUDA_SUCCESS)
		r = set_limit(s, ctx, limit, value,
			      s->ops->ctx_limit_bytes(ctx->dev, limit, old));
	else /* what cannot be asked for has its own error when set */
		r = s->ops->ctx_set_limit(ctx->dev, limit, value);
	pthread_mutex_unlock(&s->limits_lock);
	return r;
}
