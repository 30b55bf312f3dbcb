/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs on a device that has none of its own. exec_streams_ready() deals the nodes out
 * to lanes: a node goes behind one it depends on if that one is still the last of its
 * lane, else to a lane of its own, as long as there are any. Lane 0 is the stream of the
 * launch, so a chain of nodes is just submitted; the other lanes are streams of the
 * graph. A dependency between lanes becomes an event, and so does the beginning (lanes
 * wait for the stream) and the end (the stream waits for nodes on which nothing depends).
 * A launch waits in its stream for the launch before it. Every kind of edge is a full
 * dependency.
 */
#include "base/macros.h"
#include "graph/nodes.h"

/* ---- dealing out ---- */

/* last[]: the node that ends each lane so far, or n. */
static uint32_t choose_lane(struct exec *x, unsigned i, const uint32_t *last)
{
	struct exec_node *nd = &x->nodes[i];

	for (unsigned d = 0; d < nd->n_edges; d++) {
		uint32_t lane = x->nodes[nd->edges[d].from].lane;

		if (last[lane] == nd->edges[d].from)
			return lane;
	}
	return x->n_lanes < EXEC_LANES_MAX ? x->n_lanes++ : i % EXEC_LANES_MAX;
}

static CUresult need_event(struct exec *x, struct dev_event **ev)
{
	if (*ev)
		return CUDA_SUCCESS;
	return x->ops->event.create(x->ctx, CU_EVENT_DISABLE_TIMING, ev);
}

/* Events for what crosses lanes. */
static CUresult connect_node(struct exec *x, unsigned i)
{
	struct exec_node *nd = &x->nodes[i];
	CUresult r = CUDA_SUCCESS;

	for (unsigned d = 0; d < nd->n_edges && r == CUDA_SUCCESS; d++) {
		struct exec_node *before = &x->nodes[nd->edges[d].from];

		before->has_dependents = true;
		if (before->lane != nd->lane)
			r = need_event(x, &before->done);
	}
	return r;
}

CUresult exec_streams_ready(struct exec *x)
{
	uint32_t last[EXEC_LANES_MAX] = {0};
	CUresult r = CUDA_SUCCESS;
	unsigned i;

	for (i = 0; i < x->shape.n && r == CUDA_SUCCESS; i++) {
		if (x->nodes[i].op.kind == DEV_NODE_CONDITIONAL)
			r = CUDA_ERROR_NOT_SUPPORTED;
		x->nodes[i].lane = choose_lane(x, i, last);
		last[x->nodes[i].lane] = i;
		if (r == CUDA_SUCCESS)
			r = connect_node(x, i);
	}
	for (i = 0; i < x->shape.n && r == CUDA_SUCCESS; i++) {
		if (!x->nodes[i].has_dependents && x->nodes[i].lane)
			r = need_event(x, &x->nodes[i].done);
	}
	for (i = 1; i < x->n_lanes && r == CUDA_SUCCESS; i++)
		r = x->ops->stream.create(x->ctx, DEV_STREAM_NON_BLOCKING, 0,
					  &x->lanes[i]);
	if (r == CUDA_SUCCESS && x->n_lanes > 1)
		r = need_event(x, &x->fork);
	if (r == CUDA_SUCCESS)
		r = need_event(x, &x->end);
	return r;
}

/* ---- launching ---- */

static CUresult submit_copy(struct exec *x, struct dev_stream *st,
			    const struct dev_node_copy *c)
{
	struct dev_copy_2d rows = c->rows;
	CUresult r = CUDA_SUCCESS;

	for (uint32_t z = 0; z < c->depth && r == CUDA_SUCCESS; z++) {
		r = x->ops->copy.rows(x->ctx, st, &rows);
		rows.dst += c->dst_slice;
		rows.src += c->src_slice;
	}
	return r;
}

