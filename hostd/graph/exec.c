/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "graph/nodes.h"

static _Atomic uint64_t bytes_used;

static void give_back(const struct exec_owner *o, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&bytes_used, bytes, memory_order_relaxed);
	if (o->unhold)
		o->unhold(o->arg, bytes);
}

static bool take(const struct exec_owner *o, uint64_t bytes)
{
	uint64_t was =
		atomic_fetch_add_explicit(&bytes_used, bytes, memory_order_relaxed);

	if (was + bytes <= EXEC_BYTES_MAX && (!o->hold || o->hold(o->arg, bytes) == 0))
		return true;
	atomic_fetch_sub_explicit(&bytes_used, bytes, memory_order_relaxed);
	return false;
}

static bool charge(struct exec *x, uint64_t bytes)
{
	if (!take(&x->owner, bytes))
		return false;
	x->charged += bytes;
	return true;
}

static void uncharge(struct exec *x, uint64_t bytes)
{
	x->charged -= bytes;
	give_back(&x->owner, bytes);
}

CUresult exec_new(const struct device_ops *ops, struct dev_ctx *ctx,
		  const struct exec_owner *owner, const struct exec_shape *shape,
		  struct exec **ret_x)
{
	uint64_t bytes =
		sizeof(struct exec) + (uint64_t)shape->n * sizeof(struct exec_node);
	struct exec *x;

