/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes. The handle that kernels set is the real driver's: it is asked for
 * when the program creates it, and belongs at the worker to a graph that stands for the
 * outermost graph here (its "shell"). What is instantiated is made in that shell, so a
 * graph with conditional nodes has one executable graph at a time, as with the driver.
 */
#include <stdlib.h>

#include "calls.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "core/thread.h"

struct graph *graph_outermost(struct graph *g)
{
	while (g->owner)
		g = g->owner->graph;
	return g;
}

static CUresult ask(uint64_t shell, unsigned initial, unsigned flags, uint64_t *ret)
{
	struct graph_condition_rep rep;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	r = call_graph_condition(t, shell, initial, flags, &rep);
	if (r)
		return r;
	*ret = rep.condition;
	return CUDA_SUCCESS;
}

CUresult graph_condition_new(struct graph *g, unsigned initial, unsigned flags,
			     uint64_t *ret_handle)
{
	uint64_t *p, value = 0;
	CUresult r;

	g = graph_outermost(g);
	p = realloc(g->conditions, (g->n_conditions + 1) * sizeof(*p));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->conditions = p;
	r = ask(g->handle, initial, flags, &value);
	if (r)
		return r;
	g->conditions[g->n_conditions++] = value;
	*ret_handle = value;
	return CUDA_SUCCESS;
}

/* ---- nodes ---- */

static bool handle_is_used(const struct graph *g, uint64_t handle)
{
	struct graph_node *n;
	unsigned i;

	list_for_each (n, &g->nodes, link) {
		if (n->op.type == CU_GRAPH_NODE_TYPE_GRAPH &&
		    handle_is_used(n->op.child, handle))
			return true;
		if (n->op.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
			continue;
		if (n->op.cond->handle == handle)
			return true;
		for (i = 0; i < n->op.cond->n; i++) {
			if (handle_is_used(n->op.cond->bodies[i], handle))
				return true;
		}
	}
	return false;
}

static bool handle_is_free(const struct graph *g, uint64_t handle)
{
	size_t i;

	for (i = 0; i < g->n_conditions; i++) {
		if (g->conditions[i] == handle)
			return !handle_is_used(g, handle);
	}
	return false;
}

static bool size_ok(const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	switch (p->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return p->size == 1 || p->size == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return p->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return p->size && p->size <= GRAPH_BODIES_MAX;
	}
	return false;
}

void graph_cond_free(struct graph_cond *c)
{
	unsigned i;

	for (i = 0; c && i < c->n; i++)
		graph_free(c->bodies[i]);
	if (c)
		free(c->shown);
	free(c);
}

CUresult graph_op_conditional(struct graph *g, CUDA_CONDITIONAL_NODE_PARAMS *p,
			      struct graph_op *ret_op)
{
	struct graph_cond *c;
	unsigned i;

	if (!g || !size_ok(p) || !handle_is_free(graph_outermost(g), p->handle))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c) + p->size * sizeof(struct graph *));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->handle = p->handle;
	c->type = p->type;
	c->n = p->size;
	c->shown = calloc(p->size, sizeof(CUgraph));
	for (i = 0; c->shown && i < c->n; i++) {
		c->bodies[i] = graph_new();
		if (!c->bodies[i])
			break;
		c->shown[i] = (CUgraph)(uintptr_t)c->bodies[i]->handle;
	}
	if (!c->shown || i < c->n) {
		graph_cond_free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->phGraph_out = c->shown;
	ret_op->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	ret_op->cond = c;
	return CUDA_SUCCESS;
}

/* ---- what the worker has ---- */

CUresult graph_shell_drop(struct graph *g)
{
	struct graph_shell_free_cmd *cmd;
	struct guest_thread *t;
	CUresult r;

	if (!g->n_conditions)
		return CUDA_SUCCESS;
	r = guest_enter(NEED_INIT, &t);
	if (r)
		return r;
	cmd = begin_graph_shell_free(t);
	if (!cmd)
		return guest_lost(t);
	cmd->shell = g->handle;
	return guest_post(t);
}
