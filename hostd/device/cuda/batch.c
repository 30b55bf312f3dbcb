/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: launches in a batch
 *
 * The driver takes 3 to 4 us for a launch. A graph of 16 kernels it launches in 2 to 3
 * us, and changes the parameters of each in 0.15 to 0.3, or, where that is another
 * function than before, in 0.7, which makes the launch 0.9 longer (H200, driver 580;
 * hostd/doc/decisions/0003-launches-in-batches.md). So a batch becomes chains of kernel
 * nodes with these parameters.
 *
 * A graph is used again when its last launch is done: an event behind it tells. If it is
 * not, and does not come to rest soon, the GPU is behind, and launches go one by one: no
 * more than CUDA_BATCHES of each size are ever under way, so whoever waits for the GPU to
 * be quiet waits little longer than without.
 *
 * Kernels in a graph have the attributes of their nodes, not those of the stream.
 */
#include "base/clock.h"
#include "device/cuda/freeze/freeze.h"
#include "device/cuda/graph.h"
#include "device/cuda/launch.h"
#include "device/cuda/mask.h"
#include "device/cuda/module.h"
#include "device/cuda/output.h"

/* More than these bytes are parameters of a newer kind, which was not tried here. */
#define PARAMS_MAX 4096
/* A few launches in a row are not worth a graph, which takes 50 to 150 us to make. */
#define BATCHES_FIRST 64
/* Launching 16 kernels one by one takes 50 us; where kernels take hardly longer than in a
 * graph launching does, the next graph is at rest sooner. */
#define PATIENCE_NS (20 * NSEC_PER_USEC)
/* Batches for which a thread does not wait again after it waited in vain. */
#define HASTY 16

struct batch_graph {
	CUgraph cu;
	CUgraphExec exec;
	CUevent end; /* behind the last launch */
	CUgraphNode nodes[DEV_BATCH_MAX];
	struct dev_func *funcs[DEV_BATCH_MAX]; /* only to compare */
};

static const unsigned sizes[CUDA_BATCH_SIZES] = {DEV_BATCH_MAX, 4, 2};

static void graph_free(struct batch_graph *g)
{
	if (!g)
		return;
	if (g->end)
		cu.cuEventDestroy(g->end);
	if (g->exec)
		cu.cuGraphExecDestroy(g->exec);
	if (g->cu)
		cu.cuGraphDestroy(g->cu);
	free(g);
}

static CUresult graph_fill(struct batch_graph *g, const struct dev_launch *l, unsigned n)
{
	CUresult res = cu.cuGraphCreate(&g->cu, 0);
	struct cuda_node_room room;
	CUgraphNodeParams p;

	for (unsigned i = 0; i < n && !res; i++) {
		cuda_kernel_node_params(&l[i], &room, &p);
		res = cu.cuGraphAddNode(&g->nodes[i], g->cu, i ? &g->nodes[i - 1] : NULL,
					NULL, i ? 1 : 0, &p);
		g->funcs[i] = l[i].func;
	}
	if (!res)
		res = cu.cuGraphInstantiateWithFlags(&g->exec, g->cu, 0);
	if (!res)
		res = cu.cuEventCreate(&g->end, CU_EVENT_DISABLE_TIMING);
	return res;
}

static struct batch_graph *graph_new(const struct dev_launch *l, unsigned n)
{
	struct batch_graph *g = calloc(1, sizeof(*g));

	if (g && graph_fill(g, l, n)) {
		graph_free(g);
		return NULL;
	}
	return g;
}

/* Makes a graph of the launches and keeps it. On failure, of memory say, the count of
 * batches begins anew, so that it is tried again soon. */
static struct batch_graph *graph_add_locked(struct dev_ctx *ctx, struct cuda_batches *b,
					    const struct dev_launch *l, unsigned n)
{
	struct batch_graph *g = graph_new(l, n);

	if (g)
		b->graphs[b->n++] = g;
	else
		ctx->batches_seen = 0;
	return g;
}

static bool same_functions(const struct batch_graph *g, const struct dev_launch *l,
			   unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (g->funcs[i] != l[i].func)
			return false;
	}
	return true;
}

static bool is_idle(const struct batch_graph *g)
{
	return cu.cuEventQuery(g->end) == CUDA_SUCCESS;
}

/* One that has these functions already, or the next in turn; the other then has its turn
 * later. */
static struct batch_graph *next_locked(struct cuda_batches *b, const struct dev_launch *l,
				       unsigned n)
{
	struct batch_graph **turn = &b->graphs[b->next++ % b->n], *g = *turn;

	for (unsigned i = 0; i < b->n && !same_functions(*turn, l, n); i++) {
		struct batch_graph **other = &b->graphs[(b->next + i) % b->n];

		if (same_functions(*other, l, n)) {
			*turn = *other;
			*other = g;
		}
	}
	return *turn;
}

