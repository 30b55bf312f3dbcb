/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs on a device that only takes note and keeps account of what is ordered
 * before what: each stream has the set of operations that are done before its next one.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "graph/exec.h"

#define OPS_MAX 64 /* one bit each */

struct dev_stream {
	uint64_t before;
};

struct dev_event {
	uint64_t before;
};

static uint64_t op_before[OPS_MAX]; /* what was certainly done when the op ran */
static unsigned n_ops, n_streams, n_events, fail_at, refs_put, hosts;
static unsigned op_value[OPS_MAX];

static struct dev_ctx *const ctx = (struct dev_ctx *)&n_ops;

static CUresult take_op(struct dev_stream *st, unsigned value)
{
	if (fail_at && n_ops + 1 == fail_at)
		return CUDA_ERROR_LAUNCH_FAILED;
	op_before[n_ops] = st->before;
	op_value[n_ops] = value;
	st->before |= 1ull << n_ops++;
	return CUDA_SUCCESS;
}

static CUresult do_launch(struct dev_ctx *c, struct dev_stream *st,
			  const struct dev_launch *l)
{
	cr_assert_eq(l->params_size, 4);
	return take_op(st, *(const unsigned *)l->params);
}

static CUresult do_fill(struct dev_ctx *c, struct dev_stream *st, CUdeviceptr dst,
			size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
			size_t height)
{
	return take_op(st, value);
}

static CUresult do_copy(struct dev_ctx *c, struct dev_stream *st,
			const struct dev_copy_2d *copy)
{
	return take_op(st, (unsigned)copy->dst);
}

static CUresult new_stream(struct dev_ctx *c, unsigned flags, int priority,
			   struct dev_stream **ret)
{
	cr_expect(flags & DEV_STREAM_NON_BLOCKING);
	*ret = calloc(1, sizeof(**ret));
	n_streams++;
	return CUDA_SUCCESS;
}

static void end_stream(struct dev_stream *st)
{
	n_streams--;
	free(st);
}

static CUresult new_event(struct dev_ctx *c, unsigned flags, struct dev_event **ret)
{
	*ret = calloc(1, sizeof(**ret));
	n_events++;
	return CUDA_SUCCESS;
}

static void end_event(struct dev_event *ev)
{
	n_events--;
	free(ev);
}

static CUresult record(struct dev_ctx *c, struct dev_event *ev, struct dev_stream *st)
{
	ev->before = st->before;
	return CUDA_SUCCESS;
}

static CUresult wait_event(struct dev_ctx *c, struct dev_stream *st, struct dev_event *ev)
{
	st->before |= ev->before;
	return CUDA_SUCCESS;
}

static const struct device_ops ops = {
	.copy =
		{
			.fill = do_fill,
			.rows = do_copy,
		},
	.stream =
		{
			.create = new_stream,
			.destroy = end_stream,
			.wait_event = wait_event,
		},
	.event =
		{
			.create = new_event,
			.destroy = end_event,
			.record = record,
		},
	.func =
		{
			.launch = do_launch,
		},
};

static void put(void *arg, void *ref)
{
	refs_put += ref != NULL;
}

static CUresult host(void *arg, struct dev_ctx *c, struct dev_stream *st, uint64_t id)
{
	hosts++;
	return take_op(st, (unsigned)id);
}

static const struct exec_owner owner = {.put = put, .host = host};

static struct exec *make(unsigned n)
{
	struct exec *x = NULL;

	n_ops = fail_at = refs_put = hosts = 0;
	cr_assert_eq(exec_new(&ops, ctx, &owner, &(const struct exec_shape){.n = n}, &x),
		     CUDA_SUCCESS);
	return x;
}

static CUresult depend(struct exec *x, unsigned node, const uint32_t *deps, unsigned n)
{
	struct dev_edge edges[8] = {0};

	cr_assert_leq(n, ARRAY_SIZE(edges));
	for (unsigned i = 0; i < n; i++)
		edges[i].from = deps[i];
	return exec_depend(x, node, edges, n);
}

/* Node i is a kernel whose parameter is i. */
static void kernel(struct exec *x, unsigned i, unsigned value)
{
	const struct dev_node op = {
		.kind = DEV_NODE_KERNEL,
		.ref = &n_ops,
		.kernel = {.params = &value, .params_size = sizeof(value)},
	};

	cr_assert_eq(exec_set(x, i, &op), CUDA_SUCCESS);
}

/* The operations that nodes became, by the value each carries. */
static unsigned op_of(unsigned value)
{
	unsigned i;

	for (i = n_ops; i-- > 0 && op_value[i] != value;)
		;
	cr_assert_lt(i, n_ops);
	return i;
}

