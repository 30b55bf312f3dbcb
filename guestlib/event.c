// SPDX-License-Identifier: Apache-2.0
/* Making events, and where a capture may be concerned; the rest is generated. */
#include "calls.h"
#include "capture.h"
#include "event.h"

#define EVENT_FLAGS                                                                      \
	((unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |                   \
		    CU_EVENT_INTERPROCESS))

/* What is known of an event here is its shadow: its flags, and if it was ever recorded.
 */
#define RECORDED 2u

void *event_shadow(unsigned flags)
{
	return (void *)(uintptr_t)(flags << 2 | 1);
}

static uintptr_t shadow_of(CUevent event)
{
	return (uintptr_t)guest_object((uintptr_t)event, HANDLE_EVENT);
}

unsigned event_flags(CUevent event)
{
	return (unsigned)shadow_of(event) >> 2;
}

bool event_was_recorded(CUevent event)
{
	return shadow_of(event) & RECORDED;
}

static void note_recorded(CUevent event)
{
	uintptr_t was = shadow_of(event);

	if (unlikely(!(was & RECORDED)))
		guest_handle_set((uintptr_t)event, (void *)(was | RECORDED));
}

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
	h = guest_handle_new(HANDLE_EVENT, event_shadow(flags));
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cmd = begin_event_create(t);
	if (!cmd) {
		guest_handle_free(h);
		return guest_lost(t);
	}
	cmd->event = h;
	cmd->flags = flags;
	r = guest_post(t);
	if (r)
		guest_handle_free(h);
	else
		*event = (CUevent)(uintptr_t)h;
	return r;
}

/* Other processes may be told of it by other means: then it must have happened. */
static CUresult finish(struct guest_thread *t, CUevent event, uint32_t reply_size)
{
	struct lane_reply reply;

	if (unlikely(event_flags(event) & CU_EVENT_INTERPROCESS))
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
 * What recording and waiting begin with. *ret_taken: a capture has taken it, and nothing
 * is left to do.
 */
static CUresult begin(CUevent event, CUstream stream, unsigned flags,
		      CUgraphNodeType type, bool ptsz, struct guest_thread **ret_t,
		      uint64_t *ret_wire, bool *ret_taken)
{
	bool records = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	CUresult r = guest_enter(guest_need_on(stream), ret_t);

	static_assert((int)CU_EVENT_RECORD_EXTERNAL == (int)CU_EVENT_WAIT_EXTERNAL,
		      "one flag for both");
	*ret_taken = false;
	if (r)
		return r;
	if (!guest_handle_valid((uintptr_t)event, HANDLE_EVENT))
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
	struct guest_thread *t;
	uint64_t wire;
	bool taken;
	CUresult r = begin(event, stream, flags, CU_GRAPH_NODE_TYPE_EVENT_RECORD, ptsz,
			   &t, &wire, &taken);

	if (r || taken)
		return r;
	note_recorded(event);
	cmd = begin_event_record(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	cmd->stream = wire;
	return finish(t, event, sizeof(struct event_record_rep));
}

static CUresult record(CUevent event, CUstream stream, bool ptsz)
{
	return record_flags(event, stream, 0, ptsz);
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags, bool ptsz)
{
	struct stream_wait_event_cmd *cmd;
	struct guest_thread *t;
	uint64_t wire;
	bool taken;
	CUresult r = begin(event, stream, flags, CU_GRAPH_NODE_TYPE_WAIT_EVENT, ptsz, &t,
			   &wire, &taken);

	if (r || taken)
		return r;
	cmd = begin_stream_wait_event(t);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = wire;
	cmd->event = (uintptr_t)event;
	return finish(t, event, sizeof(struct stream_wait_event_rep));
}

GUEST_PAIR(cuEventRecord, ptsz, (CUevent event, CUstream stream), record, event, stream)
GUEST_PAIR(cuEventRecordWithFlags, ptsz,
	   (CUevent event, CUstream stream, unsigned int flags), record_flags, event,
	   stream, flags)
GUEST_PAIR(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned int flags),
	   wait_event, stream, event, flags)

/* ---- of whole contexts ---- */

static CUresult ctx_event_check(CUcontext ctx, CUevent event, struct guest_thread **ret_t)
{
	CUresult r = guest_enter(NEED_INIT, ret_t);

	if (r)
		return r;
	if (!guest_handle_valid((uintptr_t)ctx, HANDLE_CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!guest_handle_valid((uintptr_t)event, HANDLE_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	return capture_any() ? guest_unsafe(*ret_t) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	struct ctx_record_event_cmd *cmd;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = ctx_event_check(ctx, event, &t);

	if (r)
		return r;
	cmd = begin_ctx_record_event(t);
	if (!cmd)
		return guest_lost(t);
	cmd->ctx = (uintptr_t)ctx;
	cmd->event = (uintptr_t)event;
	return guest_call(t, sizeof(struct ctx_record_event_rep), &reply);
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	struct ctx_wait_event_cmd *cmd;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = ctx_event_check(ctx, event, &t);

	if (r)
		return r;
	cmd = begin_ctx_wait_event(t);
	if (!cmd)
		return guest_lost(t);
	cmd->ctx = (uintptr_t)ctx;
	cmd->event = (uintptr_t)event;
	return guest_call(t, sizeof(struct ctx_wait_event_rep), &reply);
}

/* Neither may be asked of an event that stands for nodes of a capture. */
static CUresult ask_check(CUevent event)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!guest_handle_valid((uintptr_t)event, HANDLE_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (likely(!capture_any()))
		return CUDA_SUCCESS;
	r = capture_forbids_event(event);
	return r ? r : guest_unsafe(t);
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
	struct event_query_cmd *cmd;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = ask_check(event);

	if (r == CUDA_SUCCESS)
		r = guest_enter(NEED_INIT, &t);
	if (r)
		return r;
	cmd = begin_event_query(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	return guest_call(t, sizeof(struct event_query_rep), &reply);
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
	struct event_synchronize_cmd *cmd;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = ask_check(event);

	if (r == CUDA_SUCCESS)
		r = guest_enter(NEED_INIT, &t);
	if (r)
		return r;
	cmd = begin_event_synchronize(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	return guest_call(t, sizeof(struct event_synchronize_rep), &reply);
}