	if (shape->n > EXEC_NODES_MAX || shape->n_bodies > shape->n * DEV_NODE_BODIES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!take(owner, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	x = calloc(1, bytes);
	if (!x) {
		give_back(owner, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	x->ops = ops;
	x->ctx = ctx;
	x->owner = *owner;
	x->shape = *shape;
	x->charged = bytes;
	*ret_x = x;
	return CUDA_SUCCESS;
}

/* ---- what nodes own ---- */

/* How much memory an operation points to; a kernel's attributes and parameters are one
 * piece once they are ours. */
static size_t op_size(const struct dev_node *op)
{
	if (op->kind == DEV_NODE_KERNEL)
		return op->kernel.n_attrs * sizeof(struct dev_launch_attr) +
		       op->kernel.params_size;
	return op->kind == DEV_NODE_MEM_OPS ? op->mem_ops.n * sizeof(struct dev_mem_op)
					    : 0;
}

static void *op_data(const struct dev_node *op)
{
	const void *data = op->mem_ops.ops;

	if (op->kind == DEV_NODE_KERNEL)
		data = op->kernel.n_attrs ? (const void *)op->kernel.attrs
					  : op->kernel.params;
	else if (op->kind != DEV_NODE_MEM_OPS)
		data = NULL;
	return (void *)(uintptr_t)data;
}

static void kernel_copy(struct dev_launch *l, void *to)
{
	size_t attrs = l->n_attrs * sizeof(*l->attrs);

	if (attrs)
		memcpy(to, l->attrs, attrs);
	if (l->params_size)
		memcpy((char *)to + attrs, l->params, l->params_size);
	l->attrs = to;
	l->params = (char *)to + attrs;
}

/* Copies what op points to. */
static CUresult op_own(struct exec *x, struct dev_node *op)
{
	size_t size = op_size(op);
	void *data;

	if (op->kind != DEV_NODE_KERNEL && op->kind != DEV_NODE_MEM_OPS)
		return CUDA_SUCCESS;
	if (!charge(x, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	data = malloc(size ? size : 1);
	if (!data) {
		uncharge(x, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (op->kind == DEV_NODE_KERNEL) {
		kernel_copy(&op->kernel, data);
	} else {
		memcpy(data, op->mem_ops.ops, size);
		op->mem_ops.ops = data;
	}
	return CUDA_SUCCESS;
}

static void op_drop(struct exec *x, struct dev_node *op)
{
	if (op->kind == DEV_NODE_NONE)
		return;
	uncharge(x, op_size(op));
	free(op_data(op));
	x->owner.put(x->owner.arg, op->ref);
	x->owner.put(x->owner.arg, op->ref2);
	*op = (struct dev_node){.kind = DEV_NODE_NONE};
}

void exec_free(struct exec *x)
{
	if (!x)
		return;
	if (x->graph)
		x->ops->graph->destroy(x->graph);
	exec_streams_fini(x);
	for (unsigned i = 0; i < x->shape.n; i++) {
		op_drop(x, &x->nodes[i].op);
		free(x->nodes[i].edges);
	}
	give_back(&x->owner, x->charged);
	free(x);
}

/* ---- building ---- */

/* Result of a step; while the graph is built, nobody waits and an error is kept. */
static CUresult answer(struct exec *x, CUresult r)
{
	if (x->ready)
		return r;
	exec_fail(x, r);
	return CUDA_SUCCESS;
}

void exec_fail(struct exec *x, CUresult r)
{
	if (x->failed == CUDA_SUCCESS)
		x->failed = r;
}

static CUresult depend(struct exec *x, unsigned node, const struct dev_edge *edges,
		       unsigned n)
{
	struct exec_node *nd;
	struct dev_edge *p;

	if (x->ready || node >= x->shape.n)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		if (edges[i].from >= node)
			return CUDA_ERROR_INVALID_VALUE;
	}
	nd = &x->nodes[node];
	if (n > EXEC_NODES_MAX - nd->n_edges || !charge(x, n * sizeof(*p)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = realloc(nd->edges, (nd->n_edges + n) * sizeof(*p));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(p + nd->n_edges, edges, n * sizeof(*p));
	nd->edges = p;
	nd->n_edges += n;
	return CUDA_SUCCESS;
}

CUresult exec_depend(struct exec *x, unsigned node, const struct dev_edge *edges,
		     unsigned n)
{
	return n ? answer(x, depend(x, node, edges, n)) : CUDA_SUCCESS;
}

/* Recording and waiting may be exchanged for nothing else, and so on for every kind. */
static bool kind_fits(const struct exec *x, const struct exec_node *nd,
		      const struct dev_node *op)
{
	return x->ready ? nd->op.kind == op->kind : nd->op.kind == DEV_NODE_NONE;
}

static CUresult check_op(const struct exec *x, unsigned node, const struct dev_node *op)
{
	const struct dev_node_conditional *c = &op->cond;

	if (node >= x->shape.n || op->kind == DEV_NODE_NONE ||
	    op->graph > x->shape.n_bodies || !kind_fits(x, &x->nodes[node], op))
		return CUDA_ERROR_INVALID_VALUE;
	if (op->kind == DEV_NODE_COPY && op->copy.depth > DEV_NODE_DEPTH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (op->kind == DEV_NODE_MEM_OPS && op->mem_ops.n > DEV_MEM_OPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (op->kind == DEV_NODE_CONDITIONAL &&
	    (x->ready || !c->n_bodies || c->n_bodies > DEV_NODE_BODIES_MAX ||
	     !c->first_body || c->first_body > x->shape.n_bodies ||
	     c->n_bodies > x->shape.n_bodies - c->first_body + 1))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static bool same_attributes(const struct dev_launch *a, const struct dev_launch *b)
{
	return a->cooperative == b->cooperative && a->n_attrs == b->n_attrs &&
	       !memcmp(a->cluster, b->cluster, sizeof(a->cluster)) &&
	       !memcmp(a->attrs, b->attrs, a->n_attrs * sizeof(*a->attrs));
}

static bool same_launch(const struct dev_launch *a, const struct dev_launch *b)
{
	return a->func == b->func && !memcmp(a->grid, b->grid, sizeof(a->grid)) &&
	       !memcmp(a->block, b->block, sizeof(a->block)) &&
	       a->shared_bytes == b->shared_bytes && a->params_size == b->params_size &&
	       same_attributes(a, b) && !memcmp(a->params, b->params, a->params_size);
}

/* An update names every node of a graph, whether or not it changes. */
static bool same(const struct dev_node *a, const struct dev_node *b)
{
	switch (a->kind) {
	case DEV_NODE_EMPTY:
		return true;
	case DEV_NODE_KERNEL:
		return same_launch(&a->kernel, &b->kernel);
	case DEV_NODE_COPY:
		return !memcmp(&a->copy, &b->copy, sizeof(a->copy));
	case DEV_NODE_ARRAY_COPY:
		return !memcmp(&a->array_copy, &b->array_copy, sizeof(a->array_copy));
	case DEV_NODE_FILL:
		return !memcmp(&a->fill, &b->fill, sizeof(a->fill));
	case DEV_NODE_RECORD:
	case DEV_NODE_WAIT:
		return a->event == b->event;
	case DEV_NODE_NONE:
	case DEV_NODE_HOST:
	case DEV_NODE_MEM_OPS:
	case DEV_NODE_CONDITIONAL:
		return false;
	}
	return false;
}

/* Tells the device; what it cannot change it will be told at the next launch. */
static void pass_on(struct exec *x, unsigned node, const struct dev_node *op)
{
	const struct dev_node *was = &x->nodes[node].op;

	if (!x->graph || x->stale || same(was, op))
		return;
	if (op->kind == DEV_NODE_KERNEL && !same_attributes(&was->kernel, &op->kernel))
		x->stale = true;
	else if (x->ops->graph->set(x->graph, node, op) != CUDA_SUCCESS)
		x->stale = true;
}

CUresult exec_set(struct exec *x, unsigned node, const struct dev_node *given)
{
	struct dev_node op = *given;
	CUresult r = check_op(x, node, &op);

	if (r == CUDA_SUCCESS)
		r = op_own(x, &op);
	if (r != CUDA_SUCCESS) {
		x->owner.put(x->owner.arg, op.ref);
		x->owner.put(x->owner.arg, op.ref2);
		return answer(x, r);
	}
	if (x->ready)
		op.graph = x->nodes[node].op.graph;
	op.disabled = x->nodes[node].op.disabled;
	pass_on(x, node, &op);
	op_drop(x, &x->nodes[node].op);
	x->nodes[node].op = op;
	return CUDA_SUCCESS;
}

CUresult exec_enable(struct exec *x, unsigned node, bool enabled)
{
	if (node >= x->shape.n)
		return answer(x, CUDA_ERROR_INVALID_VALUE);
	x->nodes[node].op.disabled = !enabled;
	if (x->graph && !x->stale)
		x->stale = x->ops->graph->enable(x->graph, node, enabled) != CUDA_SUCCESS;
	return CUDA_SUCCESS;
}

/* ---- the device's graph ---- */

/* An edge within one graph, from outside a body never into it. */
static CUresult check_edges(const struct exec *x, const struct exec_node *nd)
{
	for (uint32_t i = 0; i < nd->n_edges; i++) {
		if (x->nodes[nd->edges[i].from].op.graph != nd->op.graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Every body has one conditional node, which stands before all that lies in the body. */
static CUresult check_bodies(const struct exec *x)
{
	_cleanup_free_ bool *open = calloc(x->shape.n_bodies + 1, sizeof(*open));
	CUresult r = CUDA_SUCCESS;

	if (!open)
		return CUDA_ERROR_OUT_OF_MEMORY;
	open[0] = true;
	for (uint32_t i = 0; i < x->shape.n && r == CUDA_SUCCESS; i++) {
		const struct dev_node *op = &x->nodes[i].op;

		if (op->kind == DEV_NODE_NONE || !open[op->graph])
			return CUDA_ERROR_INVALID_VALUE;
		r = check_edges(x, &x->nodes[i]);
		if (op->kind != DEV_NODE_CONDITIONAL)
			continue;
		for (uint32_t k = 0; k < op->cond.n_bodies; k++) {
			if (open[op->cond.first_body + k])
				return CUDA_ERROR_INVALID_VALUE;
			open[op->cond.first_body + k] = true;
		}
	}
	return r;
}

static CUresult create(struct exec *x, struct dev_graph **ret_g)
{
	uint32_t n = x->shape.n;
	_cleanup_free_ struct dev_node *nodes = calloc(n + 1, sizeof(*nodes));
	_cleanup_free_ const struct dev_edge **edges = calloc(n + 1, sizeof(*edges));
	_cleanup_free_ uint32_t *n_edges = calloc(n + 1, sizeof(*n_edges));
	const struct dev_graph_desc desc = {
		.nodes = nodes,
		.edges = edges,
		.n_edges = n_edges,
		.n = n,
		.n_bodies = x->shape.n_bodies,
		.flags = x->shape.flags,
		.shell = x->shape.shell,
		.host = x->owner.stands,
		.host_arg = x->owner.stands_arg,
	};

	if (!nodes || !edges || !n_edges)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < n; i++) {
		nodes[i] = x->nodes[i].op;
		edges[i] = x->nodes[i].edges;
		n_edges[i] = x->nodes[i].n_edges;
	}
	return x->ops->graph->create(x->ctx, &desc, ret_g);
}

/* Makes the device's graph what the nodes say. */
static CUresult refresh(struct exec *x)
{
	struct dev_graph *g;
	CUresult r;

	if (!x->stale)
		return CUDA_SUCCESS;
	if (x->graph && x->shape.shell) { /* of which there can be only one */
		x->ops->graph->destroy(x->graph);
		x->graph = NULL;
	}
	r = create(x, &g);
	if (r != CUDA_SUCCESS)
		return r;
	if (x->graph)
		x->ops->graph->destroy(x->graph);
	x->graph = g;
	x->stale = false;
	return CUDA_SUCCESS;
}

CUresult exec_ready(struct exec *x)
{
	CUresult r = x->failed;

	if (x->ready)
		return CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = check_bodies(x);
	if (r == CUDA_SUCCESS && x->ops->graph) {
		x->stale = true;
		r = refresh(x);
	} else if (r == CUDA_SUCCESS) {
		r = exec_streams_ready(x);
	}
	x->ready = r == CUDA_SUCCESS;
	return r;
}

CUresult exec_launch(struct exec *x, struct dev_stream *st)
{
	CUresult r;

	if (!x->ready)
		return CUDA_ERROR_INVALID_VALUE;
	if (!x->ops->graph)
		return exec_streams_launch(x, st);
	r = refresh(x);
	return r == CUDA_SUCCESS ? x->ops->graph->launch(x->graph, st) : r;
}

CUresult exec_upload(struct exec *x, struct dev_stream *st)
{
	CUresult r;

	if (!x->ready)
		return CUDA_ERROR_INVALID_VALUE;
	if (!x->ops->graph)
		return CUDA_SUCCESS;
	r = refresh(x);
	return r == CUDA_SUCCESS ? x->ops->graph->upload(x->graph, st) : r;
}

void exec_named(const struct exec *x, void (*fn)(void *arg, const struct dev_node *op),
		void *arg)
{
	for (unsigned i = 0; i < x->shape.n; i++) {
		const struct dev_node *op = &x->nodes[i].op;

		if (!op->disabled)
			fn(arg, op);
	}
}

unsigned exec_kernels(const struct exec *x)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x->shape.n; i++)
		n += !x->nodes[i].op.disabled && x->nodes[i].op.kind == DEV_NODE_KERNEL;
	return n;
}
