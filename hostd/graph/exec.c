/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "graph/exec.h"

struct exec_node {
	struct exec_op op;
	uint32_t *deps;
	uint32_t n_deps;
	uint32_t lane;
	struct dev_event *done; /* if another lane waits for it */
	bool disabled;
	bool has_dependents;
};

struct exec {
	const struct device_ops *ops;
	struct dev_ctx *ctx;
	struct exec_owner owner;
	CUresult failed;
	bool ready, launched;
	unsigned n, n_lanes;
	struct dev_stream *lanes[EXEC_LANES_MAX]; /* lanes[0] is the launch's */
	struct dev_event *fork, *end;
	uint64_t charged;
	struct exec_node nodes[];
};

static _Atomic uint64_t bytes_used;

static bool charge(struct exec *x, uint64_t bytes)
{
	uint64_t was =
		atomic_fetch_add_explicit(&bytes_used, bytes, memory_order_relaxed);

	if (was + bytes > EXEC_BYTES_MAX) {
		atomic_fetch_sub_explicit(&bytes_used, bytes, memory_order_relaxed);
		return false;
	}
	if (x)
		x->charged += bytes;
	return true;
}

static void uncharge(struct exec *x, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&bytes_used, bytes, memory_order_relaxed);
	x->charged -= bytes;
}

