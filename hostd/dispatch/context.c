/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts. The primary one was made before the guest came and waits under no handle
 * until the guest retains it; after a release the next retain makes a new one.
 */
#include "dispatch/handlers.h"
#include "session/trace.h"

static int publish_ctx(struct sess_lane *sl, struct sess_ctx *ctx, uint64_t h,
		       uint32_t *ret_result)
{
	ctx->obj.handle = h;
	atomic_store_explicit(&sl->s->count->computes, 1, memory_order_relaxed);
	return publish(sl, &ctx->obj, ret_result);
}

int handle_ctx_create(struct sess_lane *sl, const struct ctx_create_args *a,
		      struct ctx_create_rep *rep)
{
	struct sess_ctx *ctx;

	rep->res.result = sess_ctx_new(sl->s, a->cmd->ctx, a->cmd->flags, &ctx);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	return publish_ctx(sl, ctx, a->cmd->ctx, &rep->res.result);
}

/* The primary context that was made in advance, once. */
static struct sess_ctx *take_primary(struct session *s)
{
	struct sess_ctx *ctx;

	pthread_mutex_lock(&s->lanes_lock);
	ctx = steal(s->primary);
	pthread_mutex_unlock(&s->lanes_lock);
	return ctx;
}

int handle_primary_retain(struct sess_lane *sl, const struct primary_retain_args *a,
			  struct primary_retain_rep *rep)
{
	struct sess_ctx *ctx = take_primary(sl->s);

	if (!ctx) {
		rep->res.result = sess_ctx_new(sl->s, a->cmd->ctx, a->cmd->flags, &ctx);
		if (rep->res.result != CUDA_SUCCESS)
			return 0;
	}
	return publish_ctx(sl, ctx, a->cmd->ctx, &rep->res.result);
}

/*
 * Ends a context: no handle of it is found any more; its work is done and its memory is
 * free. The context itself goes when the last lane has let go of it: one that sleeps does
 * so at once.
 */
static int destroy(struct sess_lane *sl, uint64_t h, uint32_t *ret_result)
{
	struct session *s = sl->s;
	struct sess_obj *o = obj_take(s, HANDLE_CONTEXT, h);
	struct sess_ctx *ctx;

	if (!o) {
		*ret_result = CUDA_ERROR_INVALID_CONTEXT;
		return 0;
	}
	ctx = container_of(o, struct sess_ctx, obj);
	(void)s->ops->ctx.synchronize(ctx->dev);
	obj_drop_ctx(s, ctx);
	sess_libraries_drop_ctx(s, ctx);
	space_release_owner(s->space, ctx->id);
	sess_drop_thread_streams(sl, ctx);
	if (sl->ctx == ctx) {
		obj_put(s, &ctx->obj);
		sl->ctx = NULL;
	}
	sess_ctx_gone(s, ctx);
	obj_put(s, o); /* before the reply: when the guest has it, the context is gone */
	*ret_result = CUDA_SUCCESS;
	return 0;
}

int handle_ctx_destroy(struct sess_lane *sl, const struct ctx_destroy_args *a,
		       struct ctx_destroy_rep *rep)
{
	return destroy(sl, a->cmd->ctx, &rep->res.result);
}

int handle_primary_release(struct sess_lane *sl, const struct primary_release_args *a,
			   struct primary_release_rep *rep)
{
	return destroy(sl, a->cmd->ctx, &rep->res.result);
}

int handle_thread_begin(struct sess_lane *sl, const struct thread_begin_args *a,
			struct thread_begin_rep *rep)
{
	sess_drop_thread_streams(sl, NULL);
	return 0;
}

int handle_ctx_set_current(struct sess_lane *sl, const struct ctx_set_current_args *a,
			   struct ctx_set_current_rep *rep)
{
	struct sess_obj *o = NULL;

	if (a->cmd->ctx) {
		o = obj_find(sl->s, HANDLE_CONTEXT, a->cmd->ctx);
		if (!o) {
			rep->res.result = CUDA_ERROR_INVALID_CONTEXT;
			return 0;
		}
	}
	if (sl->ctx)
		obj_put(sl->s, &sl->ctx->obj);
	sl->ctx = o ? container_of(o, struct sess_ctx, obj) : NULL;
	return 0;
}

int handle_cuCtxSynchronize(struct sess_lane *sl, const struct cuCtxSynchronize_args *a,
			    struct cuCtxSynchronize_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	uint64_t begin_ns = trace_begin(sl->s);

	rep->res.result = sess_sync_result(sl, sl->s->ops->ctx.synchronize(ctx));
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	pools_synced(sl->s->pools);
	return 0;
}

int handle_cuCtxSynchronize_v2(struct sess_lane *sl,
			       const struct cuCtxSynchronize_v2_args *a,
			       struct cuCtxSynchronize_v2_rep *rep)
{
	struct sess_ctx *ctx = sess_get(sl, HANDLE_CONTEXT, a->cmd->ctx);
	uint64_t begin_ns = trace_begin(sl->s);

	if (!ctx)
		rep->res.result = CUDA_ERROR_INVALID_CONTEXT;
	else
		rep->res.result =
			sess_sync_result(sl, sl->s->ops->ctx.synchronize(ctx->dev));
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	pools_synced(sl->s->pools);
	return 0;
}

int handle_ctx_set_limit(struct sess_lane *sl, const struct ctx_set_limit_args *a,
			 struct ctx_set_limit_rep *rep)
{
	rep->res.result =
		sess_ctx_set_limit(sl->s, sl->ctx, (CUlimit)a->cmd->limit, a->cmd->value);
	return 0;
}

int handle_ctx_get_limit(struct sess_lane *sl, const struct ctx_get_limit_args *a,
			 struct ctx_get_limit_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	size_t value = 0;

	rep->res.result = sl->s->ops->ctx.get_limit(ctx, (CUlimit)a->cmd->limit, &value);
	rep->value = value;
	return 0;
}
