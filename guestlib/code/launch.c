/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: launching
 *
 * One posted message: what CUDA refuses at the call is checked against what the guest
 * knows of function and device, the parameters are copied by the function's layout into
 * the ring, and the call returns. Nothing is locked, allocated or asked of the kernel.
 *
 * The device alone knows if a function was compiled for blocks of one shape (.reqntid),
 * or if its clusters fit. So the first launch with such blocks waits for the device's
 * verdict. A function that has had two shapes of blocks takes any, so at most two
 * launches wait; of clusters the last shape is known, and cooperative ones always wait.
 */
#include <string.h>

#include "calls.h"
#include "core/capturing.h"
#include "core/idle.h"
#include "code/launch.h"
#include "code/module.h"
#include "core/process.h"
#include "object/managed.h"

static int device_attribute(CUdevice_attribute attr)
{
	return guest_process.device.attributes[attr];
}

static CUresult check_dims(const struct launch *l)
{
	const unsigned *g = l->grid, *b = l->block;
	uint64_t threads = (uint64_t)b[0] * b[1] * b[2];

	if (!g[0] || !g[1] || !g[2] || !threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (g[0] > (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
	    g[1] > (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
	    g[2] > (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) ||
	    b[0] > (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
	    b[1] > (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
	    b[2] > (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) ||
	    threads >
		    (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Too many threads: by registers, or by what the function was compiled for? */
static CUresult too_many_threads(struct guest_func *f, unsigned threads)
{
	int regs = func_attribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS);
	int room = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);

	return regs > 0 && (uint64_t)regs * threads > (unsigned)room
		       ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_cluster(const struct launch *l, struct guest_func *f)
{
	uint64_t blocks = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
	bool more =
		func_attribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
	unsigned i;

	/* Compiled for another one? */
	for (i = 0; i < 3; i++) {
		int must =
			func_attribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i);

		if (must > 0 && l->cluster[i] != (unsigned)must)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	}
	if (blocks > (more ? CLUSTER_MAX : CLUSTER_PORTABLE_MAX) ||
	    l->grid[0] % l->cluster[0] || l->grid[1] % l->cluster[1] ||
	    l->grid[2] % l->cluster[2])
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

/* The grid has to fit the cluster that the function was compiled for. */
static CUresult check_own_cluster(const struct launch *l, struct guest_func *f)
{
	unsigned i;

	for (i = 0; i < 3; i++) {
		int must =
			func_attribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i);

		if (must > 0 && l->grid[i] % (unsigned)must)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	}
	return CUDA_SUCCESS;
}

/* Checks a launch against the function's own limits: registers, __launch_bounds__, shared
 * memory. */
static CUresult check_resources(const struct launch *l, struct guest_func *f)
{
	unsigned threads = l->block[0] * l->block[1] * l->block[2];
	int max = func_attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);

	if (max <= 0) /* the driver does not say (cuFFT's kernels): it has to check */
		return CUDA_SUCCESS;
	if (threads > (unsigned)max)
		return too_many_threads(f, threads);
	max = func_attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
	if (max >= 0 && l->shared_bytes > (unsigned)max)
		return CUDA_ERROR_INVALID_VALUE;
	return l->cluster[0] ? check_cluster(l, f) : check_own_cluster(l, f);
}

/* The `extra` array: a parameter buffer as a whole. */
static CUresult parse_extra(void **extra, const void **ret_buf, size_t *ret_size)
{
	const void *buf = NULL;
	const size_t *size = NULL;

	while (*extra != CU_LAUNCH_PARAM_END) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buf = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
		extra += 2;
	}
	if (!buf && !size)
		return CUDA_SUCCESS; /* for functions without parameters */
	if (!size || !buf)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_buf = buf;
	*ret_size = *size;
	return CUDA_SUCCESS;
}

static void copy_params(uint8_t *dst, const struct guest_func *f, void **params)
{
	uint32_t end = 0;
	unsigned i;

	for (i = 0; i < f->n_params; i++) {
		const struct func_param *p = &f->params[i];

		if (p->offset > end) /* what the layout leaves out must not be dirt */
			memset(dst + end, 0, p->offset - end);
		memcpy(dst + p->offset, params[i], p->size);
		end = p->offset + p->size;
	}
}

static bool params_missing(const struct guest_func *f, void **params)
{
	unsigned i;

	if (f->n_params && !params)
		return true;
	for (i = 0; i < f->n_params; i++) {
		if (!params[i])
			return true;
	}
	return false;
}

/* A buffer that is too short leaves the rest of the parameters undefined: zero. */
static void copy_buffer(uint8_t *dst, const struct guest_func *f, const void *buf,
			size_t size)
{
	memcpy(dst, buf, size);
	memset(dst + size, 0, f->params_size - size);
}

void launch_params(const struct launch *l, const struct launch_plan *plan, void *dst)
{
	if (plan->buf)
		copy_buffer(dst, plan->func, plan->buf, plan->buf_size);
	else
		copy_params(dst, plan->func, l->params);
}

/* ---- what only the device knows ---- */

#define ANY_BLOCK UINT64_MAX

/* Blocks and cluster in one word, never 0: dimensions of up to 1024, 1024, 64, and 16. */
static uint64_t shape_of(const struct launch *l)
{
	return 1 | (uint64_t)l->block[0] << 1 | (uint64_t)l->block[1] << 12 |
	       (uint64_t)l->block[2] << 23 | (uint64_t)l->cluster[0] << 30 |
	       (uint64_t)l->cluster[1] << 35 | (uint64_t)l->cluster[2] << 40;
}

/* Whether the device has taken such a launch before. */
static bool is_taken(struct guest_func *f, const struct launch *l)
{
	uint64_t known;

	if (unlikely(l->cluster[0]))
		return !l->cooperative &&
		       atomic_load_explicit(&f->taken_cluster, memory_order_relaxed) ==
			       shape_of(l);
	known = atomic_load_explicit(&f->taken_block, memory_order_relaxed);
	return known == ANY_BLOCK || known == shape_of(l);
}

static void note_taken(struct guest_func *f, const struct launch *l)
{
	uint64_t before = 0;

	if (l->cluster[0])
		atomic_store_explicit(&f->taken_cluster, shape_of(l),
				      memory_order_relaxed);
	else if (!atomic_compare_exchange_strong(&f->taken_block, &before, shape_of(l)) &&
		 before != shape_of(l))
		atomic_store_explicit(&f->taken_block, ANY_BLOCK, memory_order_relaxed);
}

/* All blocks of a cooperative launch are on the device at once. With clusters the device
 * says itself. */
static CUresult check_cooperative(const struct launch *l, struct guest_func *f)
{
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	unsigned threads = l->block[0] * l->block[1] * l->block[2];
	int sms = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), fit = 0;
	CUresult r;

	if (l->cluster[0])
		return CUDA_SUCCESS;
	r = func_blocks_per_sm(f, (int)threads, l->shared_bytes, 0, &fit);
	if (r)
		return r;
	return blocks > (uint64_t)fit * (unsigned)sms
		       ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
		       : CUDA_SUCCESS;
}

static CUresult ask(struct guest_thread *t, const struct launch *l, struct guest_func *f)
{
	struct lane_reply reply;
	/* A fault of the kernel is for the next call to say. */
	CUresult r = guest_call_even_lost(t, sizeof(struct launch_kernel_rep), &reply);

	idle_count_call();
	if (r == CUDA_SUCCESS)
		note_taken(f, l);
	return r;
}

static CUresult submit(struct guest_thread *t, const struct launch *l,
		       const struct launch_plan *plan, uint64_t stream)
{
	unsigned n = unlikely(l->attrs) ? l->attrs->n : 0, i;
	struct launch_kernel_cmd *cmd =
		begin_launch_kernel(t, n, plan->func->params_size);

	if (unlikely(!cmd))
		return guest_lost(t);
	cmd->func = plan->func->handle;
	cmd->stream = stream;
	memcpy(cmd->grid, l->grid, sizeof(cmd->grid));
	memcpy(cmd->block, l->block, sizeof(cmd->block));
	memcpy(cmd->cluster, l->cluster, sizeof(cmd->cluster));
	cmd->shared_bytes = l->shared_bytes;
	cmd->flags = l->cooperative ? LAUNCH_COOPERATIVE : 0;
	for (i = 0; i < n; i++)
		launch_put_attr(&launch_kernel_cmd_attr(cmd)[i], l->attrs->v[i]);
	launch_params(l, plan, launch_kernel_cmd_params(cmd, n));
	cmd->after = 0;
	if (unlikely(!is_taken(plan->func, l)))
		return ask(t, l, plan->func);
	/* Attributes may name events. */
	return n || l->cooperative ? guest_post(t)
				   : guest_post_apart(t, &cmd->after, stream, 0);
}

/* Memory that it names is to be on the device, if it is of the kind that can be. */
static CUresult submit_managed(struct guest_thread *t, const struct launch *l,
			       struct launch_plan *plan, uint64_t stream)
{
	uint64_t words[GUEST_PARAMS_MAX / sizeof(uint64_t) + 1];
	struct managed_hold hold;
	CUresult r;

	launch_params(l, plan, words);
	plan->buf = words; /* the program's may be managed memory */
	plan->buf_size = plan->func->params_size;
	managed_named(t, words, plan->func->params_size / sizeof(words[0]));
	r = managed_begin(t, &hold);
	if (r)
		return r;
	r = submit(t, l, plan, stream);
	managed_done(&hold);
	return r;
}

CUresult launch_check(const struct launch *l, struct launch_plan *ret_plan)
{
	struct guest_func *f = func_lookup(l->func);
	const void *buf = NULL;
	size_t size = 0;
	CUresult r;

	if (unlikely(!f))
		return CUDA_ERROR_INVALID_HANDLE;
	r = check_dims(l);
	if (r == CUDA_SUCCESS)
		r = check_resources(l, f);
	if (unlikely(r))
		return r;
	if (l->extra) {
		if (l->params)
			return CUDA_ERROR_INVALID_VALUE;
		r = parse_extra(l->extra, &buf, &size);
		if (r)
			return r;
		if (size > f->params_size)
			return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
		if (!buf && f->n_params)
			return CUDA_ERROR_INVALID_VALUE;
	} else if (unlikely(params_missing(f, l->params))) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	ret_plan->func = f;
	ret_plan->buf = buf;
	ret_plan->buf_size = size;
	return CUDA_SUCCESS;
}

CUresult launch_do(const struct launch *l)
{
	struct launch_plan plan;
	struct guest_thread *t;
	uint64_t stream;
	CUresult r = guest_enter(guest_need_on(l->stream), &t);

	if (unlikely(r))
		return r;
	if (unlikely(capture_wants(l->stream, l->ptsz)))
		return capture_hooks->launch(l);
	r = launch_check(l, &plan);
	if (r == CUDA_SUCCESS)
		r = guest_stream(l->stream, l->ptsz, &stream);
	if (r == CUDA_SUCCESS && unlikely(l->cooperative))
		r = check_cooperative(l, plan.func);
	if (unlikely(r))
		return r;
	if (unlikely(atomic_load_explicit(&managed_waiting, memory_order_relaxed)))
		return submit_managed(t, l, &plan, stream);
	return submit(t, l, &plan, stream);
}