static bool ordered(unsigned first, unsigned second)
{
	return op_before[op_of(second)] >> op_of(first) & 1;
}

Test(graph_exec, chain_needs_nothing)
{
	struct exec *x = make(5);
	struct dev_stream st = {0};
	unsigned i;

	for (i = 0; i < 5; i++) {
		kernel(x, i, i);
		if (i)
			cr_assert_eq(depend(x, i, &(uint32_t){i - 1}, 1), 0);
	}
	cr_assert_eq(exec_launch(x, &st), CUDA_ERROR_INVALID_VALUE, "not ready");
	cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
	cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_eq(n_ops, 5);
	cr_expect_eq(n_streams, 0, "it runs in the stream of the launch");
	cr_expect_eq(n_events, 1, "only its end is marked");
	cr_expect_eq(st.before, 31);
	cr_expect_eq(exec_kernels(x), 5);
	exec_free(x);
	cr_expect_eq(n_events, 0);
	cr_expect_eq(refs_put, 5);
}

/* Random graphs: every dependency is kept, and the stream waits for all. */
Test(graph_exec, order_is_kept)
{
	unsigned seed;

	for (seed = 1; seed < 300; seed++) {
		uint32_t deps[20][20], n_deps[20] = {0}, i, k;
		struct dev_stream st = {0}, other = {0};
		struct exec *x = make(20);

		srand(seed);
		for (i = 0; i < 20; i++) {
			kernel(x, i, i);
			for (k = 0; k < i; k++) {
				if (rand() % (1 + seed % 9) == 0 && n_deps[i] < 4)
					deps[i][n_deps[i]++] = k;
			}
			cr_assert_eq(depend(x, i, deps[i], n_deps[i]), 0);
		}
		cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
		cr_assert_lt(n_streams, EXEC_LANES_MAX);
		st.before = 1ull << 63; /* what the stream did before */
		cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
		for (i = 0; i < 20; i++) {
			cr_expect(op_before[op_of(i)] >> 63, "before the launch");
			for (k = 0; k < n_deps[i]; k++)
				cr_expect(ordered(deps[i][k], i), "seed %u: %u, %u", seed,
					  deps[i][k], i);
		}
		cr_expect_eq(st.before, (1ull << 63) + (1ull << 20) - 1);
		/* a launch elsewhere comes after this one */
		cr_assert_eq(exec_launch(x, &other), CUDA_SUCCESS);
		cr_expect_eq(op_before[20] & 0xfffff, 0xfffff);
		exec_free(x);
		cr_expect_eq(n_streams + n_events, 0);
	}
}

Test(graph_exec, branches_do_not_wait_for_each_other)
{
	struct exec *x = make(3);
	struct dev_stream st = {0};

	kernel(x, 0, 0);
	kernel(x, 1, 1);
	kernel(x, 2, 2);
	depend(x, 2, (uint32_t[]){0}, 1);
	cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
	cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_not(ordered(0, 1));
	cr_expect_not(ordered(1, 2));
	cr_expect(ordered(0, 2));
	exec_free(x);
}

Test(graph_exec, a_changed_node_keeps_its_kind_and_its_edges)
{
	struct exec *x = make(3);
	const struct dev_node fill = {.kind = DEV_NODE_FILL, .fill.value = 77};
	const struct dev_node many = {.kind = DEV_NODE_COPY,
				      .copy = {.depth = 3, .dst_slice = 10}};
	const struct dev_node call = {.kind = DEV_NODE_HOST, .host_id = 5};
	struct dev_stream st = {0};

	kernel(x, 0, 0);
	exec_set(x, 1, &many);
	exec_set(x, 2, &call);
	cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE);
	kernel(x, 0, 40);
	cr_expect_eq(refs_put, 1, "what it was before");
	cr_expect_eq(exec_set(x, 0, &fill), CUDA_ERROR_INVALID_VALUE, "another kind");
	cr_expect_eq(exec_set(x, 3, &fill), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(depend(x, 1, (uint32_t[]){0}, 1), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_eq(n_ops, 5);
	cr_expect_eq(op_value[op_of(20)], 20, "the third slice");
	cr_expect_eq(op_value[0], 40);
	exec_enable(x, 0, false);
	exec_enable(x, 2, false);
	cr_expect_eq(exec_kernels(x), 0);
	cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_eq(n_ops, 8);
	cr_expect_eq(hosts, 1);
	exec_free(x);
}

Test(graph_exec, a_wrong_graph_is_refused_at_the_end)
{
	const struct dev_node deep = {.kind = DEV_NODE_COPY,
				      .copy.depth = DEV_NODE_DEPTH_MAX + 1};
	const struct dev_node empty = {.kind = DEV_NODE_EMPTY};
	struct exec *x;

	cr_expect_eq(exec_new(&ops, ctx, &owner,
			      &(const struct exec_shape){.n = EXEC_NODES_MAX + 1}, &x),
		     CUDA_ERROR_INVALID_VALUE);
	x = make(2); /* what is wrong shows at the end */
	exec_set(x, 0, &empty);
	cr_expect_eq(depend(x, 0, (uint32_t[]){1}, 1), CUDA_SUCCESS);
	exec_set(x, 1, &empty);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE);
	exec_free(x);
	x = make(2);
	exec_set(x, 0, &empty);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE, "a node is missing");
	exec_free(x);
	x = make(1);
	exec_set(x, 0, &deep);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE);
	exec_free(x);
	x = make(1);
	exec_set(x, 0, &empty);
	exec_fail(x, CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_HANDLE);
	exec_free(x);
	exec_free(NULL);
}

