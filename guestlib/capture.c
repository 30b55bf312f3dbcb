// SPDX-License-Identifier: Apache-2.0
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

#include "capture.h"
#include "context.h"
#include "event.h"
#include "graph_mem.h"
#include "thread.h"

struct node_set {
	struct graph_node **v;
	size_t n, room;
};

struct cap_stream {
	struct list link; /* capture.streams */
	struct capture *capture;
	uint64_t wire;
	struct guest_thread *thread; /* whose stream, if wire is PER_THREAD */
	struct node_set deps;
	CUgraphNode *shown; /* deps as cuStreamGetCaptureInfo gave them */
	CUgraphEdgeData *edges;
};

struct cap_event {
	struct list link; /* capture.events */
	CUevent event;
	struct node_set deps;
};

struct capture {
	struct list link;
	uint64_t id;
	CUstreamCaptureMode mode;
	struct guest_thread *thread; /* that began it */
	struct graph *graph;
	bool own_graph; /* made for it */
	bool invalid;
	struct cap_stream *origin;
	struct list streams, events;
};

_Atomic unsigned capture_count;
static struct list captures = {&captures, &captures};
static uint64_t last_id;

/* ---- sets of nodes ---- */

static bool set_add(struct node_set *s, struct graph_node *n)
{
	size_t i, room = s->room ? 2 * s->room : 4;
	struct graph_node **p;

	for (i = 0; i < s->n; i++) {
		if (s->v[i] == n)
			return true;
	}
	if (s->n == s->room) {
		p = realloc(s->v, room * sizeof(struct graph_node *));
		if (!p)
			return false;
		s->v = p;
		s->room = room;
	}
	s->v[s->n++] = n;
	return true;
}

static bool set_join(struct node_set *s, const struct node_set *more)
{
	size_t i;

	for (i = 0; i < more->n; i++) {
		if (!set_add(s, more->v[i]))
			return false;
	}
	return true;
}

/* ---- finding; under the lock ---- */

static struct cap_stream *find_wire(uint64_t wire)
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

static struct cap_stream *find_stream(CUstream stream, bool ptsz)
{
	uint64_t wire;

	if (guest_stream_value(stream, ptsz, &wire))
		return NULL;
	return find_wire(wire);
}

static struct cap_event *find_event(CUevent event, struct capture **ret_c)
{
	struct capture *c;
	struct cap_event *e;

	list_for_each (c, &captures, link) {
		list_for_each (e, &c->events, link) {
			if (e->event == event) {
				*ret_c = c;
				return e;
			}
		}
	}
	return NULL;
}

static bool spans_legacy(const struct capture *c)
{
	struct cap_stream *s;

	list_for_each (s, &c->streams, link) {
		if (stream_is_blocking(s->wire))
			return true;
	}
	return false;
}

/* ---- what is not allowed ---- */

static CUresult forbid_legacy(bool invalidate)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *c;

	list_for_each (c, &captures, link) {
		if (!spans_legacy(c))
			continue;
		c->invalid |= invalidate;
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return r;
}

