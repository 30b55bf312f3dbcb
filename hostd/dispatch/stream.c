/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"
#include "session/ipc_event.h"

/* Keeps a stream's kernels to some TPCs. Takes over the stream if that cannot be. */
static CUresult keep_to(struct sess_lane *sl, struct sess_stream *st,
			const uint64_t tpcs[2])
{
	const struct device_ops *ops = sl->s->ops;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (ops->stream.keep_to)
		r = ops->stream.keep_to(sl->ctx->dev, st->dev, tpcs);
	if (r != CUDA_SUCCESS)
		obj_put(sl->s, &st->obj);
	return r;
}

int handle_stream_create(struct sess_lane *sl, const struct stream_create_args *a,
			 struct stream_create_rep *rep)
{
	unsigned flags =
		a->cmd->flags & CU_STREAM_NON_BLOCKING ? DEV_STREAM_NON_BLOCKING : 0;
	struct sess_stream *st;

	rep->res.result = sess_stream_new(sl->s, sl->ctx, a->cmd->stream, flags,
					  a->cmd->priority, &st);
	if (rep->res.result == CUDA_SUCCESS && (a->cmd->tpcs[0] || a->cmd->tpcs[1]))
		rep->res.result = keep_to(sl, st, a->cmd->tpcs);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	return publish(sl, &st->obj, &rep->res.result);
}

int handle_stream_set_attribute(struct sess_lane *sl,
				const struct stream_set_attribute_args *a,
				struct stream_set_attribute_rep *rep)
{
	CUstreamAttrValue value;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	static_assert(sizeof(value) == sizeof(a->cmd->value), "as it travels");
	memcpy(&value, a->cmd->value, sizeof(value));
	switch (a->cmd->id) {
	case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_STREAM_ATTRIBUTE_PRIORITY:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
		break;
	default:
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->stream.set_attribute(ctx, st, (CUstreamAttrID)a->cmd->id,
						     &value);
	rep->res.result = r;
	return 0;
}

int handle_stream_mem_ops(struct sess_lane *sl, const struct stream_mem_ops_args *a,
			  struct stream_mem_ops_rep *rep)
{
	struct dev_mem_op ops[DEV_MEM_OPS_MAX];
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	if (r == CUDA_SUCCESS && a->cmd->op_count > DEV_MEM_OPS_MAX)
		r = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < a->cmd->op_count && r == CUDA_SUCCESS; i++) {
		const struct wire_mem_op *w = &a->op[i];

		ops[i] = (struct dev_mem_op){.op = (CUstreamBatchMemOpType)w->op,
					     .flags = w->flags,
					     .addr = w->address,
					     .value = w->value};
	}
	if (r == CUDA_SUCCESS) {
		if (sess_enter(sl) < 0)
			return -EPIPE;
		r = sl->s->ops->stream.mem_ops(ctx, st, ops, a->cmd->op_count,
					       a->cmd->flags);
		sess_leave(sl);
	}
	rep->res.result = r;
	return 0;
}

int handle_stream_destroy(struct sess_lane *sl, const struct stream_destroy_args *a,
			  struct stream_destroy_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_STREAM, a->cmd->stream);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	obj_put(sl->s, o);
	return 0;
}

int handle_stream_query(struct sess_lane *sl, const struct stream_query_args *a,
			struct stream_query_rep *rep)
{
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	if (r == CUDA_SUCCESS)
		r = sl->s->ops->stream.query(ctx, st);
	rep->res.result = sess_sync_result(sl, r);
	return 0;
}

int handle_stream_synchronize(struct sess_lane *sl,
			      const struct stream_synchronize_args *a)
{
	struct stream_synchronize_rep rep = {};
	struct dev_stream *st;
	struct dev_ctx *ctx;

	static_assert(sizeof(rep) == sizeof(rep.res), "a result alone");
	rep.res.result = sess_sync_result(sl, sess_stream(sl, a->cmd->stream, &st, &ctx));
	if (rep.res.result != CUDA_SUCCESS)
		return sess_done(sl, &rep, sizeof(rep));
	return sess_answer_synchronized(sl, ctx, st, a->cmd->stream);
}

int handle_stream_wait_event(struct sess_lane *sl, const struct stream_wait_event_args *a,
			     struct stream_wait_event_rep *rep)
{
	struct sess_event *ev = sess_get(sl, HANDLE_EVENT, a->cmd->event);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	if (r == CUDA_SUCCESS && !ev)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS && ev->ipc)
		r = ipc_event_wait(sl->s->ipc_events, ev->ipc, ctx, st);
	else if (r == CUDA_SUCCESS)
		r = sl->s->ops->stream.wait_event(ctx, st, ev->dev);
	if (r == CUDA_SUCCESS)
		pools_waited(sl->s->pools, st, atomic_load(&ev->stream),
			     atomic_load(&ev->moment));
	rep->res.result = r;
	return 0;
}