static bool becomes_idle_locked(struct dev_ctx *ctx, const struct batch_graph *g)
{
	uint64_t until;

	if (ctx->batches_hasty) {
		ctx->batches_hasty--;
		return false;
	}
	until = clock_now_ns() + PATIENCE_NS;
	while (clock_now_ns() < until) {
		if (is_idle(g))
			return true;
	}
	ctx->batches_hasty = HASTY;
	return false;
}

/* NULL: all are under way. */
static struct batch_graph *pick_locked(struct dev_ctx *ctx, struct cuda_batches *b,
				       const struct dev_launch *l, unsigned n)
{
	struct batch_graph *g = b->n ? next_locked(b, l, n) : NULL;

	if (g && is_idle(g))
		return g;
	if (b->n == CUDA_BATCHES)
		return becomes_idle_locked(ctx, g) ? g : NULL;
	return graph_add_locked(ctx, b, l, n);
}

/* dev_func.batch */
enum {
	UNKNOWN,
	JOINS,
	ALONE
};

/* A node keeps the cluster of the function that it was made with: then a kernel of
 * another function is launched with it, wrongly and silently (driver 580). */
static char ask_function(const struct dev_func *f)
{
	int width = 0, open = 0;

	if (cu.cuFuncGetAttribute(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
				  f->cu) ||
	    cu.cuFuncGetAttribute(&open, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
				  f->cu))
		return ALONE;
	return width || open ? ALONE : JOINS;
}

static bool function_joins(struct dev_func *f)
{
	char batch = atomic_load_explicit(&f->batch, memory_order_relaxed);

	if (unlikely(batch == UNKNOWN)) {
		batch = ask_function(f);
		atomic_store(&f->batch, batch);
	}
	return batch == JOINS;
}

static bool may_join(const struct dev_ctx *ctx, const struct dev_launch *l, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct dev_func *f = l[i].func;

		if (f->mod->ctx != ctx || f->params_size != l[i].params_size ||
		    f->params_size > PARAMS_MAX ||
		    atomic_load_explicit(&f->mod->has_refs, memory_order_relaxed) ||
		    !function_joins(f))
			return false;
	}
	return true;
}

static bool graph_set(struct batch_graph *g, const struct dev_launch *l, unsigned n)
{
	struct cuda_node_room room;

	for (unsigned i = 0; i < n; i++) {
		CUDA_KERNEL_NODE_PARAMS k = cuda_kernel_node(&l[i], &room);

		/* Parameters that the driver refuses are an error that it reports when
		 * the kernel is launched alone. */
		if (cu.cuGraphExecKernelNodeSetParams(g->exec, g->nodes[i], &k)) {
			atomic_store(&l[i].func->batch, ALONE);
			return false;
		}
		g->funcs[i] = l[i].func;
	}
	return true;
}

/* False: nothing was launched. */
static bool launch_locked(struct dev_ctx *ctx, CUstream stream, struct cuda_batches *b,
			  const struct dev_launch *l, unsigned n)
{
	struct batch_graph *g = pick_locked(ctx, b, l, n);

	if (!g || !graph_set(g, l, n) || cu.cuGraphLaunch(g->exec, stream))
		return false;
	cuda_note(ctx, cu.cuEventRecord(g->end, stream));
	return true;
}

/* Returns how many were launched, from the first one on. */
static unsigned launch_some_locked(struct dev_ctx *ctx, CUstream stream,
				   const struct dev_launch *l, unsigned n)
{
	unsigned done = 0;

	for (unsigned class = 0; class < CUDA_BATCH_SIZES; class ++) {
		unsigned size = sizes[class];

		while (n - done >= size && may_join(ctx, &l[done], size)) {
			if (!launch_locked(ctx, stream, &ctx->batches[class], &l[done],
					   size))
				return done;
			done += size;
		}
	}
	return done;
}

static void drop_locked(struct dev_ctx *ctx)
{
	ctx->batches_turn = cuda_mask_turn();
	for (unsigned class = 0; class < CUDA_BATCH_SIZES; class ++) {
		struct cuda_batches *b = &ctx->batches[class];

		while (b->n)
			graph_free(b->graphs[--b->n]);
	}
}

unsigned cuda_launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			   const struct dev_launch *l, unsigned n)
{
	const _Atomic bool *alone = st ? &st->alone : &ctx->legacy_alone;
	unsigned done = 0;

	if (cuda_enter(ctx) || atomic_load_explicit(alone, memory_order_relaxed))
		return 0;
	/* Another thread's batch: each to its own stream then. */
	if (pthread_mutex_trylock(&ctx->batch_lock))
		return 0;
	/* Their descriptors are those of other TPCs. */
	if (ctx->batches_turn != cuda_mask_turn())
		drop_locked(ctx);
	cuda_is_kernel(ctx, st);
	if (ctx->batches_seen == BATCHES_FIRST)
		done = launch_some_locked(ctx, cuda_stream_of(st), l, n);
	else
		ctx->batches_seen++;
	pthread_mutex_unlock(&ctx->batch_lock);
	return done;
}

void cuda_batches_drop(struct dev_ctx *ctx)
{
	scoped_lock(&ctx->batch_lock);
	drop_locked(ctx);
}