CUresult exec_new(const struct device_ops *ops, struct dev_ctx *ctx,
		  const struct exec_owner *owner, unsigned n, struct exec **ret_x)
{
	uint64_t bytes = sizeof(struct exec) + (uint64_t)n * sizeof(struct exec_node);
	struct exec *x;

	if (n > EXEC_NODES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!charge(NULL, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	x = calloc(1, bytes);
	if (!x) {
		atomic_fetch_sub_explicit(&bytes_used, bytes, memory_order_relaxed);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	x->ops = ops;
	x->ctx = ctx;
	x->owner = *owner;
	x->n = n;
	x->charged = bytes;
	*ret_x = x;
	return CUDA_SUCCESS;
}

static void op_drop(struct exec *x, struct exec_op *op)
{
	if (op->kind == EXEC_NONE)
		return;
	if (op->kind == EXEC_KERNEL) {
		uncharge(x, op->kernel.params_size);
		free((void *)op->kernel.params);
	}
	x->owner.put(x->owner.arg, op->ref);
	*op = (struct exec_op){.kind = EXEC_NONE};
}

void exec_free(struct exec *x)
{
	if (!x)
		return;
	for (unsigned i = 0; i < x->n; i++) {
		struct exec_node *nd = &x->nodes[i];

		op_drop(x, &nd->op);
		free(nd->deps);
		if (nd->done)
			x->ops->event_destroy(nd->done);
	}
	for (unsigned i = 1; i < x->n_lanes; i++) {
		if (x->lanes[i])
			x->ops->stream_destroy(x->lanes[i]);
	}
	if (x->fork)
		x->ops->event_destroy(x->fork);
	if (x->end)
		x->ops->event_destroy(x->end);
	atomic_fetch_sub_explicit(&bytes_used, x->charged, memory_order_relaxed);
	free(x);
}

/* What a step answers: while building nobody waits for it. */
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

static CUresult depend(struct exec *x, unsigned node, const uint32_t *deps, unsigned n)
{
	struct exec_node *nd;
	uint32_t *p;

	if (x->ready || node >= x->n)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		if (deps[i] >= node)
			return CUDA_ERROR_INVALID_VALUE;
	}
	nd = &x->nodes[node];
	if (n > EXEC_NODES_MAX - nd->n_deps || !charge(x, n * sizeof(*p)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = realloc(nd->deps, (nd->n_deps + n) * sizeof(*p));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(p + nd->n_deps, deps, n * sizeof(*p));
	nd->deps = p;
	nd->n_deps += n;
	return CUDA_SUCCESS;
}

CUresult exec_depend(struct exec *x, unsigned node, const uint32_t *deps, unsigned n)
{
	return n ? answer(x, depend(x, node, deps, n)) : CUDA_SUCCESS;
}

/* Copies what op points to. */
static CUresult own_params(struct exec *x, struct exec_op *op)
{
	size_t size = op->kernel.params_size;
	void *params;

	if (!charge(x, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	params = malloc(size ? size : 1);
	if (!params) {
		uncharge(x, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (size)
		memcpy(params, op->kernel.params, size);
	op->kernel.params = params;
	return CUDA_SUCCESS;
}

/* Recording and waiting may be exchanged for nothing else, and so on for every kind. */
static bool kind_fits(const struct exec *x, const struct exec_node *nd,
		      const struct exec_op *op)
{
	return x->ready ? nd->op.kind == op->kind : nd->op.kind == EXEC_NONE;
}

CUresult exec_set(struct exec *x, unsigned node, const struct exec_op *given)
{
	struct exec_op op = *given;
	CUresult r = CUDA_SUCCESS;

	if (node >= x->n || op.kind == EXEC_NONE || !kind_fits(x, &x->nodes[node], &op))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && op.kind == EXEC_COPY && op.copy.depth > EXEC_DEPTH_MAX)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && op.kind == EXEC_KERNEL)
		r = own_params(x, &op);
	if (r != CUDA_SUCCESS) {
		x->owner.put(x->owner.arg, op.ref);
		return answer(x, r);
	}
	op_drop(x, &x->nodes[node].op);
	x->nodes[node].op = op;
	return CUDA_SUCCESS;
}

CUresult exec_enable(struct exec *x, unsigned node, bool enabled)
{
	if (node >= x->n)
		return answer(x, CUDA_ERROR_INVALID_VALUE);
	x->nodes[node].disabled = !enabled;
	return CUDA_SUCCESS;
}

/* ---- dealing out ---- */

/* last[]: the node that ends each lane so far, or n. */
static uint32_t choose_lane(struct exec *x, unsigned i, const uint32_t *last)
{
	struct exec_node *nd = &x->nodes[i];

	for (unsigned d = 0; d < nd->n_deps; d++) {
		uint32_t lane = x->nodes[nd->deps[d]].lane;

		if (last[lane] == nd->deps[d])
			return lane;
	}
	return x->n_lanes < EXEC_LANES_MAX ? x->n_lanes++ : i % EXEC_LANES_MAX;
}

static CUresult need_event(struct exec *x, struct dev_event **ev)
{
	if (*ev)
		return CUDA_SUCCESS;
	return x->ops->event_create(x->ctx, CU_EVENT_DISABLE_TIMING, ev);
}

/* Events for what crosses lanes. */
static CUresult connect_node(struct exec *x, unsigned i)
{
	struct exec_node *nd = &x->nodes[i];
	CUresult r = CUDA_SUCCESS;

	for (unsigned d = 0; d < nd->n_deps && r == CUDA_SUCCESS; d++) {
		struct exec_node *before = &x->nodes[nd->deps[d]];

		before->has_dependents = true;
		if (before->lane != nd->lane)
			r = need_event(x, &before->done);
	}
	return r;
}

CUresult exec_ready(struct exec *x)
{
	uint32_t last[EXEC_LANES_MAX] = {0};
	CUresult r = x->failed;
	unsigned i;

	if (x->ready)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < x->n && r == CUDA_SUCCESS; i++) {
		if (x->nodes[i].op.kind == EXEC_NONE)
			r = CUDA_ERROR_INVALID_VALUE;
		x->nodes[i].lane = choose_lane(x, i, last);
		last[x->nodes[i].lane] = i;
		if (r == CUDA_SUCCESS)
			r = connect_node(x, i);
	}
	for (i = 0; i < x->n && r == CUDA_SUCCESS; i++) {
		if (!x->nodes[i].has_dependents && x->nodes[i].lane)
			r = need_event(x, &x->nodes[i].done);
	}
	for (i = 1; i < x->n_lanes && r == CUDA_SUCCESS; i++)
		r = x->ops->stream_create(x->ctx, DEV_STREAM_NON_BLOCKING, 0,
					  &x->lanes[i]);
	if (r == CUDA_SUCCESS && x->n_lanes > 1)
		r = need_event(x, &x->fork);
	if (r == CUDA_SUCCESS)
		r = need_event(x, &x->end);
	x->ready = r == CUDA_SUCCESS;
	return r;
}

/* ---- launching ---- */

static CUresult submit_copy(struct exec *x, struct dev_stream *st,
			    const struct exec_copy *c)
{
	struct dev_copy_2d rows = c->rows;
	CUresult r = CUDA_SUCCESS;

	for (uint32_t z = 0; z < c->depth && r == CUDA_SUCCESS; z++) {
		r = x->ops->copy(x->ctx, st, &rows);
		rows.dst += c->dst_slice;
		rows.src += c->src_slice;
	}
	return r;
}

static CUresult submit(struct exec *x, struct dev_stream *st, const struct exec_op *op)
{
	const struct device_ops *ops = x->ops;
	const struct exec_fill *f = &op->fill;

	switch (op->kind) {
	case EXEC_NONE:
	case EXEC_EMPTY:
		return CUDA_SUCCESS;
	case EXEC_KERNEL:
		return ops->launch(x->ctx, st, &op->kernel);
	case EXEC_COPY:
		return submit_copy(x, st, &op->copy);
	case EXEC_FILL:
		return ops->fill(x->ctx, st, f->dst, f->pitch, f->value, f->elem_bytes,
				 f->width, f->height);
	case EXEC_HOST:
		return x->owner.host(x->owner.arg, x->ctx, st, op->host_id);
	case EXEC_RECORD:
		return ops->event_record(x->ctx, op->event, st);
	case EXEC_WAIT:
		return ops->stream_wait_event(x->ctx, st, op->event);
	}
	return CUDA_ERROR_UNKNOWN;
}

static CUresult wait_deps(struct exec *x, const struct exec_node *nd,
			  struct dev_stream *st)
{
	CUresult r = CUDA_SUCCESS;

	if (!nd->n_deps && nd->lane)
		return x->ops->stream_wait_event(x->ctx, st, x->fork);
	for (uint32_t d = 0; d < nd->n_deps && r == CUDA_SUCCESS; d++) {
		const struct exec_node *before = &x->nodes[nd->deps[d]];

		if (before->lane != nd->lane)
			r = x->ops->stream_wait_event(x->ctx, st, before->done);
	}
	return r;
}

static CUresult submit_node(struct exec *x, const struct exec_node *nd,
			    struct dev_stream *st)
{
	CUresult r = wait_deps(x, nd, st);

	if (r == CUDA_SUCCESS && !nd->disabled)
		r = submit(x, st, &nd->op);
	if (r == CUDA_SUCCESS && nd->done)
		r = x->ops->event_record(x->ctx, nd->done, st);
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
		e = x->ops->stream_wait_event(x->ctx, st, nd->done);
		r = r ? r : e;
	}
	e = x->ops->event_record(x->ctx, x->end, st);
	return r ? r : e;
}

CUresult exec_launch(struct exec *x, struct dev_stream *st)
{
	CUresult r = CUDA_SUCCESS, e;
	unsigned i;

	if (!x->ready)
		return CUDA_ERROR_INVALID_VALUE;
	if (x->launched)
		r = x->ops->stream_wait_event(x->ctx, st, x->end);
	if (r == CUDA_SUCCESS && x->fork)
		r = x->ops->event_record(x->ctx, x->fork, st);
	if (r != CUDA_SUCCESS)
		return r;
	for (i = 0; i < x->n && r == CUDA_SUCCESS; i++) {
		const struct exec_node *nd = &x->nodes[i];

		r = submit_node(x, nd, nd->lane ? x->lanes[nd->lane] : st);
	}
	x->launched = true;
	e = join(x, st, r == CUDA_SUCCESS ? x->n : i - 1);
	return r ? r : e;
}

unsigned exec_kernels(const struct exec *x)
{
	unsigned n = 0;

	for (unsigned i = 0; i < x->n; i++)
		n += !x->nodes[i].disabled && x->nodes[i].op.kind == EXEC_KERNEL;
	return n;
}
