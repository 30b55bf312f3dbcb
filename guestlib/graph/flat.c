/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: one order for all nodes
 *
 * A depth-first walk in order of creation, with a stack of its own (a captured graph may
 * be a chain of a hundred thousand nodes): the same graph built or captured twice comes
 * out in the same order, which is how cuGraphExecUpdate pairs nodes. A child graph's
 * nodes stand before their node, which is left as a marker of their end.
 */
#include <stdlib.h>

#include "graph/flat.h"
#include "graph/graph.h"
#include "graph/op.h"

#define DEPTH_MAX 64 /* of child graphs in child graphs */

enum mark {
	UNSEEN,
	OPEN, /* on the stack: meeting it again is a cycle */
	DONE,
};

/* Dependencies of the roots of a graph, in numbers. */
struct roots {
	const uint64_t *deps;
	uint32_t n;
};

static bool push_dep(struct graph_flat *f, uint64_t dep)
{
	if (f->n_deps == f->deps_room) {
		size_t room = f->deps_room ? 2 * f->deps_room : 64;
		uint64_t *p = realloc(f->deps, room * sizeof(*p));

		if (!p)
			return false;
		f->deps = p;
		f->deps_room = room;
	}
	f->deps[f->n_deps++] = dep;
	return true;
}

static struct graph_flat_node *push_node(struct graph_flat *f, struct graph_node *n)
{
	struct graph_flat_node *e;

	if (f->n == f->room) {
		size_t room = f->room ? 2 * f->room : 64;
		struct graph_flat_node *p = realloc(f->nodes, room * sizeof(*p));

		if (!p)
			return NULL;
		f->nodes = p;
		f->room = room;
	}
	e = &f->nodes[f->n];
	*e = (struct graph_flat_node){
		.node = n, .id = n->id, .first_dep = f->n_deps, .body = f->body};
	n->index = f->n++;
	return e;
}

static CUresult walk(struct graph *g, const struct roots *roots, unsigned depth,
		     struct graph_flat *f);

/* The numbers of a node's dependencies, in memory of the caller's. */
static uint64_t *dep_numbers(const struct graph_node *n, const struct roots *roots,
			     struct roots *ret)
{
	uint32_t count = n->n_deps ? (uint32_t)n->n_deps : roots->n;
	uint64_t *v = malloc((count + 1) * sizeof(*v));
	uint32_t i;

	if (!v)
		return NULL;
	for (i = 0; i < count; i++)
		v[i] = n->n_deps ? n->deps[i].node->index | (uint64_t)n->deps[i].how << 32
				 : roots->deps[i];
	ret->deps = v;
	ret->n = count;
	return v;
}

static CUresult emit_child(struct graph_node *n, const struct roots *deps, unsigned depth,
			   struct graph_flat *f)
{
	struct graph_flat_node *e;
	struct graph_node *c;
	CUresult r = walk(n->op.child, deps, depth + 1, f);

	if (r)
		return r;
	e = push_node(f, n);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->marker = true;
	list_for_each (c, &n->op.child->nodes, link) {
		if (c->n_outs)
			continue;
		if (!push_dep(f, c->index))
			return CUDA_ERROR_OUT_OF_MEMORY;
		e->n_deps++;
	}
	/* an empty child graph is a place to wait at */
	for (uint32_t i = 0; list_empty(&n->op.child->nodes) && i < deps->n; i++) {
		if (!push_dep(f, deps->deps[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
		e->n_deps++;
	}
	return CUDA_SUCCESS;
}

/* Adds the nodes of bodies, which depend on nothing outside. */
static CUresult emit_bodies(const struct graph_cond *c, uint32_t first, unsigned depth,
			    struct graph_flat *f)
{
	const struct roots none = {0};
	uint32_t i, outside = f->body;
	CUresult r = CUDA_SUCCESS;

	for (i = 0; i < c->n && r == CUDA_SUCCESS; i++) {
		f->body = first + i;
		r = walk(c->bodies[i], &none, depth + 1, f);
	}
	f->body = outside;
	return r;
}

/* The second part of a copy in two depends on the first alone. */
static CUresult emit_second(struct graph_node *n, enum graph_part first,
			    struct graph_flat *f)
{
	uint32_t before = n->index;
	struct graph_flat_node *e = push_node(f, n);

	if (!e || !push_dep(f, before))
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->part = first == GRAPH_STAGE_HOST ? GRAPH_STAGE_COPY : GRAPH_STAGE_HOST;
	e->second = true;
	e->n_deps = 1;
	return CUDA_SUCCESS;
}

static CUresult emit(struct graph_node *n, const struct roots *roots, unsigned depth,
		     struct graph_flat *f)
{
	struct roots mine;
	_cleanup_free_ uint64_t *v = dep_numbers(n, roots, &mine);
	struct graph_flat_node *e;
	uint32_t i;

	if (!v)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (f->n >= GRAPH_NODES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (n->op.type == CU_GRAPH_NODE_TYPE_GRAPH)
		return emit_child(n, &mine, depth, f);
	e = push_node(f, n);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->n_deps = mine.n;
	for (i = 0; i < mine.n; i++) {
		if (!push_dep(f, v[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->part = graph_op_stages(&n->op);
	if (e->part != GRAPH_WHOLE)
		return emit_second(n, e->part, f);
	if (n->op.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return CUDA_SUCCESS;
	e->first_body = f->n_bodies + 1;
	f->n_bodies += n->op.cond->n;
	return emit_bodies(n->op.cond, e->first_body, depth, f);
}

struct frame {
	struct graph_node *node;
	size_t next; /* dependency to look at */
};

/* Emits a node behind all it depends on. stack has room for every node of the graph. */
static CUresult visit(struct graph_node *first, const struct roots *roots, unsigned depth,
		      struct frame *stack, struct graph_flat *f)
{
	size_t n = 0;

	first->mark = OPEN;
	stack[n++] = (struct frame){.node = first};
	while (n) {
		struct frame *top = &stack[n - 1];
		CUresult r;

		if (top->next < top->node->n_deps) {
			struct graph_node *d = top->node->deps[top->next++].node;

			if (d->mark == OPEN)
				return CUDA_ERROR_INVALID_VALUE;
			if (d->mark == DONE)
				continue;
			d->mark = OPEN;
			stack[n++] = (struct frame){.node = d};
			continue;
		}
		r = emit(top->node, roots, depth, f);
		if (r)
			return r;
		top->node->mark = DONE;
		n--;
	}
	return CUDA_SUCCESS;
}

static CUresult walk(struct graph *g, const struct roots *roots, unsigned depth,
		     struct graph_flat *f)
{
	_cleanup_free_ struct frame *stack = malloc((g->n_nodes + 1) * sizeof(*stack));
	CUresult r = stack ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	struct graph_node *n;

	if (depth > DEPTH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	list_for_each (n, &g->nodes, link) {
		if (r == CUDA_SUCCESS && n->mark == UNSEEN)
			r = visit(n, roots, depth, stack, f);
	}
	list_for_each (n, &g->nodes, link)
		n->mark = UNSEEN;
	return r;
}

CUresult graph_flatten(struct graph *g, struct graph_flat *ret_f)
{
	const struct roots none = {0};
	struct graph_flat f = {0};
	CUresult r = walk(g, &none, 0, &f);

	if (r) {
		graph_flat_fini(&f);
		return r;
	}
	*ret_f = f;
	return CUDA_SUCCESS;
}

void graph_flat_fini(struct graph_flat *f)
{
	free(f->nodes);
	free(f->deps);
	*f = (struct graph_flat){0};
}
