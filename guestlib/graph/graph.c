/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, nodes and edges as objects. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/user.h"
#include "graph/mem.h"

static uint64_t last_id;

struct graph *graph_new(void)
{
	struct graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	list_init(&g->nodes);
	list_init(&g->users);
	g->id = ++last_id;
	g->handle = guest_handle_new(HANDLE_GRAPH, g);
	if (!g->handle) {
		free(g);
		return NULL;
	}
	return g;
}

static bool is_single(const struct graph_op *op)
{
	return op->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       op->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
	       op->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
	       (op->type == CU_GRAPH_NODE_TYPE_GRAPH && graph_is_single(op->child));
}

/* Counts single nodes of a graph and of all graphs that it is part of. */
static void count_single(struct graph *g, int by)
{
	for (; g; g = g->owner ? g->owner->graph : NULL)
		g->n_single += (unsigned)by;
}

static bool is_mem(const struct graph_op *op)
{
	return op->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       op->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static void node_owns(struct graph_node *n)
{
	const struct graph_op *op = &n->op;
	unsigned i;

	if (op->type == CU_GRAPH_NODE_TYPE_GRAPH)
		op->child->owner = n;
	for (i = 0; op->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < op->cond->n; i++)
		op->cond->bodies[i]->owner = n;
	n->graph->n_mem += is_mem(op);
	n->graph->n_freed += graph_mem_reusable(n);
	if (is_single(op))
		count_single(n->graph, 1);
}

struct graph_node *graph_node_new(struct graph *g, const struct graph_op *op)
{
	struct graph_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->handle = guest_handle_new(HANDLE_GRAPH_NODE, n);
	if (!n->handle) {
		free(n);
		return NULL;
	}
	n->id = ++last_id;
	n->graph = g;
	n->op = *op;
	node_owns(n);
	list_append(&g->nodes, &n->link);
	g->n_nodes++;
	return n;
}

/* ---- edges ---- */

static size_t find(const struct graph_edge *v, size_t n, const struct graph_node *what)
{
	size_t i;

	for (i = 0; i < n && v[i].node != what; i++)
		;
	return i;
}

static bool grow(struct graph_edge **v, size_t n, size_t *room)
{
	size_t more = *room ? 2 * *room : 4;
	struct graph_edge *p;

	if (n < *room)
		return true;
	p = realloc(*v, more * sizeof(*p));
	if (!p)
		return false;
	*v = p;
	*room = more;
	return true;
}

static void take_out(struct graph_edge *v, size_t *n, const struct graph_node *what)
{
	size_t i = find(v, *n, what);

	if (i == *n)
		return;
	memmove(&v[i], &v[i + 1], (*n - i - 1) * sizeof(*v));
	(*n)--;
}

/* Looks on the side with fewer edges. */
bool graph_edge_exists(const struct graph_node *from, const struct graph_node *to)
{
	if (from->n_outs < to->n_deps)
		return find(from->outs, from->n_outs, to) < from->n_outs;
	return find(to->deps, to->n_deps, from) < to->n_deps;
}

static bool is_plain(const CUgraphEdgeData *d)
{
	static const CUgraphEdgeData plain;

	return !d || !memcmp(d, &plain, sizeof(plain));
}

/* Only kernels have ports, and only one kernel can start another early. */
bool graph_edge_fits(const struct graph_node *from, CUgraphNodeType to_type,
		     const CUgraphEdgeData *d)
{
	static const unsigned char zero[sizeof(d->reserved)];

	if (is_plain(d))
		return true;
	if (memcmp(d->reserved, zero, sizeof(zero)) || d->to_port ||
	    from->op.type != CU_GRAPH_NODE_TYPE_KERNEL)
		return false;
	if (d->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
		return to_type == CU_GRAPH_NODE_TYPE_KERNEL &&
		       (d->from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
			d->from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
	return d->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT &&
	       d->from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
}

CUresult graph_edge_add(struct graph_node *from, struct graph_node *to, uint32_t how)
{
	if (from == to || from->graph != to->graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_edge_exists(from, to))
		return CUDA_SUCCESS;
	if (!grow(&from->outs, from->n_outs, &from->outs_room) ||
	    !grow(&to->deps, to->n_deps, &to->deps_room))
		return CUDA_ERROR_OUT_OF_MEMORY;
	from->outs[from->n_outs++] = (struct graph_edge){to, how};
	to->deps[to->n_deps++] = (struct graph_edge){from, how};
	return CUDA_SUCCESS;
}

bool graph_edge_remove(struct graph_node *from, struct graph_node *to)
{
	if (from->graph != to->graph || !graph_edge_exists(from, to))
		return false;
	take_out(from->outs, &from->n_outs, to);
	take_out(to->deps, &to->n_deps, from);
	return true;
}

void graph_node_free(struct graph_node *n)
{
	while (n->n_deps)
		graph_edge_remove(n->deps[n->n_deps - 1].node, n);
	while (n->n_outs)
		graph_edge_remove(n, n->outs[n->n_outs - 1].node);
	list_remove(&n->link);
	n->graph->n_nodes--;
	n->graph->n_mem -= is_mem(&n->op);
	n->graph->n_freed -= graph_mem_reusable(n);
	if (is_single(&n->op))
		count_single(n->graph, -1);
	graph_op_fini(&n->op);
	guest_handle_free(n->handle);
	free(n->deps);
	free(n->outs);
	free(n);
}

void graph_free(struct graph *g)
{
	struct graph_node *n, *tmp;

	if (!g)
		return;
	/* Edges first forgotten as a whole: taking each out would cost its square. */
	list_for_each (n, &g->nodes, link)
		n->n_deps = n->n_outs = 0;
	list_for_each_safe (n, tmp, &g->nodes, link)
		graph_node_free(n);
	graph_users_drop(&g->users);
	graph_shell_drop(g);
	guest_handle_free(g->handle);
	free(g->conditions);
	free(g);
}

/* ---- clones ---- */

/* The copy of each node, by its place. */
static bool clone_nodes(struct graph *to, const struct graph *from,
			struct graph_node **copies)
{
	struct graph_node *n;
	uint32_t i = 0;

	list_for_each (n, &from->nodes, link) {
		struct graph_op op;

		if (graph_op_dup(&n->op, &op) != CUDA_SUCCESS)
			return false;
		copies[i] = graph_node_new(to, &op);
		if (!copies[i]) {
			graph_op_fini(&op);
			return false;
		}
		copies[i]->cloned_from = n->id;
		n->index = i++;
	}
	return true;
}

struct graph *graph_clone(const struct graph *g)
{
	_cleanup_free_ struct graph_node **copies =
		calloc(g->n_nodes + 1, sizeof(struct graph_node *));
	struct graph *c = copies ? graph_new() : NULL;
	struct graph_node *n;
	bool ok;
	size_t i;

	if (!c)
		return NULL;
	c->cloned_from = g->id;
	ok = clone_nodes(c, g, copies) &&
	     graph_users_copy(&c->users, &g->users) == CUDA_SUCCESS;
	list_for_each (n, &g->nodes, link) {
		for (i = 0; i < n->n_deps && ok; i++)
			ok = graph_edge_add(copies[n->deps[i].node->index],
					    copies[n->index],
					    n->deps[i].how) == CUDA_SUCCESS;
	}
	if (!ok) {
		graph_free(c);
		return NULL;
	}
	return c;
}