CUresult capture_forbids(uint64_t wire)
{
	struct cap_stream *s;

	graph_scope();
	if (wire == GUEST_STREAM_LEGACY)
		return forbid_legacy(true);
	s = find_wire(wire);
	if (!s)
		return CUDA_SUCCESS;
	s->capture->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_forbids_event(CUevent event)
{
	struct capture *c;

	graph_scope();
	if (!find_event(event, &c))
		return CUDA_SUCCESS;
	c->invalid = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

/* The mode of the thread and that of the capture together decide. */
CUresult guest_unsafe(struct guest_thread *t)
{
	CUresult r = CUDA_SUCCESS;
	struct capture *c;

	if (likely(!capture_any()) || t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
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

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	old = t->capture_mode;
	t->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* ---- operations ---- */

bool capture_finds(CUstream stream, bool ptsz)
{
	graph_scope();
	return find_stream(stream, ptsz) != NULL;
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
	if (!set_add(&s->deps, n)) {
		s->capture->invalid = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult capture_add(CUstream stream, bool ptsz, struct graph_op *op)
{
	CUresult r;

	graph_scope();
	r = add_locked(find_stream(stream, ptsz), op);
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
	r = alloc_locked(find_stream(stream, ptsz), &p);
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
	s = find_stream(stream, ptsz);
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

static void event_forget(struct cap_event *e)
{
	list_remove(&e->link);
	free(e->deps.v);
	free(e);
}

CUresult capture_record(CUevent event, CUstream stream, bool ptsz, bool *ret_taken)
{
	struct cap_stream *s;
	struct cap_event *e;
	struct capture *c;

	graph_scope();
	s = find_stream(stream, ptsz);
	e = find_event(event, &c);
	*ret_taken = s != NULL;
	if (e)
		event_forget(e);
	if (!s)
		return CUDA_SUCCESS;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	e = calloc(1, sizeof(*e));
	if (!e || !set_join(&e->deps, &s->deps)) {
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->event = event;
	list_append(&s->capture->events, &e->link);
	return CUDA_SUCCESS;
}

static struct cap_stream *stream_add(struct capture *c, uint64_t wire)
{
	struct cap_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->capture = c;
	s->wire = wire;
	s->thread = guest_self;
	list_append(&c->streams, &s->link);
	return s;
}

static CUresult invalidate(struct capture *c, CUresult r)
{
	c->invalid = true;
	return r;
}

static CUresult wait_locked(struct cap_stream *s, struct capture *c, struct cap_event *e,
			    uint64_t wire)
{
	if (!e) /* of work that is not part of the capture */
		return invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (wire == GUEST_STREAM_LEGACY)
		return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	if (s && s->capture != c) {
		s->capture->invalid = true;
		return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (!s)
		s = stream_add(c, wire);
	if (!s || !set_join(&s->deps, &e->deps))
		return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
	return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event, bool ptsz, bool *ret_taken)
{
	struct capture *c = NULL;
	struct cap_stream *s;
	struct cap_event *e;
	uint64_t wire;
	CUresult r = guest_stream_value(stream, ptsz, &wire);

	*ret_taken = true;
	if (r)
		return r;
	graph_scope();
	s = find_wire(wire);
	e = find_event(event, &c);
	*ret_taken = s || e;
	if (s && !e && !event_was_recorded(event))
		return CUDA_SUCCESS;
	return *ret_taken ? wait_locked(s, c, e, wire) : CUDA_SUCCESS;
}

/* ---- beginning and end ---- */

static void capture_end(struct capture *c)
{
	struct cap_stream *s, *s_tmp;
	struct cap_event *e, *e_tmp;

	list_for_each_safe (s, s_tmp, &c->streams, link) {
		free(s->deps.v);
		free(s->shown);
		free(s->edges);
		free(s);
	}
	list_for_each_safe (e, e_tmp, &c->events, link)
		event_forget(e);
	list_remove(&c->link);
	if (c->graph)
		c->graph->captures--;
	if (c->graph && c->own_graph)
		graph_free(c->graph);
	free(c);
	atomic_fetch_sub_explicit(&capture_count, 1, memory_order_relaxed);
}

static struct capture *capture_new(uint64_t wire, CUstreamCaptureMode mode,
				   struct graph *graph)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	list_init(&c->streams);
	list_init(&c->events);
	list_append(&captures, &c->link);
	atomic_fetch_add_explicit(&capture_count, 1, memory_order_relaxed);
	c->id = ++last_id;
	c->mode = mode;
	c->thread = guest_self;
	c->own_graph = !graph;
	c->graph = graph ? graph : graph_new();
	if (c->graph)
		c->graph->captures++;
	c->origin = stream_add(c, wire);
	if (!c->graph || !c->origin) {
		capture_end(c);
		return NULL;
	}
	return c;
}

static CUresult begin_check(CUstream stream, CUstreamCaptureMode mode, bool ptsz,
			    uint64_t *ret_wire)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS)
		r = guest_stream_value(stream, ptsz, ret_wire);
	if (r)
		return r;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (*ret_wire == GUEST_STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return CUDA_SUCCESS;
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode, bool ptsz)
{
	uint64_t wire;
	CUresult r = begin_check(stream, mode, ptsz, &wire);

	if (r)
		return r;
	graph_scope();
	if (find_wire(wire))
		return CUDA_ERROR_ILLEGAL_STATE;
	return capture_new(wire, mode, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult begin_1(CUstream stream, bool ptsz)
{
	return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, ptsz);
}

/* A stream waits for the whole of what it depends on. */
static bool plain(const CUgraphEdgeData *data, size_t n)
{
	size_t i;

	for (i = 0; data && i < n; i++) {
		if (graph_edge_pack(&data[i]))
			return false;
	}
	return true;
}

/* Nodes that a caller names, all of one graph. */
static CUresult collect(struct graph *g, const CUgraphNode *nodes, size_t n,
			struct node_set *set)
{
	size_t i;

	if (n && !nodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		struct graph_node *node = graph_node_lookup(nodes[i]);

		if (!node || node->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
		if (!set_add(set, node))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static CUresult begin_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
			       const CUgraphEdgeData *data, size_t n,
			       CUstreamCaptureMode mode, bool ptsz)
{
	struct node_set set = {0};
	struct capture *c;
	struct graph *g;
	uint64_t wire;
	CUresult r = begin_check(stream, mode, ptsz, &wire);

	if (r == CUDA_SUCCESS && !plain(data, n))
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	r = g ? collect(g, deps, n, &set) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && find_wire(wire))
		r = CUDA_ERROR_ILLEGAL_STATE;
	c = r ? NULL : capture_new(wire, mode, g);
	if (c) {
		c->origin->deps = set;
		return CUDA_SUCCESS;
	}
	free(set.v);
	return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Marks everything that leads to the nodes of a set; UINT_MAX marks on the stack. */
static bool mark_ancestors(const struct node_set *from)
{
	struct node_set stack = {0};
	bool ok = true;
	size_t i, k;

	for (i = 0; i < from->n && ok; i++) {
		from->v[i]->mark = 1;
		ok = set_add(&stack, from->v[i]);
	}
	while (stack.n && ok) {
		struct graph_node *n = stack.v[--stack.n];

		for (k = 0; k < n->n_deps && ok; k++) {
			struct graph_node *d = n->deps[k].node;

			if (d->mark)
				continue;
			d->mark = 1;
			ok = set_add(&stack, d);
		}
	}
	free(stack.v);
	return ok;
}

static bool all_joined(struct capture *c)
{
	bool ok = mark_ancestors(&c->origin->deps);
	struct graph_node *n;
	struct cap_stream *s;
	size_t i;

	list_for_each (s, &c->streams, link) {
		for (i = 0; i < s->deps.n; i++)
			ok &= s->deps.v[i]->mark == 1;
	}
	list_for_each (n, &c->graph->nodes, link)
		n->mark = 0;
	return ok;
}

static CUresult end(CUstream stream, CUgraph *ret_graph, bool ptsz)
{
	struct cap_stream *s;
	struct capture *c;
	struct graph *g;
	uint64_t wire;
	CUresult r = ctx_check_current();

	if (r == CUDA_SUCCESS)
		r = guest_stream_value(stream, ptsz, &wire);
	if (r)
		return r;
	graph_scope();
	s = find_wire(wire);
	if (!s)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = s->capture;
	if (!ret_graph && c->own_graph) /* a graph of the program's it knows already */
		return CUDA_ERROR_INVALID_VALUE;
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != guest_self)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (c->origin != s)
		return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	if (c->invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(c))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	g = c->graph;
	if (r == CUDA_SUCCESS)
		c->own_graph = false;
	capture_end(c);
	if (ret_graph)
		*ret_graph = r ? NULL : (CUgraph)(uintptr_t)g->handle;
	return r;
}

GUEST_PAIR(cuStreamBeginCapture, ptsz, (CUstream stream), begin_1, stream)
GUEST_PAIR(cuStreamBeginCapture_v2, ptsz, (CUstream stream, CUstreamCaptureMode mode),
	   begin, stream, mode)
GUEST_PAIR(cuStreamBeginCaptureToGraph, ptsz,
	   (CUstream stream, CUgraph graph, const CUgraphNode *deps,
	    const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
	   begin_to_graph, stream, graph, deps, data, n, mode)
GUEST_PAIR(cuStreamEndCapture, ptsz, (CUstream stream, CUgraph *graph), end, stream,
	   graph)

/* ---- queries ---- */

struct info {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const CUgraphEdgeData **edges;
	size_t *n;
};

/* The array stays until the next such call or the end of the capture. */
static CUresult show_deps(struct cap_stream *s, const struct info *out)
{
	CUgraphNode *shown = realloc(s->shown, (s->deps.n + 1) * sizeof(*shown));
	size_t i;

	if (!shown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->shown = shown;
	for (i = 0; i < s->deps.n; i++)
		shown[i] = graph_node_public(s->deps.v[i]);
	if (out->edges) {
		CUgraphEdgeData *e = calloc(s->deps.n + 1, sizeof(*e));

		if (!e)
			return CUDA_ERROR_OUT_OF_MEMORY;
		free(s->edges);
		*out->edges = s->edges = e;
	}
	if (out->deps)
		*out->deps = shown;
	if (out->n)
		*out->n = s->deps.n;
	return CUDA_SUCCESS;
}

static CUresult info_locked(uint64_t wire, const struct info *out)
{
	struct cap_stream *s = find_wire(wire);

	if (wire == GUEST_STREAM_LEGACY)
		return forbid_legacy(false);
	if (!s)
		return CUDA_SUCCESS;
	*out->status = s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (out->id)
		*out->id = s->capture->id;
	if (s->capture->invalid)
		return CUDA_SUCCESS;
	if (out->graph)
		*out->graph = (CUgraph)(uintptr_t)s->capture->graph->handle;
	return out->deps || out->edges || out->n ? show_deps(s, out) : CUDA_SUCCESS;
}

static CUresult info(CUstream stream, bool ptsz, const struct info *out)
{
	uint64_t wire;
	CUresult r = ctx_check_current();

	if (r == CUDA_SUCCESS)
		r = guest_stream_value(stream, ptsz, &wire);
	if (r)
		return r;
	if (!out->status)
		return CUDA_ERROR_INVALID_VALUE;
	*out->status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (likely(!capture_any()))
		return CUDA_SUCCESS;
	graph_scope();
	return info_locked(wire, out);
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status, bool ptsz)
{
	const struct info out = {.status = status};

	return info(stream, ptsz, &out);
}

static CUresult info_1(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       bool ptsz)
{
	const struct info out = {.status = status, .id = id};

	return info(stream, ptsz, &out);
}

static CUresult info_2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       CUgraph *graph, const CUgraphNode **deps, size_t *n, bool ptsz)
{
	const struct info out = {status, id, graph, deps, NULL, n};

	return info(stream, ptsz, &out);
}

static CUresult info_3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       CUgraph *graph, const CUgraphNode **deps,
		       const CUgraphEdgeData **edges, size_t *n, bool ptsz)
{
	const struct info out = {status, id, graph, deps, edges, n};

	return info(stream, ptsz, &out);
}

GUEST_PAIR(cuStreamIsCapturing, ptsz, (CUstream stream, CUstreamCaptureStatus *status),
	   is_capturing, stream, status)
GUEST_PAIR(cuStreamGetCaptureInfo, ptsz,
	   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), info_1,
	   stream, status, id)
GUEST_PAIR(cuStreamGetCaptureInfo_v2, ptsz,
	   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	    CUgraph *graph, const CUgraphNode **deps, size_t *n),
	   info_2, stream, status, id, graph, deps, n)
GUEST_PAIR(cuStreamGetCaptureInfo_v3, ptsz,
	   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	    CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
	    size_t *n),
	   info_3, stream, status, id, graph, deps, edges, n)

static CUresult update_2(CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *data,
			 size_t n, unsigned flags, bool ptsz)
{
	struct node_set set = {0};
	struct cap_stream *s;
	CUresult r;

	graph_enter();
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!plain(data, n))
		return CUDA_ERROR_NOT_SUPPORTED;
	graph_scope();
	s = find_stream(stream, ptsz);
	if (!s)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	r = collect(s->capture->graph, deps, n, &set);
	if (r == CUDA_SUCCESS && flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES &&
	    !set_join(&set, &s->deps))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r) {
		free(set.v);
		return r;
	}
	free(s->deps.v);
	s->deps = set;
	return CUDA_SUCCESS;
}

static CUresult update(CUstream stream, CUgraphNode *deps, size_t n, unsigned flags,
		       bool ptsz)
{
	return update_2(stream, deps, NULL, n, flags, ptsz);
}

GUEST_PAIR(cuStreamUpdateCaptureDependencies, ptsz,
	   (CUstream stream, CUgraphNode *deps, size_t n, unsigned int flags), update,
	   stream, deps, n, flags)
GUEST_PAIR(cuStreamUpdateCaptureDependencies_v2, ptsz,
	   (CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *data, size_t n,
	    unsigned int flags),
	   update_2, stream, deps, data, n, flags)
