/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"
#include "session/trace.h"
#include "session/ipc_event.h"

static void event_fini(struct session *s, struct sess_obj *o)
{
	struct sess_event *ev = container_of(o, struct sess_event, obj);

	ipc_event_close(s->ipc_events, ev->ipc);
	if (ev->dev)
		s->ops->event.destroy(ev->dev);
}

int handle_event_create(struct sess_lane *sl, const struct event_create_args *a,
			struct event_create_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct sess_event *ev =
		obj_new(HANDLE_EVENT, a->cmd->event, sizeof(*ev), sl->ctx, event_fini);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (ev)
		r = sl->s->ops->event.create(
			ctx, a->cmd->flags & ~(unsigned)CU_EVENT_INTERPROCESS, &ev->dev);
	rep->res.result = r;
	if (r != CUDA_SUCCESS) {
		if (ev)
			obj_put(sl->s, &ev->obj);
		return 0;
	}
	ev->interprocess = a->cmd->flags & CU_EVENT_INTERPROCESS;
	if (ev->interprocess)
		ev->ipc = ipc_event_new(sl->s->ipc_events);
	return publish(sl, &ev->obj, &rep->res.result);
}

int handle_ipc_event_export(struct sess_lane *sl, const struct ipc_event_export_args *a,
			    struct ipc_event_export_rep *rep)
{
	struct sess_event *ev = sess_get(sl, HANDLE_EVENT, a->cmd->event);
	uint8_t name[sizeof(rep->name)];

	if (!ev || !ev->interprocess) {
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		return 0;
	}
	if (!ev->ipc) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	rep->res.result = ipc_event_export(sl->s->ipc_events, ev->ipc, name);
	if (rep->res.result == CUDA_SUCCESS)
		memcpy(rep->name, name, sizeof(name));
	return 0;
}

/* The device's event is there for those that know nothing of others, as graphs. */
int handle_ipc_event_open(struct sess_lane *sl, const struct ipc_event_open_args *a,
			  struct ipc_event_open_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct sess_event *ev =
		obj_new(HANDLE_EVENT, a->cmd->event, sizeof(*ev), sl->ctx, event_fini);
	uint8_t name[sizeof(a->cmd->name)];
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	memcpy(name, a->cmd->name, sizeof(name));
	if (ev)
		r = sl->s->ops->event.create(ctx, CU_EVENT_DISABLE_TIMING, &ev->dev);
	if (r == CUDA_SUCCESS)
		r = ipc_event_open(sl->s->ipc_events, name, &ev->ipc);
	rep->res.result = r;
	if (r != CUDA_SUCCESS) {
		if (ev)
			obj_put(sl->s, &ev->obj);
		return 0;
	}
	ev->interprocess = true;
	return publish(sl, &ev->obj, &rep->res.result);
}

int handle_event_destroy(struct sess_lane *sl, const struct event_destroy_args *a,
			 struct event_destroy_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_EVENT, a->cmd->event);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	obj_put(sl->s, o);
	return 0;
}

static CUresult record(struct sess_lane *sl, uint64_t event, uint64_t stream)
{
	struct sess_event *ev = sess_get(sl, HANDLE_EVENT, event);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t moment;
	CUresult r = sess_stream(sl, stream, &st, &ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ev || ev->obj.ctx->dev != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Before the record: what is freed from here on the event does not cover. */
	moment = atomic_load(&ev->elsewhere) || ev->ipc ? 0 : pools_moment(sl->s->pools);
	atomic_store(&ev->moment, 0);
	atomic_store(&ev->stream, st);
	r = sl->s->ops->event.record(ctx, ev->dev, st);
	if (r == CUDA_SUCCESS && ev->ipc)
		r = ipc_event_record(sl->s->ipc_events, ev->ipc, ctx, st);
	if (r == CUDA_SUCCESS)
		atomic_store(&ev->moment, moment);
	return r;
}

int handle_event_record(struct sess_lane *sl, const struct event_record_args *a,
			struct event_record_rep *rep)
{
	int r = sess_apart(sl) ? batch_after(sl, a->cmd->after) : 0;

	if (r < 0)
		return r;
	rep->res.result = record(sl, a->cmd->event, a->cmd->stream);
	return 0;
}

static CUresult ctx_event(struct sess_lane *sl, uint64_t ctx, uint64_t event,
			  CUresult (*op)(struct dev_ctx *, struct dev_event *))
{
	struct sess_ctx *c = sess_get(sl, HANDLE_CONTEXT, ctx);
	struct sess_event *ev = sess_get(sl, HANDLE_EVENT, event);

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ev)
		return CUDA_ERROR_INVALID_HANDLE;
	return ev->ipc ? CUDA_ERROR_NOT_SUPPORTED : op(c->dev, ev->dev);
}

int handle_ctx_record_event(struct sess_lane *sl, const struct ctx_record_event_args *a,
			    struct ctx_record_event_rep *rep)
{
	rep->res.result =
		ctx_event(sl, a->cmd->ctx, a->cmd->event, sl->s->ops->ctx.record_event);
	return 0;
}

int handle_ctx_wait_event(struct sess_lane *sl, const struct ctx_wait_event_args *a,
			  struct ctx_wait_event_rep *rep)
{
	rep->res.result =
		ctx_event(sl, a->cmd->ctx, a->cmd->event, sl->s->ops->ctx.wait_event);
	return 0;
}

/* State of an event: the device knows only this session's part in a shared one. */
static CUresult query(const struct sess_lane *sl, struct sess_event *ev)
{
	CUresult r;

	if (!ev)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sl->s->ops->event.query(ev->dev);
	return r == CUDA_SUCCESS && ev->ipc ? ipc_event_query(sl->s->ipc_events, ev->ipc)
					    : r;
}

int handle_event_query(struct sess_lane *sl, const struct event_query_args *a,
		       struct event_query_rep *rep)
{
	struct sess_event *ev = sess_get(sl, HANDLE_EVENT, a->cmd->event);

	rep->res.result = sess_sync_result(sl, query(sl, ev));
	return 0;
}

static CUresult synchronize(const struct sess_lane *sl, struct sess_event *ev)
{
	CUresult r;

	if (!ev)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sl->s->ops->event.synchronize(ev->dev);
	if (r == CUDA_SUCCESS && ev->ipc)
		r = ipc_event_synchronize(sl->s->ipc_events, ev->ipc, ev->obj.ctx->dev);
	return r;
}

int handle_event_synchronize(struct sess_lane *sl, const struct event_synchronize_args *a,
			     struct event_synchronize_rep *rep)
{
	struct sess_event *ev = sess_get(sl, HANDLE_EVENT, a->cmd->event);
	uint64_t begin_ns = trace_begin(sl->s);
	CUresult r = synchronize(sl, ev);

	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	pools_synced(sl->s->pools);
	rep->res.result = sess_sync_result(sl, r);
	return 0;
}

int handle_cuEventElapsedTime_v2(struct sess_lane *sl,
				 const struct cuEventElapsedTime_v2_args *a,
				 struct cuEventElapsedTime_v2_rep *rep)
{
	struct sess_event *start = sess_get(sl, HANDLE_EVENT, a->cmd->hStart);
	struct sess_event *end = sess_get(sl, HANDLE_EVENT, a->cmd->hEnd);

	if (!start || !end || start->obj.ctx != end->obj.ctx)
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	else
		rep->res.result = sl->s->ops->event.elapsed(start->dev, end->dev,
							    &rep->pMilliseconds);
	return 0;
}
