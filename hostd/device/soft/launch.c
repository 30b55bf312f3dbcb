/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: everything that a driver would refuse is refused here, before the kernel
 * enters its stream. What is left can only fail while it runs.
 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "device/soft/soft.h"
#include "device/soft/module.h"

#define GRID_MAX_X           0x7fffffffu
#define GRID_MAX_YZ          65535u
#define BLOCK_MAX_Z          64u

#define GRID_WORKSPACE_BYTES 32 /* as simt.h asks */

static int call_print(void *user, const void *rec, size_t bytes)
{
	return soft_output_print(&((struct dev_ctx *)user)->output, rec, bytes);
}

static void call_assert_fail(void *user, const char *text)
{
	soft_output_text(&((struct dev_ctx *)user)->output, text);
}

static uint64_t call_heap_alloc(void *user, uint64_t bytes)
{
	return soft_heap_alloc(&((struct dev_ctx *)user)->heap, bytes);
}

static int call_heap_free(void *user, uint64_t addr)
{
	return soft_heap_free(&((struct dev_ctx *)user)->heap, addr);
}

static const struct simt_calls soft_calls = {
	.print = call_print,
	.assert_fail = call_assert_fail,
	.heap_alloc = call_heap_alloc,
	.heap_free = call_heap_free,
};

