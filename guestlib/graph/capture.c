/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: stream capture
 *
 * A capture has a graph, the streams that have joined it, each with the nodes that its
 * next operation depends on, and the events that were recorded in it, each with the nodes
 * it stands for. A stream joins by waiting for such an event. At the end everything that
 * was captured must lead to the stream in which it began.
 *
 * There are few captures and streams in them at any time: lists do.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/capture_live.h"
#include "graph/op.h"
#include "object/context.h"
#include "object/event.h"
#include "graph/mem.h"
#include "object/stream.h"
#include "core/thread.h"

struct list captures = {&captures, &captures};

/* ---- finding; under the lock ---- */

struct cap_stream *capture_find(uint64_t wire)
{
	struct capture *c;
	struct cap_stream *s;

	list_for_each (c, &captures, link) {
		list_for_each (s, &c->streams, link) {
			if (s->wire == wire &&
			    (wire != GUEST_STREAM_PER_THREAD || s->thread == guest_self))
				return s;
		}
	}
	return NULL;
}

struct cap_stream *capture_find_stream(CUstream stream, bool ptsz)
{
	uint64_t wire;

	if (guest_stream_value(stream, ptsz, &wire))
		return NULL;
	return capture_find(wire);
}

/* A stream of that context is being captured; one that the legacy stream waits for. */
static bool spans(const struct capture *c, uint64_t ctx, bool blocking)
{
	struct cap_stream *s;

	list_for_each (s, &c->streams, link) {
		if (s->ctx == ctx && (!blocking || stream_is_blocking(s->wire)))
			return true;
	}
	return false;
}

/* ---- what is not allowed ---- */

CUresult capture_forbid_legacy(bool invalidate)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *c;

	list_for_each (c, &captures, link) {
		if (!spans(c, guest_self->top->handle, true))
			continue;
		c->invalid |= invalidate;
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return r;
}