static CUresult submit(struct exec *x, struct dev_stream *st, const struct dev_node *op)
{
	const struct device_ops *ops = x->ops;
	const struct dev_node_fill *f = &op->fill;

	switch (op->kind) {
	case DEV_NODE_EMPTY:
		return CUDA_SUCCESS;
	case DEV_NODE_NONE:
	case DEV_NODE_CONDITIONAL:
		break; /* not made ready */
	case DEV_NODE_KERNEL:
		return ops->func.launch(x->ctx, st, &op->kernel);
	case DEV_NODE_COPY:
		return submit_copy(x, st, &op->copy);
	case DEV_NODE_ARRAY_COPY:
		return ops->array.copy(x->ctx, st, &op->array_copy);
	case DEV_NODE_FILL:
		return ops->copy.fill(x->ctx, st, f->dst, f->pitch, f->value,
				      f->elem_bytes, f->width, f->height);
	case DEV_NODE_MEM_OPS:
		return ops->stream.mem_ops(x->ctx, st, op->mem_ops.ops, op->mem_ops.n, 0);
	case DEV_NODE_HOST:
		return x->owner.host(x->owner.arg, x->ctx, st, op->host_id);
	case DEV_NODE_RECORD:
		return ops->event.record(x->ctx, op->event, st);
	case DEV_NODE_WAIT:
		return ops->stream.wait_event(x->ctx, st, op->event);
	}
	return CUDA_ERROR_UNKNOWN;
}

static CUresult wait_deps(struct exec *x, const struct exec_node *nd,
			  struct dev_stream *st)
{
	CUresult r = CUDA_SUCCESS;

	if (!nd->n_edges && nd->lane)
		return x->ops->stream.wait_event(x->ctx, st, x->fork);
	for (uint32_t d = 0; d < nd->n_edges && r == CUDA_SUCCESS; d++) {
		const struct exec_node *before = &x->nodes[nd->edges[d].from];

		if (before->lane != nd->lane)
			r = x->ops->stream.wait_event(x->ctx, st, before->done);
	}
	return r;
}

static CUresult submit_node(struct exec *x, const struct exec_node *nd,
			    struct dev_stream *st)
{
	CUresult r = wait_deps(x, nd, st);

	if (r == CUDA_SUCCESS && !nd->op.disabled)
		r = submit(x, st, &nd->op);
	if (r == CUDA_SUCCESS && nd->done)
		r = x->ops->event.record(x->ctx, nd->done, st);
	return r;
}

/* The stream goes on when all that was submitted is done, even after a failure. */
static CUresult join(struct exec *x, struct dev_stream *st, unsigned submitted)
{
	CUresult r = CUDA_SUCCESS, e;

	for (unsigned i = 0; i < submitted; i++) {
		const struct exec_node *nd = &x->nodes[i];

		if (nd->has_dependents || !nd->lane)
			continue;
		e = x->ops->stream.wait_event(x->ctx, st, nd->done);
		r = r ? r : e;
	}
	e = x->ops->event.record(x->ctx, x->end, st);
	return r ? r : e;
}

CUresult exec_streams_launch(struct exec *x, struct dev_stream *st)
{
	CUresult r = CUDA_SUCCESS, e;
	unsigned i;

	if (x->launched)
		r = x->ops->stream.wait_event(x->ctx, st, x->end);
	if (r == CUDA_SUCCESS && x->fork)
		r = x->ops->event.record(x->ctx, x->fork, st);
	if (r != CUDA_SUCCESS)
		return r;
	for (i = 0; i < x->shape.n && r == CUDA_SUCCESS; i++) {
		const struct exec_node *nd = &x->nodes[i];

		r = submit_node(x, nd, nd->lane ? x->lanes[nd->lane] : st);
	}
	x->launched = true;
	e = join(x, st, r == CUDA_SUCCESS ? x->shape.n : i - 1);
	return r ? r : e;
}

void exec_streams_fini(struct exec *x)
{
	for (unsigned i = 0; i < x->shape.n; i++) {
		if (x->nodes[i].done)
			x->ops->event.destroy(x->nodes[i].done);
	}
	for (unsigned i = 1; i < x->n_lanes; i++) {
		if (x->lanes[i])
			x->ops->stream.destroy(x->lanes[i]);
	}
	if (x->fork)
		x->ops->event.destroy(x->fork);
	if (x->end)
		x->ops->event.destroy(x->end);
}