/* A launch that fails in the middle: the stream still waits for what was submitted. */
Test(graph_exec, failing_launch)
{
	struct exec *x = make(6);
	struct dev_stream st = {0};
	unsigned i;

	for (i = 0; i < 6; i++)
		kernel(x, i, i);
	cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
	fail_at = 4;
	cr_expect_eq(exec_launch(x, &st), CUDA_ERROR_LAUNCH_FAILED);
	cr_expect_eq(st.before, 7);
	fail_at = 0;
	cr_expect_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_eq(n_ops, 9);
	exec_free(x);
}

/* Memory that graphs take is bounded and given back. */
Test(graph_exec, memory_is_bounded)
{
	struct exec *x[64];
	unsigned n, i;

	for (n = 0; n < ARRAY_SIZE(x); n++) {
		if (exec_new(&ops, ctx, &owner,
			     &(const struct exec_shape){.n = EXEC_NODES_MAX}, &x[n]))
			break;
	}
	cr_expect_gt(n, 8);
	cr_assert_lt(n, ARRAY_SIZE(x));
	cr_expect_eq(exec_new(&ops, ctx, &owner,
			      &(const struct exec_shape){.n = EXEC_NODES_MAX}, &x[n]),
		     CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; i < n; i++)
		exec_free(x[i]);
	cr_assert_eq(exec_new(&ops, ctx, &owner,
			      &(const struct exec_shape){.n = EXEC_NODES_MAX}, &x[0]),
		     CUDA_SUCCESS);
	exec_free(x[0]);
}

/* ---- a device with graphs of its own ---- */

struct dev_graph {
	uint32_t n, n_bodies;
	uint32_t kernel_values[8];
};

static unsigned graphs_made, graphs_ended, graphs_set, graphs_launched;
static CUresult set_result;
static struct dev_graph *last_graph;

static CUresult graph_create(struct dev_ctx *c, const struct dev_graph_desc *d,
			     struct dev_graph **ret)
{
	struct dev_graph *g = calloc(1, sizeof(*g));

	g->n = d->n;
	g->n_bodies = d->n_bodies;
	for (uint32_t i = 0; i < d->n && i < ARRAY_SIZE(g->kernel_values); i++) {
		if (d->nodes[i].kind == DEV_NODE_KERNEL)
			g->kernel_values[i] =
				*(const unsigned *)d->nodes[i].kernel.params;
		for (uint32_t k = 0; k < d->n_edges[i]; k++)
			cr_assert_lt(d->edges[i][k].from, i);
	}
	graphs_made++;
	*ret = last_graph = g;
	return CUDA_SUCCESS;
}

static void graph_destroy(struct dev_graph *g)
{
	graphs_ended++;
	free(g);
}

static CUresult graph_set(struct dev_graph *g, uint32_t node, const struct dev_node *to)
{
	graphs_set++;
	if (set_result == CUDA_SUCCESS)
		g->kernel_values[node] = *(const unsigned *)to->kernel.params;
	return set_result;
}

static CUresult graph_enable(struct dev_graph *g, uint32_t node, bool enabled)
{
	return CUDA_SUCCESS;
}

static CUresult graph_launch(struct dev_graph *g, struct dev_stream *st)
{
	cr_assert_eq(g, last_graph);
	graphs_launched++;
	return CUDA_SUCCESS;
}

static const struct device_graph_ops graph_table = {
	.create = graph_create,
	.destroy = graph_destroy,
	.set = graph_set,
	.enable = graph_enable,
	.launch = graph_launch,
	.upload = graph_launch,
};

static const struct device_ops graph_ops = {
	.graph = &graph_table,
};

