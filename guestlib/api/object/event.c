/* SPDX-License-Identifier: Apache-2.0 */
/* Events. Of those that are known to have happened nobody is asked. */
#include "calls.h"
#include "graph/capture.h"
#include "graph/op.h"
#include "object/context.h"
#include "object/event.h"
#include "object/stream.h"

#define EVENT_FLAGS                                                                      \
	((unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |                   \
		    CU_EVENT_INTERPROCESS))

/* ---- making them ---- */

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags)
{
	struct event_create_cmd *cmd;
	struct guest_thread *t;
	uint64_t h;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!event || (flags & ~EVENT_FLAGS) ||
	    ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	h = event_new(t->top, flags, t->top->handle);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cmd = begin_event_create(t);
	if (!cmd) {
		event_drop(h);
		return guest_lost(t);
	}
	cmd->event = h;
	cmd->flags = flags;
	r = guest_post(t);
	if (r)
		event_drop(h);
	else
		*event = (CUevent)(uintptr_t)h;
	return r;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent event)
{
	struct event_destroy_cmd *cmd;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!event_lookup(event))
		return CUDA_ERROR_INVALID_HANDLE;
	cmd = begin_event_destroy(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	r = guest_post(t);
	if (r == CUDA_SUCCESS)
		event_drop((uintptr_t)event);
	return r;
}

/* ---- recording, and waiting in a stream ---- */

/* Other processes may be told of it by other means: then it must have happened. */
static CUresult finish(struct guest_thread *t, const struct guest_event *e,
		       uint32_t reply_size)
{
	struct lane_reply reply;

	if (unlikely(e->flags & CU_EVENT_INTERPROCESS))
		return guest_call(t, reply_size, &reply);
	return guest_post(t);
}

/* A node that records or waits, for an event that the rest of the program sees. */
static CUresult capture_external(CUevent event, CUstream stream, CUgraphNodeType type,
				 bool ptsz)
{
	struct graph_op op;
	CUresult r = graph_op_event(event, type, &op);

	return r ? r : capture_add(stream, ptsz, &op);
}

/*
 * Begins recording or waiting. *ret_taken: a capture has taken it, and nothing is left to
 * do.
 */
static CUresult begin(CUevent event, CUstream stream, unsigned flags,
		      CUgraphNodeType type, bool ptsz, struct guest_thread **ret_t,
		      struct guest_event **ret_e, uint64_t *ret_wire, bool *ret_taken)
{
	bool records = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	CUresult r = guest_enter(guest_need_on(stream), ret_t);

	static_assert((int)CU_EVENT_RECORD_EXTERNAL == (int)CU_EVENT_WAIT_EXTERNAL,
		      "one flag for both");
	*ret_taken = false;
	if (r)
		return r;
	*ret_e = event_lookup(event);
	if (!*ret_e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags && capture_wants(stream, ptsz)) {
		*ret_taken = true;
		return capture_external(event, stream, type, ptsz);
	}
	if (unlikely(capture_any()))
		r = records ? capture_record(event, stream, ptsz, ret_taken)
			    : capture_wait(stream, event, ptsz, ret_taken);
	return r || *ret_taken ? r : guest_stream(stream, ptsz, ret_wire);
}

