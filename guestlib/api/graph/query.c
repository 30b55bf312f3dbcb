/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that ask about nodes, and those about edges. A query without room for
 * edge data fails if there is some to be told.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "object/refuse.h"

/*
 * The shape of all of these: with no array the count alone, else as many as fit, the
 * rest of the array set to NULL, and how many there were.
 */
struct answer {
	CUgraphNode *a, *b;
	CUgraphEdgeData *data;
	size_t room, n;
	bool lossy; /* there was nowhere to put edge data */
};

static void put(struct answer *w, const struct graph_node *a, const struct graph_node *b,
		uint32_t how)
{
	size_t i = w->n++;

	if (i >= w->room)
		return;
	if (w->a)
		w->a[i] = graph_node_public(a);
	if (w->b)
		w->b[i] = graph_node_public(b);
	if (w->data)
		w->data[i] = graph_edge_unpack(how);
	else
		w->lossy |= how != 0;
}

static CUresult finish(struct answer *w, size_t *ret_n)
{
	size_t i;

	if (!w->a && !w->b) {
		*ret_n = w->n;
		return CUDA_SUCCESS;
	}
	for (i = w->n; i < w->room; i++) {
		if (w->a)
			w->a[i] = NULL;
		if (w->b)
			w->b[i] = NULL;
	}
	*ret_n = MIN(w->n, w->room);
	return w->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct answer w = {.a = nodes};
	struct graph_node *n;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	w.room = nodes ? *count : 0;
	list_for_each (n, &g->nodes, link) {
		if (!roots || !n->n_deps)
			put(&w, n, NULL, 0);
	}
	return finish(&w, count);
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return list_nodes(graph, nodes, count, false);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return list_nodes(graph, nodes, count, true);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	struct graph_node *n;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = graph_node_lookup(node);
	if (!n || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = n->op.type;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
				    CUgraphEdgeData *data, size_t *count)
{
	struct answer w = {.a = from, .b = to, .data = data};
	struct graph_node *n;
	struct graph *g;
	size_t i;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	if (!g || !count || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	w.room = from ? *count : 0;
	list_for_each (n, &g->nodes, link) {
		for (i = 0; i < n->n_outs; i++)
			put(&w, n, n->outs[i].node, n->outs[i].how);
	}
	return finish(&w, count);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
				 size_t *count)
{
	return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

static CUresult list_neighbours(CUgraphNode node, CUgraphNode *nodes,
				CUgraphEdgeData *data, size_t *count, bool outs)
{
	struct answer w = {.a = nodes, .data = data};
	struct graph_node *n;
	size_t i;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = graph_node_lookup(node);
	if (!n || !count)
		return CUDA_ERROR_INVALID_VALUE;
	w.room = nodes ? *count : 0;
	for (i = 0; i < (outs ? n->n_outs : n->n_deps); i++) {
		const struct graph_edge *e = outs ? &n->outs[i] : &n->deps[i];

		put(&w, e->node, NULL, e->how);
	}
	return finish(&w, count);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps,
					       CUgraphEdgeData *data, size_t *count)
{
	return list_neighbours(node, deps, data, count, false);
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps,
					    size_t *count)
{
	return list_neighbours(node, deps, NULL, count, false);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
						 CUgraphEdgeData *data, size_t *count)
{
	return list_neighbours(node, nodes, data, count, true);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
					      size_t *count)
{
	return list_neighbours(node, nodes, NULL, count, true);
}

/* ---- changing edges ---- */

/* All or nothing: checks every edge before it touches one. */
static CUresult check_edges(struct graph *g, const CUgraphNode *from,
			    const CUgraphNode *to, const CUgraphEdgeData *data, size_t n,
			    bool exist)
{
	size_t i, k;

	if (!g || (n && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		struct graph_node *a = graph_node_lookup(from[i]);
		struct graph_node *b = graph_node_lookup(to[i]);

		if (!a || !b || a == b || a->graph != g || b->graph != g ||
		    graph_edge_exists(a, b) != exist)
			return CUDA_ERROR_INVALID_VALUE;
		if (!exist) {
			if (data && !graph_edge_fits(a, b->op.type, &data[i]))
				return CUDA_ERROR_INVALID_VALUE;
			continue;
		}
		for (k = 0; b->deps[k].node != a; k++)
			;
		if (b->deps[k].how != (data ? graph_edge_pack(&data[i]) : 0))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
					   const CUgraphNode *to,
					   const CUgraphEdgeData *data, size_t n)
{
	CUresult r = guest_status();
	size_t i;

	if (r)
		return r;
	graph_scope();
	r = check_edges(graph_lookup(graph), from, to, data, n, false);
	for (i = 0; i < n && r == CUDA_SUCCESS; i++)
		r = graph_edge_add(graph_node_lookup(from[i]), graph_node_lookup(to[i]),
				   data ? graph_edge_pack(&data[i]) : 0);
	return r;
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
					const CUgraphNode *to, size_t n)
{
	return cuGraphAddDependencies_v2(graph, from, to, NULL, n);
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
					      const CUgraphNode *to,
					      const CUgraphEdgeData *data, size_t n)
{
	CUresult r = guest_status();
	size_t i;

	if (r)
		return r;
	graph_scope();
	r = check_edges(graph_lookup(graph), from, to, data, n, true);
	if (r == CUDA_SUCCESS && graph_lookup(graph)->n_mem)
		r = CUDA_ERROR_NOT_SUPPORTED;
	for (i = 0; i < n && r == CUDA_SUCCESS; i++)
		graph_edge_remove(graph_node_lookup(from[i]), graph_node_lookup(to[i]));
	return r;
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
					   const CUgraphNode *to, size_t n)
{
	return cuGraphRemoveDependencies_v2(graph, from, to, NULL, n);
}