static CUresult check_dims(const struct dev_launch *l, const struct simt_func_attr *a)
{
	const unsigned *g = l->grid, *b = l->block;

	if (!g[0] || g[0] > GRID_MAX_X || !g[1] || g[1] > GRID_MAX_YZ || !g[2] ||
	    g[2] > GRID_MAX_YZ)
		return CUDA_ERROR_INVALID_VALUE;
	if (!b[0] || b[0] > SOFT_MAX_BLOCK_THREADS || !b[1] ||
	    b[1] > SOFT_MAX_BLOCK_THREADS || !b[2] || b[2] > BLOCK_MAX_Z ||
	    (uint64_t)b[0] * b[1] * b[2] > SOFT_MAX_BLOCK_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	return b[0] * b[1] * b[2] > a->max_threads ? CUDA_ERROR_INVALID_VALUE
						   : CUDA_SUCCESS;
}

/* Fills in the cluster shape of the launch, if it has one. */
static CUresult pick_cluster(const struct dev_launch *l, const struct simt_func_attr *a,
			     uint32_t ret_cluster[3])
{
	const struct dev_func *f = l->func;
	uint64_t size = 1;
	bool any = false;

	for (int d = 0; d < 3; d++) {
		uint32_t c = l->cluster[d];

		if (a->cluster[d]) {
			if (c && c != a->cluster[d])
				return CUDA_ERROR_INVALID_CLUSTER_SIZE;
			c = a->cluster[d];
		} else if (!c) {
			c = (uint32_t)f->cluster[d];
		}
		any |= c != 0;
		ret_cluster[d] = c;
	}
	if (!any)
		return a->explicit_cluster ? CUDA_ERROR_INVALID_CLUSTER_SIZE
					   : CUDA_SUCCESS;
	for (int d = 0; d < 3; d++) {
		ret_cluster[d] = MAX(ret_cluster[d], 1u);
		if (ret_cluster[d] > SIMT_MAX_CLUSTER || l->grid[d] % ret_cluster[d])
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		size *= ret_cluster[d];
	}
	if (size > (f->non_portable_cluster ? SIMT_MAX_CLUSTER : SOFT_PORTABLE_CLUSTER))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

static void kernel_free(struct soft_op *op)
{
	struct soft_kernel *k = container_of(op, struct soft_kernel, op);

	if (k->launch.grid_workspace)
		soft_heap_free(&k->ctx->heap, k->launch.grid_workspace);
	free(k);
}

static struct soft_kernel *kernel_new(const struct dev_launch *l,
				      const struct simt_func_attr *a)
{
	struct soft_kernel *k = calloc(1, sizeof(*k) + a->param_bytes);

	if (!k)
		return NULL;
	k->op.kind = SOFT_OP_KERNEL;
	k->op.free = kernel_free;
	list_init(&k->turns);
	if (a->param_bytes)
		memcpy(k->params, l->params, a->param_bytes);
	return k;
}

/* Describes the grid to the executor. */
static CUresult kernel_prepare(struct dev_ctx *ctx, const struct dev_stream *st,
			       struct soft_kernel *k, const struct dev_launch *l,
			       const uint32_t cluster[3])
{
	struct simt_launch *s = &k->launch;
	int r;

	k->ctx = ctx;
	*s = (struct simt_launch){
		.func = l->func->f,
		.mem = &ctx->dev->mem.view,
		.calls = &soft_calls,
		.user = ctx,
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.block = {l->block[0], l->block[1], l->block[2]},
		.cluster = {cluster[0], cluster[1], cluster[2]},
		.dyn_shared_bytes = l->shared_bytes,
		.params = k->params,
		.stack_bytes = (uint32_t)ctx->stack_bytes,
		.num_sms = ctx->dev->exec.n_sms,
		.stop = &k->stop,
	};
	r = simt_launch_prepare(s);
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	k->total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] / s->cluster_size;
	k->need = soft_func_need(l->func, l->block[0] * l->block[1] * l->block[2],
				 l->shared_bytes);
	k->tpcs = soft_stream_tpcs(ctx, st);
	/* As on a GPU, where they would wait for ever. */
	return k->tpcs.n && s->cluster_size > k->tpcs.n_in_gpc * SOFT_SMS_PER_TPC
		       ? CUDA_ERROR_INVALID_CLUSTER_SIZE
		       : CUDA_SUCCESS;
}

static CUresult check_cooperative(const struct dev_ctx *ctx, const struct soft_kernel *k)
{
	uint64_t room = (uint64_t)soft_exec_blocks_per_sm(&k->need) *
			soft_exec_sms(&ctx->dev->exec, &k->tpcs);

	return k->total * k->launch.cluster_size <= room
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

/* Allocates the counters of cooperative_groups::grid_group::sync(). */
static CUresult give_workspace(struct dev_ctx *ctx, struct soft_kernel *k)
{
	uint64_t addr = soft_heap_alloc(&ctx->heap, GRID_WORKSPACE_BYTES);

	if (!addr)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memset((void *)(uintptr_t)addr, 0, GRID_WORKSPACE_BYTES);
	k->launch.grid_workspace = addr;
	return CUDA_SUCCESS;
}

static CUresult check_launch(const struct dev_launch *l, const struct simt_func_attr *a,
			     uint32_t ret_cluster[3])
{
	CUresult res = check_dims(l, a);

	if (res)
		return res;
	if (l->shared_bytes > soft_func_max_dynamic(l->func))
		return CUDA_ERROR_INVALID_VALUE;
	if (l->params_size != a->param_bytes) /* this code for this, as the driver does */
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	return pick_cluster(l, a, ret_cluster);
}

CUresult soft_func_clusters(struct dev_func *f, const struct dev_launch *l, bool largest,
			    int *ret_n)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
	uint32_t cluster[3];
	int blocks;
	CUresult res;

	if (largest) {
		*ret_n = f->non_portable_cluster ? SIMT_MAX_CLUSTER
						 : SOFT_PORTABLE_CLUSTER;
		return CUDA_SUCCESS;
	}
	res = pick_cluster(l, simt_func_attr(f->f), cluster);
	if (res)
		return res;
	if (!cluster[0] || !threads || threads > SOFT_MAX_BLOCK_THREADS) {
		*ret_n = 0; /* as the driver has it */
		return CUDA_SUCCESS;
	}
	res = soft_func_occupancy(f, (int)threads, l->shared_bytes, 0, &blocks);
	if (!res)
		*ret_n = blocks * (int)soft_sms(f->mod->ctx->dev) /
			 (int)(cluster[0] * cluster[1] * cluster[2]);
	return res;
}

/* Attributes that mean something here; the others are hints for hardware. */
static void apply_attrs(struct soft_kernel *k, const struct dev_launch *l)
{
	for (unsigned i = 0; i < l->n_attrs; i++) {
		if (l->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
			k->priority = soft_priority(l->attrs[i].value.priority);
	}
}

/* As late as the contract allows: when the kernel has ended. */
static CUresult record_events(struct dev_ctx *ctx, struct dev_stream *st,
			      const struct dev_launch *l)
{
	CUresult res = CUDA_SUCCESS;

	for (unsigned i = 0; i < l->n_attrs && !res; i++) {
		if (l->attrs[i].event)
			res = soft_event_record(ctx, l->attrs[i].event, st);
	}
	return res;
}

CUresult soft_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l)
{
	const struct simt_func_attr *a = simt_func_attr(l->func->f);
	CUresult res = soft_ctx_status(ctx);
	struct soft_kernel *k;
	uint32_t cluster[3];

	if (!res && l->func->mod->ctx != ctx)
		res = CUDA_ERROR_INVALID_HANDLE;
	if (!res)
		res = check_launch(l, a, cluster);
	if (res)
		return res;
	k = kernel_new(l, a);
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = kernel_prepare(ctx, st, k, l, cluster);
	if (l->func->mod->uses_heap || l->cooperative) /* the workspace lies there */
		soft_heap_open(&ctx->heap);
	k->cooperative = l->cooperative;
	k->traced = l->traced;
	k->track = l->track;
	if (!res && l->cooperative)
		res = check_cooperative(ctx, k);
	if (!res && l->cooperative)
		res = give_workspace(ctx, k);
	if (!res) {
		scoped_lock(&ctx->dev->lock);
		st = soft_stream_of(ctx, st);
		k->priority = st->priority;
		apply_attrs(k, l);
		k->launch.grid_id = ++ctx->dev->last_grid;
		res = soft_op_submit_locked(st, &k->op);
	}
	if (res) {
		kernel_free(&k->op);
		return res;
	}
	return record_events(ctx, st, l);
}
