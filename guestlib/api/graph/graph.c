/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: making, cloning and destroying them, and their conditional handles. */
#include "graph/graph.h"
#include "graph/mem.h"
#include "graph/op.h"

CUresult CUDAAPI cuGraphCreate(CUgraph *ret, unsigned int flags)
{
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph_scope();
	g = graph_new();
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUgraph)(uintptr_t)g->handle;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUgraph graph)
{
	struct graph *g;

	graph_scope();
	g = graph_lookup(graph);
	if (!g || g->owner || g->captures) /* a child graph goes with its node */
		return CUDA_ERROR_INVALID_VALUE;
	graph_free(g);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph)
{
	CUresult r = guest_status();

	if (r)
		return r;
	r = destroy(graph);
	graph_mem_flush();
	return r;
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode node)
{
	struct graph_node *n;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = graph_node_lookup(node);
	if (!n || n->graph->captures) /* a capture remembers its last nodes */
		return CUDA_ERROR_INVALID_VALUE;
	if (n->graph->n_mem)
		return CUDA_ERROR_NOT_SUPPORTED;
	graph_node_free(n);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph *ret, CUgraph original)
{
	struct graph *g, *c;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(original);
	if (!ret || !g)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_is_single(g))
		return CUDA_ERROR_NOT_SUPPORTED;
	c = graph_clone(g);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUgraph)(uintptr_t)c->handle;
	return CUDA_SUCCESS;
}

/* Also among the child graphs of the clone. */
static struct graph_node *find_clone(struct graph *g, uint64_t id)
{
	struct graph_node *n, *found;

	list_for_each (n, &g->nodes, link) {
		if (n->cloned_from == id)
			return n;
		if (n->op.type != CU_GRAPH_NODE_TYPE_GRAPH)
			continue;
		found = find_clone(n->op.child, id);
		if (found)
			return found;
	}
	return NULL;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *ret, CUgraphNode original,
					CUgraph clone)
{
	struct graph_node *n;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	n = graph_node_lookup(original);
	g = graph_lookup(clone);
	if (!ret || !n || !g)
		return CUDA_ERROR_INVALID_VALUE;
	n = find_clone(g, n->id);
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = graph_node_public(n);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *ret,
						CUgraph graph, CUcontext ctx,
						unsigned int initial, unsigned int flags)
{
	uint64_t handle;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	if (!ret || !g || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT))
		return CUDA_ERROR_INVALID_VALUE;
	if (!guest_handle_valid((uintptr_t)ctx, HANDLE_CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	r = graph_condition_new(g, initial, flags, &handle);
	if (r == CUDA_SUCCESS)
		*ret = handle;
	return r;
}
