// SPDX-License-Identifier: Apache-2.0
/* Events. Of those that are known to have happened nobody is asked. */
#include <stdlib.h>

#include "calls.h"
#include "graph/capture.h"
#include "object/context.h"
#include "object/event.h"
#include "object/stream.h"

#define EVENT_FLAGS                                                                      \
	((unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |                   \
		    CU_EVENT_INTERPROCESS))

static void drop(struct owned *o)
{
	struct guest_event *e = container_of(o, struct guest_event, owned);

	capture_event_gone(e);
	guest_handle_free(e->handle);
	free(e);
}

uint64_t event_new(struct guest_ctx *c, unsigned flags, uint64_t ctx)
{
	struct guest_event *e = calloc(1, sizeof(*e));
	uint64_t h;

	if (!e)
		return 0;
	e->flags = flags;
	e->ctx = ctx;
	atomic_init(&e->records, 1); /* whether it is there has yet to be seen */
	h = e->handle = guest_handle_new(HANDLE_EVENT, e);
	if (h)
		owned_add(c, &e->owned, drop);
	else
		free(e);
	return h;
}

void event_drop(uint64_t h)
{
	struct guest_event *e = guest_object(h, HANDLE_EVENT);

	if (!e)
		return;
	owned_remove(&e->owned);
	drop(&e->owned);
}

/* ---- what is known to have happened; see core/idle.h ---- */

/* It has been recorded by a command that was sent; done: in an idle stream. */
static void note_recorded(struct guest_event *e, bool done)
{
	uint64_t n = atomic_fetch_add_explicit(&e->records, 1, memory_order_relaxed) + 1;

	if (!done)
		return;
	atomic_store_explicit(&e->ended, atomic_load(&idle_ended), memory_order_relaxed);
	atomic_store_explicit(&e->done, n, memory_order_release);
}

static bool has_happened(const struct guest_event *e)
{
	/* acquire: pairs with the releases of `done` */
	uint64_t done = atomic_load_explicit(&e->done, memory_order_acquire);

	return done == atomic_load_explicit(&e->records, memory_order_relaxed) &&
	       atomic_load_explicit(&e->ended, memory_order_relaxed) ==
		       atomic_load_explicit(&idle_ended, memory_order_relaxed) &&
	       !atomic_load_explicit(&e->elsewhere, memory_order_relaxed) &&
	       !(e->flags & CU_EVENT_INTERPROCESS);
}

/* What a question begins with; its answer holds for no more than that. */
struct asked {
	uint64_t records, ended, now;
};

static struct asked asked_now(const struct guest_event *e)
{
	return (struct asked){atomic_load_explicit(&e->records, memory_order_relaxed),
			      atomic_load_explicit(&idle_ended, memory_order_relaxed),
			      idle_now()};
}

static uint64_t last_at(uint64_t wire, uint64_t now)
{
	return now | (uint64_t)handle_index(wire) << (64 - HANDLE_INDEX_BITS);
}

/* With nothing sent since it was recorded its stream is idle. The legacy stream is left
 * out: it also waits for others. */
static void note_happened(struct guest_thread *t, struct guest_event *e, struct asked a)
{
	uint64_t in = atomic_load_explicit(&e->last_in, memory_order_relaxed);

	if (in > GUEST_STREAM_PER_THREAD &&
	    last_at(in, a.now) == atomic_load_explicit(&e->last_at, memory_order_relaxed))
		idle_note(t, in, a.now);
	atomic_store_explicit(&e->ended, a.ended, memory_order_relaxed);
	atomic_store_explicit(&e->done, a.records, memory_order_release);
}

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
 * What recording and waiting begin with. *ret_taken: a capture has taken it, and nothing
 * is left to do.
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

/* A stream that was idle when the event was recorded still is, and the event has
 * happened, if nothing else has come in between. */
static void recorded(struct guest_thread *t, struct guest_event *e, uint64_t wire,
		     uint64_t before, bool idle)
{
	uint64_t ctx = wire > GUEST_STREAM_PER_THREAD ? stream_ctx(wire) : t->top->handle;
	bool last = ctx == e->ctx && idle_now() == before + 1;

	idle = idle && last;
	atomic_store_explicit(&e->last_in, last ? wire : 0, memory_order_relaxed);
	atomic_store_explicit(&e->last_at, last_at(wire, before + 1),
			      memory_order_relaxed);
	note_recorded(e, idle);
	if (idle)
		idle_note(t, wire, before + 1);
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
	r = finish(t, e, sizeof(struct event_record_rep));
	recorded(t, e, wire, before, idle && r == CUDA_SUCCESS);
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
	return guest_whole(*ret_t, (uintptr_t)ctx);
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	struct ctx_record_event_cmd *cmd;
	struct guest_event *e;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = ctx_event_check(ctx, event, &t, &e);

	if (r)
		return r;
	cmd = begin_ctx_record_event(t);
	if (!cmd)
		return guest_lost(t);
	cmd->ctx = (uintptr_t)ctx;
	cmd->event = (uintptr_t)event;
	r = guest_call(t, sizeof(struct ctx_record_event_rep), &reply);
	note_recorded(e, false);
	return r;
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	struct ctx_wait_event_cmd *cmd;
	struct guest_event *e;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = ctx_event_check(ctx, event, &t, &e);

	if (r)
		return r;
	cmd = begin_ctx_wait_event(t);
	if (!cmd)
		return guest_lost(t);
	cmd->ctx = (uintptr_t)ctx;
	cmd->event = (uintptr_t)event;
	return guest_call(t, sizeof(struct ctx_wait_event_rep), &reply);
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

CUresult CUDAAPI cuEventQuery(CUevent event)
{
	struct event_query_cmd *cmd;
	struct guest_event *e;
	struct guest_thread *t;
	struct lane_reply reply;
	struct asked a;
	CUresult r = ask_begin(event, &t, &e);

	if (r || (has_happened(e) && idle_may_answer(t)))
		return r;
	a = asked_now(e);
	cmd = begin_event_query(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	r = guest_ask(t, sizeof(struct event_query_rep), &reply);
	if (r == CUDA_SUCCESS)
		note_happened(t, e, a);
	return r;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
	struct event_synchronize_cmd *cmd;
	struct guest_event *e;
	struct guest_thread *t;
	struct lane_reply reply;
	struct asked a;
	CUresult r = ask_begin(event, &t, &e);

	if (r || (has_happened(e) && idle_may_answer(t)))
		return r;
	a = asked_now(e);
	cmd = begin_event_synchronize(t);
	if (!cmd)
		return guest_lost(t);
	cmd->event = (uintptr_t)event;
	r = guest_ask(t, sizeof(struct event_synchronize_rep), &reply);
	if (r == CUDA_SUCCESS)
		note_happened(t, e, a);
	return r;
}