static struct exec *make_on_graphs(const struct exec_shape *shape)
{
	struct exec *x = NULL;

	graphs_made = graphs_ended = graphs_set = graphs_launched = refs_put = 0;
	set_result = CUDA_SUCCESS;
	cr_assert_eq(exec_new(&graph_ops, ctx, &owner, shape, &x), CUDA_SUCCESS);
	return x;
}

Test(graph_exec, device_graphs)
{
	struct exec *x = make_on_graphs(&(const struct exec_shape){.n = 3});
	const struct dev_launch_attr attr = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
	unsigned value = 9;
	struct dev_node op = {
		.kind = DEV_NODE_KERNEL,
		.kernel = {.params = &value, .params_size = sizeof(value)},
	};
	struct dev_stream st = {0};

	for (unsigned i = 0; i < 3; i++)
		kernel(x, i, i);
	depend(x, 2, (uint32_t[]){0, 1}, 2);
	cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
	cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_eq(graphs_launched, 1);
	kernel(x, 1, 1);
	cr_expect_eq(graphs_set, 0, "nothing changes");
	kernel(x, 1, 5);
	cr_expect_eq(graphs_set, 1);
	cr_expect_eq(last_graph->kernel_values[1], 5);
	cr_expect_eq(graphs_made, 1);

	/* what the device cannot change is made anew, with all changes so far */
	set_result = CUDA_ERROR_INVALID_VALUE;
	kernel(x, 0, 7);
	kernel(x, 2, 8);
	cr_expect_eq(graphs_set, 2, "no use in trying on");
	cr_assert_eq(exec_launch(x, &st), CUDA_SUCCESS);
	cr_expect_eq(graphs_made, 2);
	cr_expect_eq(graphs_ended, 1);
	cr_expect_eq(last_graph->kernel_values[0], 7);
	cr_expect_eq(last_graph->kernel_values[1], 5);
	cr_expect_eq(last_graph->kernel_values[2], 8);

	/* attributes belong to the node, not to its parameters */
	set_result = CUDA_SUCCESS;
	op.kernel.attrs = &attr;
	op.kernel.n_attrs = 1;
	cr_assert_eq(exec_set(x, 0, &op), CUDA_SUCCESS);
	cr_expect_eq(graphs_set, 2);
	cr_assert_eq(exec_upload(x, &st), CUDA_SUCCESS);
	cr_expect_eq(graphs_made, 3);
	cr_expect_eq(last_graph->kernel_values[0], 9);
	exec_free(x);
	cr_expect_eq(graphs_ended, 3);
}

static void conditional(struct exec *x, unsigned i, uint32_t first, uint32_t n)
{
	const struct dev_node op = {.kind = DEV_NODE_CONDITIONAL,
				    .cond = {.n_bodies = n, .first_body = first}};

	exec_set(x, i, &op);
}

/* Nodes in bodies: after their conditional node, and tied to nothing outside. */
Test(graph_exec, nodes_in_bodies_have_no_edges_to_the_outside)
{
	const struct exec_shape shape = {.n = 3, .n_bodies = 2};
	struct dev_node inner = {.kind = DEV_NODE_EMPTY, .graph = 2};
	struct exec *x = make_on_graphs(&shape);

	conditional(x, 0, 1, 2);
	exec_set(x, 1, &inner);
	exec_set(x, 2, &inner);
	depend(x, 2, (uint32_t[]){1}, 1);
	cr_assert_eq(exec_ready(x), CUDA_SUCCESS);
	cr_expect_eq(last_graph->n_bodies, 2);
	exec_free(x);

	x = make_on_graphs(&shape);
	conditional(x, 0, 1, 2);
	exec_set(x, 1, &inner);
	exec_set(x, 2, &inner);
	depend(x, 1, (uint32_t[]){0}, 1);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE, "an edge into a body");
	exec_free(x);

	x = make_on_graphs(&shape);
	exec_set(x, 0, &inner);
	conditional(x, 1, 1, 2);
	exec_set(x, 2, &inner);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE, "before its node");
	exec_free(x);

	x = make_on_graphs(&shape);
	conditional(x, 0, 1, 1);
	conditional(x, 1, 1, 2);
	exec_set(x, 2, &inner);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE, "a body of two nodes");
	exec_free(x);

	x = make_on_graphs(&shape);
	conditional(x, 0, 2, 2);
	conditional(x, 1, 0, 1);
	exec_set(x, 2, &inner);
	cr_expect_eq(exec_ready(x), CUDA_ERROR_INVALID_VALUE, "bodies that are not");
	exec_free(x);
	cr_expect_eq(graphs_made, graphs_ended);
}
