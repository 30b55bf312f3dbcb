/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At the end everything that was captured must lead to the stream in which it began:
 * ancestors of that stream's nodes are marked, and all streams' nodes looked at.
 */
#include <stdlib.h>

#include "graph/capture_live.h"
#include "object/context.h"
#include "object/stream.h"
#include "core/thread.h"

static uint64_t last_id;

static void capture_drop(struct capture *c)
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
		capture_event_forget(e);
	list_remove(&c->link);
	if (c->graph)
		c->graph->captures--;
	if (c->graph && c->own_graph)
		graph_free(c->graph);
	free(c);
	atomic_fetch_sub_explicit(&capture_count, 1, memory_order_relaxed);
}

/* Notes that a stream is gone; its work stays in the capture, and has to be joined like
 * any other. */
static void stream_gone_locked(struct cap_stream *s)
{
	if (s == s->capture->origin)
		capture_drop(s->capture);
	else
		s->wire = s->ctx = 0;
}

void capture_end_stream(uint64_t wire)
{
	struct cap_stream *s;

	graph_scope();
	s = capture_find(wire);
	if (s)
		stream_gone_locked(s);
}

static struct cap_stream *find_in(uint64_t ctx)
{
	struct cap_stream *s;
	struct capture *c;

	list_for_each (c, &captures, link) {
		list_for_each (s, &c->streams, link) {
			if (s->ctx == ctx)
				return s;
		}
	}
	return NULL;
}

void capture_end_ctx(uint64_t ctx)
{
	struct cap_stream *s;

	graph_scope();
	while ((s = find_in(ctx)))
		stream_gone_locked(s);
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
	c->origin = capture_join(c, wire);
	if (!c->graph || !c->origin) {
		capture_drop(c);
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
	/* Nodes of graphs have all TPCs, those of a green context's streams too. */
	if (*ret_wire == GUEST_STREAM_LEGACY || stream_green(*ret_wire))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return CUDA_SUCCESS;
}

CUresult capture_begin(CUstream stream, CUstreamCaptureMode mode, bool ptsz)
{
	uint64_t wire;
	CUresult r = begin_check(stream, mode, ptsz, &wire);

	if (r)
		return r;
	graph_scope();
	if (capture_find(wire))
		return CUDA_ERROR_ILLEGAL_STATE;
	return capture_new(wire, mode, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool capture_edges_plain(const CUgraphEdgeData *data, size_t n)
{
	size_t i;

	for (i = 0; data && i < n; i++) {
		if (graph_edge_pack(&data[i]))
			return false;
	}
	return true;
}

CUresult capture_begin_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
				const CUgraphEdgeData *data, size_t n,
				CUstreamCaptureMode mode, bool ptsz)
{
	struct node_set set = {0};
	struct capture *c;
	struct graph *g;
	uint64_t wire;
	CUresult r = begin_check(stream, mode, ptsz, &wire);

	if (r == CUDA_SUCCESS && !capture_edges_plain(data, n))
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	r = g ? node_set_collect(g, deps, n, &set) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && capture_find(wire))
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
		ok = node_set_add(&stack, from->v[i]);
	}
	while (stack.n && ok) {
		struct graph_node *n = stack.v[--stack.n];

		for (k = 0; k < n->n_deps && ok; k++) {
			struct graph_node *d = n->deps[k].node;

			if (d->mark)
				continue;
			d->mark = 1;
			ok = node_set_add(&stack, d);
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

CUresult capture_end(CUstream stream, CUgraph *ret_graph, bool ptsz)
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
	s = capture_find(wire);
	if (!s)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = s->capture;
	if (!ret_graph && c->own_graph) /* a graph of the program's it knows already */
		return CUDA_ERROR_INVALID_VALUE;
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != guest_self)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (c->origin != s)
		return capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	if (c->invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(c))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	g = c->graph;
	if (r == CUDA_SUCCESS)
		c->own_graph = false;
	capture_drop(c);
	if (ret_graph)
		*ret_graph = r ? NULL : (CUgraph)(uintptr_t)g->handle;
	return r;
}