static CUresult record_flags(CUevent event, CUstream stream, unsigned flags, bool ptsz)
{
	struct event_record_cmd *cmd;
	struct guest_event *e;
	struct guest_thread *t;
	uint64_t wire, before;
	bool taken, idle;
	CUresult r = begin(event, stream, flags, CU_GRAPH_NODE_TYPE_EVENT_RECORD, ptsz,
			   &t, &e, &wire, &taken);

	if (r || taken)
		return r;
	if (unlikely(!event_was_recorded(e)))
		atomic_store_explicit(&e->recorded, true, memory_order_relaxed);
	before = idle_now();
	idle = idle_is(idle_of_stream(t, wire));
	cmd = begin_event_record(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	cmd->stream = wire;
	cmd->after = 0;
	r = unlikely(e->flags & CU_EVENT_INTERPROCESS)
		    ? finish(t, e, sizeof(struct event_record_rep))
		    : guest_post_apart(t, &cmd->after, wire, (uintptr_t)event);
	event_note_posted(t, e, wire, before, idle && r == CUDA_SUCCESS);
	return r;
}

static CUresult record(CUevent event, CUstream stream, bool ptsz)
{
	return record_flags(event, stream, 0, ptsz);
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags, bool ptsz)
{
	struct stream_wait_event_cmd *cmd;
	struct guest_event *e;
	struct guest_thread *t;
	uint64_t wire;
	bool taken;
	CUresult r = begin(event, stream, flags, CU_GRAPH_NODE_TYPE_WAIT_EVENT, ptsz, &t,
			   &e, &wire, &taken);

	if (r || taken)
		return r;
	cmd = begin_stream_wait_event(t);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = wire;
	cmd->event = (uintptr_t)event;
	return finish(t, e, sizeof(struct stream_wait_event_rep));
}

GUEST_PAIR(cuEventRecord, ptsz, (CUevent event, CUstream stream), record, event, stream)
GUEST_PAIR(cuEventRecordWithFlags, ptsz,
	   (CUevent event, CUstream stream, unsigned int flags), record_flags, event,
	   stream, flags)
GUEST_PAIR(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned int flags),
	   wait_event, stream, event, flags)

/* ---- of whole contexts ---- */

static CUresult ctx_event_check(CUcontext ctx, CUevent event, struct guest_thread **ret_t,
				struct guest_event **ret_e)
{
	CUresult r = guest_enter(NEED_INIT, ret_t);

	if (r)
		return r;
	if (!guest_handle_valid((uintptr_t)ctx, HANDLE_CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_e = event_lookup(event);
	if (!*ret_e)
		return CUDA_ERROR_INVALID_HANDLE;
	return guest_whole(*ret_t, guest_ctx_handle(ctx));
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	struct guest_event *e;
	struct guest_thread *t;
	CUresult r = ctx_event_check(ctx, event, &t, &e);

	if (r)
		return r;
	r = call_ctx_record_event(t, guest_ctx_handle(ctx), (uintptr_t)event);
	event_note_recorded(e, false);
	return r;
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	struct guest_event *e;
	struct guest_thread *t;
	CUresult r = ctx_event_check(ctx, event, &t, &e);

	if (r)
		return r;
	return call_ctx_wait_event(t, guest_ctx_handle(ctx), (uintptr_t)event);
}

/* ---- asking ---- */

/* Not of an event that stands for nodes of a capture. */
static CUresult ask_begin(CUevent event, struct guest_thread **ret_t,
			  struct guest_event **ret_e)
{
	CUresult r = guest_enter(NEED_INIT, ret_t);

	if (r)
		return r;
	*ret_e = event_lookup(event);
	if (!*ret_e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (likely(!capture_any()))
		return CUDA_SUCCESS;
	r = capture_forbids_event(*ret_e);
	return r ? r : guest_unsafe(*ret_t);
}

static CUresult ask(CUevent event, uint64_t *(*begin_asking)(struct guest_thread *t))
{
	struct guest_event *e;
	struct guest_thread *t;
	struct lane_reply reply;
	struct event_asked a;
	uint64_t *named;
	CUresult r = ask_begin(event, &t, &e);

	if (r || (event_has_happened(e) && idle_may_answer(t)))
		return r;
	a = event_asked_now(e);
	named = begin_asking(t);
	if (!named)
		return guest_lost(t);
	*named = (uintptr_t)event;
	static_assert(sizeof(struct event_query_rep) == sizeof(struct wire_result) &&
			      sizeof(struct event_synchronize_rep) ==
				      sizeof(struct wire_result),
		      "neither answer says more than how it went");
	r = guest_ask(t, sizeof(struct wire_result), &reply);
	if (r == CUDA_SUCCESS)
		event_note_happened(t, e, a);
	return r;
}

static uint64_t *begin_querying(struct guest_thread *t)
{
	struct event_query_cmd *cmd = begin_event_query(t);

	return cmd ? &cmd->event : NULL;
}

static uint64_t *begin_waiting(struct guest_thread *t)
{
	struct event_synchronize_cmd *cmd = begin_event_synchronize(t);

	return cmd ? &cmd->event : NULL;
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
	return ask(event, begin_querying);
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
	return ask(event, begin_waiting);
}
