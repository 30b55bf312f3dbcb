// SPDX-License-Identifier: Apache-2.0
/* cuGraphDebugDotPrint: nodes and edges in the language of Graphviz. */
#include <inttypes.h>
#include <stdio.h>

#include "graph.h"
#include "module.h"

static const char *const type_names[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
	[CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
	[CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
	[CU_GRAPH_NODE_TYPE_HOST] = "HOST",
	[CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
	[CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "EVENT_WAIT",
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
};

static void print_node(FILE *f, const struct graph_node *n)
{
	fprintf(f, "n%" PRIu64 " [label=\"%s", n->id, type_names[n->op.type]);
	if (n->op.type == CU_GRAPH_NODE_TYPE_KERNEL) {
		const struct launch *l = &n->op.kernel->launch;
		const struct guest_func *k = func_lookup(l->func);

		fprintf(f, "\\n%s\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", k ? k->name : "?",
			l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
			l->block[2], l->shared_bytes);
	}
	fprintf(f, "\"];\n");
}

static void print_graph(FILE *f, const struct graph *g)
{
	const struct graph_node *n;
	size_t i;

	fprintf(f, "subgraph cluster_%" PRIu64 " {\nlabel=\"graph_%" PRIu64 "\";\n",
		g->id, g->id);
	list_for_each (n, &g->nodes, link) {
		print_node(f, n);
		for (i = 0; i < n->n_outs; i++)
			fprintf(f, "n%" PRIu64 " -> n%" PRIu64 ";\n", n->id,
				n->outs[i].node->id);
		if (n->op.type == CU_GRAPH_NODE_TYPE_GRAPH)
			print_graph(f, n->op.child);
	}
	fprintf(f, "}\n");
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
	struct graph *g;
	FILE *f;
	int r;

	(void)flags; /* they ask for more detail */
	graph_enter();
	graph_scope();
	g = graph_lookup(graph);
	if (!g || !path)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(path, "we");
	if (!f)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(f, "digraph dot {\n");
	print_graph(f, g);
	fprintf(f, "}\n");
	r = ferror(f);
	r |= fclose(f);
	return r ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
