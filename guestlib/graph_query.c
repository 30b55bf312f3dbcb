// SPDX-License-Identifier: Apache-2.0
/*
 * The functions that ask about nodes, and those about edges. An edge here always means
 * that the whole of one node is done before the other starts; edge data that says
 * something else is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "refuse.h"

/*
 * The shape of all of these: with no array the count alone, else as many as fit, the
 * rest of the array set to NULL, and how many there were.
 */
struct answer {
	CUgraphNode *a, *b;
	CUgraphEdgeData *data;
	size_t room, n;
};

static void put(struct answer *w, const struct graph_node *a, const struct graph_node *b)
{
	size_t i = w->n++;

	if (i >= w->room)
		return;
	if (w->a)
		w->a[i] = graph_node_public(a);
	if (w->b)
		w->b[i] = graph_node_public(b);
	if (w->data)
		memset(&w->data[i], 0, sizeof(w->data[i]));
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
	return CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct answer w = {.a = nodes};
	struct graph_node *n;
	struct graph *g;

	graph_enter();
	graph_scope();
	g = graph_lookup(graph);
	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	w.room = nodes ? *count : 0;
	list_for_each (n, &g->nodes, link) {
		if (!roots || !n->n_deps)
			put(&w, n, NULL);
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

	graph_enter();
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

	graph_enter();
	graph_scope();
	g = graph_lookup(graph);
	if (!g || !count || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	w.room = from ? *count : 0;
	list_for_each (n, &g->nodes, link) {
		for (i = 0; i < n->n_outs; i++)
			put(&w, n, n->outs[i]);
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

	graph_enter();
	graph_scope();
	n = graph_node_lookup(node);
	if (!n || !count)
		return CUDA_ERROR_INVALID_VALUE;
	w.room = nodes ? *count : 0;
	for (i = 0; i < (outs ? n->n_outs : n->n_deps); i++)
		put(&w, outs ? n->outs[i] : n->deps[i], NULL);
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

CUresult graph_edge_data_check(const CUgraphEdgeData *data, size_t n)
{
	static const CUgraphEdgeData plain;
	size_t i;

	for (i = 0; data && i < n; i++) {
		if (memcmp(&data[i], &plain, sizeof(plain)))
			return guest_refuse(REFUSAL_FEATURE, "graph edge: data");
	}
	return CUDA_SUCCESS;
}

/* All or nothing: checks every edge before it touches one. */
static CUresult check_edges(struct graph *g, const CUgraphNode *from,
			    const CUgraphNode *to, size_t n, bool exist)
{
	size_t i;

	if (!g || (n && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		struct graph_node *a = graph_node_lookup(from[i]);
		struct graph_node *b = graph_node_lookup(to[i]);

		if (!a || !b || a == b || a->graph != g || b->graph != g ||
		    graph_edge_exists(a, b) != exist)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
					   const CUgraphNode *to,
					   const CUgraphEdgeData *data, size_t n)
{
	CUresult r;
	size_t i;

	graph_enter();
	graph_scope();
	r = check_edges(graph_lookup(graph), from, to, n, false);
	if (r == CUDA_SUCCESS)
		r = graph_edge_data_check(data, n);
	for (i = 0; i < n && r == CUDA_SUCCESS; i++)
		r = graph_edge_add(graph_node_lookup(from[i]), graph_node_lookup(to[i]));
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
	CUresult r;
	size_t i;

	graph_enter();
	graph_scope();
	r = check_edges(graph_lookup(graph), from, to, n, true);
	if (r == CUDA_SUCCESS)
		r = graph_edge_data_check(data, n);
	for (i = 0; i < n && r == CUDA_SUCCESS; i++)
		graph_edge_remove(graph_node_lookup(from[i]), graph_node_lookup(to[i]));
	return r;
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
					   const CUgraphNode *to, size_t n)
{
	return cuGraphRemoveDependencies_v2(graph, from, to, NULL, n);
}
