/* SPDX-License-Identifier: Apache-2.0 */
/* cuGraphDebugDotPrint: nodes and edges in the language of Graphviz. */
#include <inttypes.h>
#include <stdio.h>

#include "graph/graph.h"
#include "code/module.h"

static const char *const type_names[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
	[CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
	[CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
	[CU_GRAPH_NODE_TYPE_HOST] = "HOST",
	[CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
	[CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "EVENT_WAIT",
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
	[CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL] = "EXT_SEMAS_SIGNAL",
	[CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] = "EXT_SEMAS_WAIT",
	[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
	[CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
	[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
	[CU_GRAPH_NODE_TYPE_CONDITIONAL] = "CONDITIONAL",
};
static_assert(ARRAY_SIZE(type_names) == CU_GRAPH_NODE_TYPE_CONDITIONAL + 1,
	      "a name for every type of node");

static void print_name(FILE *f, const struct graph_node *n)
{
	fprintf(f, "\"graph_%" PRIu64 "_node_%" PRIu64 "\"", n->graph->id, n->id);
}

static void print_node(FILE *f, const struct graph_node *n, unsigned flags)
{
	const struct guest_func *k;
	const struct launch *l;

	print_name(f, n);
	fprintf(f, "[style=\"bold\" shape=\"%s\" label=\"%" PRIu64 "\n",
		n->op.type == CU_GRAPH_NODE_TYPE_KERNEL ? "octagon" : "rectangle", n->id);
	if (n->op.type == CU_GRAPH_NODE_TYPE_KERNEL) {
		l = &n->op.kernel->launch;
		k = func_lookup(l->func);
		fprintf(f, "%s\n", k ? k->name : "?");
		if (flags)
			fprintf(f, "<<<(%u,%u,%u),(%u,%u,%u),%u>>>\n", l->grid[0],
				l->grid[1], l->grid[2], l->block[0], l->block[1],
				l->block[2], l->shared_bytes);
	} else {
		fprintf(f, "%s\n", type_names[n->op.type]);
	}
	fprintf(f, "\"];\n");
}

static void print_edge(FILE *f, const struct graph_node *n, const struct graph_edge *e)
{
	print_name(f, n);
	fprintf(f, " -> ");
	print_name(f, e->node);
	fprintf(f, e->how ? " [style=\"dashed\"];\n" : ";\n");
}

static void print_graph(FILE *f, const struct graph *g, unsigned flags)
{
	const struct graph_node *n;
	size_t i;

	fprintf(f,
		"subgraph cluster_%" PRIu64 " {\nlabel=\"graph_%" PRIu64
		"\" graph[style=\"dashed\"];\n",
		g->id, g->id);
	list_for_each (n, &g->nodes, link) {
		print_node(f, n, flags);
		for (i = 0; i < n->n_outs; i++)
			print_edge(f, n, &n->outs[i]);
		if (n->op.type == CU_GRAPH_NODE_TYPE_GRAPH)
			print_graph(f, n->op.child, flags);
		for (i = 0;
		     n->op.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < n->op.cond->n;
		     i++)
			print_graph(f, n->op.cond->bodies[i], flags);
	}
	fprintf(f, "}\n");
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
	struct graph *g;
	FILE *f;
	int failed;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	if (!g || !path)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(path, "we");
	if (!f)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(f, "digraph dot {\n");
	print_graph(f, g, flags);
	fprintf(f, "}\n");
	failed = ferror(f);
	failed |= fclose(f);
	return failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