static CUresult forbids(uint64_t wire)
{
	struct cap_stream *s;

	graph_scope();
	if (wire == GUEST_STREAM_LEGACY)
		return capture_forbid_legacy(true);
	s = capture_find(wire);
	if (!s)
		return CUDA_SUCCESS;
	s->capture->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult whole(struct guest_thread *t, uint64_t ctx)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *c;

	if (!ctx)
		ctx = t->top->handle;
	graph_scope();
	list_for_each (c, &captures, link) {
		if (spans(c, ctx, false))
			r = capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	return r;
}

CUresult capture_forbids_event(const struct guest_event *e)
{
	graph_scope();
	if (!e->captured)
		return CUDA_SUCCESS;
	e->captured->capture->invalid = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

/* The mode of the thread and that of the capture together decide. */
static CUresult unsafe(struct guest_thread *t)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *c;

	if (t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	graph_scope();
	list_for_each (c, &captures, link) {
		bool own = c->thread == t && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;

		if (own || (t->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			    c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
			c->invalid = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return r;
}

/* ---- operations ---- */

static bool finds(CUstream stream, bool ptsz)
{
	graph_scope();
	return capture_find_stream(stream, ptsz) != NULL;
}

/* A kernel that may start early does so behind one other kernel. */
static uint32_t edge_kind(const struct cap_stream *s, const struct graph_op *op)
{
	return op->type == CU_GRAPH_NODE_TYPE_KERNEL && op->kernel->early &&
			       s->deps.n == 1 &&
			       s->deps.v[0]->op.type == CU_GRAPH_NODE_TYPE_KERNEL
		       ? GRAPH_EDGE_PROGRAMMATIC
		       : 0;
}

static CUresult add_locked(struct cap_stream *s, struct graph_op *op)
{
	struct graph_node *n;
	uint32_t how;
	size_t i;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	how = edge_kind(s, op);
	n = graph_node_new(s->capture->graph, op);
	if (!n)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->type = CU_GRAPH_NODE_TYPE_EMPTY; /* what it owned is the node's */
	for (i = 0; i < s->deps.n; i++) {
		if (graph_edge_add(s->deps.v[i], n, how)) {
			s->capture->invalid = true;
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	s->deps.n = 0;
	if (!node_set_add(&s->deps, n)) {
		s->capture->invalid = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult capture_add(CUstream stream, bool ptsz, struct graph_op *op)
{
	CUresult r;

	graph_scope();
	r = add_locked(capture_find_stream(stream, ptsz), op);
	graph_op_fini(op);
	return r;
}

CUresult capture_copy(const CUDA_MEMCPY3D *p, CUstream stream, bool ptsz)
{
	struct graph_op op;
	CUresult r = graph_op_copy(p, &op);

	return r ? r : capture_add(stream, ptsz, &op);
}

CUresult capture_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUstream stream, bool ptsz)
{
	struct graph_op op;
	CUresult r = graph_op_fill(p, &op);

	return r ? r : capture_add(stream, ptsz, &op);
}

/* ---- memory ---- */

static CUresult alloc_locked(struct cap_stream *s, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	_cleanup_free_ CUgraphNode *deps = NULL;
	struct graph_op op;
	CUresult r;
	size_t i;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	deps = calloc(s->deps.n + 1, sizeof(*deps));
	if (!deps)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; i < s->deps.n; i++)
		deps[i] = graph_node_public(s->deps.v[i]);
	r = graph_op_alloc(s->capture->graph, deps, s->deps.n, p, &op);
	if (r == CUDA_SUCCESS) {
		r = add_locked(s, &op);
		graph_op_fini(&op);
	}
	return r;
}

CUresult capture_alloc(CUdeviceptr *dptr, size_t size, CUstream stream, bool ptsz)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
		.bytesize = size,
	};
	CUresult r;

	graph_scope();
	r = alloc_locked(capture_find_stream(stream, ptsz), &p);
	if (r == CUDA_SUCCESS)
		*dptr = p.dptr;
	return r;
}

CUresult capture_free(CUdeviceptr dptr, CUstream stream, bool ptsz)
{
	struct cap_stream *s;
	struct graph_op op;
	CUresult r;

	graph_scope();
	s = capture_find_stream(stream, ptsz);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	r = graph_op_free(s->capture->graph, dptr, &op);
	if (r == CUDA_SUCCESS) {
		r = add_locked(s, &op);
		graph_op_fini(&op);
	}
	return r;
}

/* ---- events ---- */

void capture_event_forget(struct cap_event *e)
{
	list_remove(&e->link);
	e->event->captured = NULL;
	free(e->deps.v);
	free(e);
}

static void event_gone(struct guest_event *e)
{
	graph_scope();
	if (e->captured)
		capture_event_forget(e->captured);
}

CUresult capture_record(CUevent event, CUstream stream, bool ptsz, bool *ret_taken)
{
	struct guest_event *ev = event_lookup(event);
	struct cap_stream *s;
	struct cap_event *e;

	if (!ev)
		return CUDA_ERROR_INVALID_HANDLE;
	graph_scope();
	s = capture_find_stream(stream, ptsz);
	*ret_taken = s != NULL;
	if (ev->captured)
		capture_event_forget(ev->captured);
	if (!s)
		return CUDA_SUCCESS;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	e = calloc(1, sizeof(*e));
	if (!e || !node_set_join(&e->deps, &s->deps)) {
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->event = ev;
	e->capture = s->capture;
	ev->captured = e;
	list_append(&s->capture->events, &e->link);
	return CUDA_SUCCESS;
}

struct cap_stream *capture_join(struct capture *c, uint64_t wire)
{
	struct cap_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->capture = c;
	s->wire = wire;
	s->ctx = wire > GUEST_STREAM_PER_THREAD ? stream_ctx(wire)
						: guest_self->top->handle;
	s->thread = guest_self;
	list_append(&c->streams, &s->link);
	return s;
}

CUresult capture_invalidate(struct capture *c, CUresult r)
{
	c->invalid = true;
	return r;
}

static CUresult wait_locked(struct cap_stream *s, struct cap_event *e, uint64_t wire)
{
	struct capture *c;

	if (!e) /* of work that is not part of the capture */
		return capture_invalidate(s->capture,
					  CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	c = e->capture;
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (wire == GUEST_STREAM_LEGACY)
		return capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	if (s && s->capture != c) {
		s->capture->invalid = true;
		return capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (!s && stream_green(wire)) /* nodes have all TPCs */
		return capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (!s)
		s = capture_join(c, wire);
	if (!s || !node_set_join(&s->deps, &e->deps))
		return capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
	return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event, bool ptsz, bool *ret_taken)
{
	struct guest_event *ev = event_lookup(event);
	struct cap_stream *s;
	struct cap_event *e;
	uint64_t wire;
	CUresult r = guest_stream_value(stream, ptsz, &wire);

	*ret_taken = true;
	if (r || !ev)
		return r ? r : CUDA_ERROR_INVALID_HANDLE;
	graph_scope();
	s = capture_find(wire);
	e = ev->captured;
	*ret_taken = s || e;
	if (s && !e && !event_was_recorded(ev))
		return CUDA_SUCCESS;
	return *ret_taken ? wait_locked(s, e, wire) : CUDA_SUCCESS;
}

/* ---- from the rooms below ---- */

static CUresult launch(const struct launch *l)
{
	struct graph_op op = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	int priority = 0;
	CUresult r = graph_kernel_new(l, &op.kernel);

	if (r)
		return r;
	stream_get_priority(l->stream, &priority, l->ptsz);
	r = graph_kernel_priority(op.kernel, priority);
	if (r) {
		graph_op_fini(&op);
		return r;
	}
	return capture_add(l->stream, l->ptsz, &op);
}

void capture_init(void)
{
	static const struct capture_hooks hooks = {
		.forbids = forbids,
		.unsafe = unsafe,
		.whole = whole,
		.finds = finds,
		.event_gone = event_gone,
		.stream_gone = capture_end_stream,
		.ctx_gone = capture_end_ctx,
		.copy = capture_copy,
		.launch = launch,
	};

	capture_hooks = &hooks;
}
