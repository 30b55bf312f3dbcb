/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: opening, contexts, limits, and the table of its functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cpus.h"
#include "base/macros.h"
#include "device/soft/soft.h"
#include "device/soft/module.h"

#define DRIVER_VERSION 13000
/*
 * Version of the driver for NVML. Programs parse it as a number and compare it with what
 * their CUDA version needs, so it is of the branch that brought CUDA 13.0, and a version
 * that NVIDIA never released: nobody can take it for a driver of theirs.
 */
#define DRIVER_NAME              "580.0"

#define STACK_DEFAULT            1024u
#define PENDING_LAUNCHES_DEFAULT 2048u
#define L2_FETCH_DEFAULT         64u
#define L2_FETCH_MAX             128u

/* ---- contexts ---- */

CUresult soft_ctx_status(struct dev_ctx *ctx)
{
	CUresult res = (CUresult)atomic_load_explicit(&ctx->status, memory_order_relaxed);

	return res ? res : (CUresult)soft_turn_faulted(&ctx->dev->exec.turn);
}

void soft_ctx_lose_locked(struct dev_ctx *ctx, CUresult code, const char *fault)
{
	if (atomic_load_explicit(&ctx->status, memory_order_relaxed) != CUDA_SUCCESS)
		return;
	snprintf(ctx->fault, sizeof(ctx->fault), "%s", fault);
	atomic_store_explicit(&ctx->status, (int)code, memory_order_relaxed);
	if (!soft_turn_faulted(&ctx->dev->exec.turn))
		soft_turn_fault(&ctx->dev->exec.turn, code);
	soft_exec_kill_locked(&ctx->dev->exec, ctx);
	soft_host_drop_locked(ctx);
}

static CUresult soft_ctx_create(struct device *dev, unsigned flags,
				struct dev_ctx **ret_ctx)
{
	struct dev_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->dev = dev;
	ctx->flags = flags;
	soft_stream_init(&ctx->legacy, ctx);
	soft_stream_init(&ctx->joint, ctx);
	ctx->joint.blocking = false;
	soft_stream_init(&ctx->gate, ctx);
	ctx->gate.blocking = false;
	list_init(&ctx->streams);
	list_init(&ctx->events);
	list_init(&ctx->modules);
	ctx->stack_bytes = STACK_DEFAULT;
	ctx->pending_launches = PENDING_LAUNCHES_DEFAULT;
	ctx->l2_fetch = L2_FETCH_DEFAULT;
	soft_heap_init(&ctx->heap, &dev->mem);
	list_init(&ctx->owned);
	soft_output_init(&ctx->output, &dev->cfg);
	scoped_lock(&dev->lock);
	list_append(&dev->contexts, &ctx->link);
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

static void ctx_free_objects_locked(struct dev_ctx *ctx)
{
	struct dev_stream *st, *tmp_st;
	struct dev_event *ev, *tmp_ev;
	struct dev_module *mod, *tmp_mod;

	list_for_each_safe (ev, tmp_ev, &ctx->events, link) {
		list_remove(&ev->link);
		soft_event_put_locked(ev);
	}
	list_for_each_safe (st, tmp_st, &ctx->streams, link) {
		if (!st->dead)
			soft_stream_put_locked(st);
	}
	list_for_each_safe (mod, tmp_mod, &ctx->modules, link) {
		list_remove(&mod->link);
		soft_module_free(mod);
	}
}

static void soft_ctx_destroy(struct dev_ctx *ctx)
{
	struct device *dev = ctx->dev;

	pthread_mutex_lock(&dev->lock);
	soft_ctx_wait_locked(ctx);
	pthread_mutex_unlock(&dev->lock);
	soft_output_flush(&ctx->output);
	pthread_mutex_lock(&dev->lock);
	ctx_free_objects_locked(ctx);
	list_remove(&ctx->link);
	pthread_mutex_unlock(&dev->lock);
	soft_output_fini(&ctx->output);
	soft_heap_fini(&ctx->heap);
	soft_disown(ctx);
	free(ctx);
}

static CUresult soft_ctx_synchronize(struct dev_ctx *ctx)
{
	CUresult res = soft_ctx_status(ctx);

	if (!res) {
		scoped_lock(&ctx->dev->lock);
		soft_ctx_wait_locked(ctx);
	}
	soft_output_flush(&ctx->output);
	return soft_ctx_status(ctx);
}

static void soft_ctx_fault(struct dev_ctx *ctx, char *ret_text, size_t size)
{
	scoped_lock(&ctx->dev->lock);
	snprintf(ret_text, size, "%s", ctx->fault);
}

/* ---- limits ---- */

static CUresult soft_ctx_get_limit(struct dev_ctx *ctx, CUlimit limit, size_t *ret_value)
{
	scoped_lock(&ctx->dev->lock);
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		*ret_value = ctx->stack_bytes;
		return CUDA_SUCCESS;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		*ret_value = ctx->output.limit;
		return CUDA_SUCCESS;
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		*ret_value = ctx->heap.limit;
		return CUDA_SUCCESS;
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
		*ret_value = ctx->pending_launches;
		return CUDA_SUCCESS;
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		*ret_value = ctx->l2_fetch;
		return CUDA_SUCCESS;
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
	case CU_LIMIT_CIG_ENABLED:
		*ret_value = 0;
		return CUDA_SUCCESS;
	case CU_LIMIT_SHMEM_SIZE:
		*ret_value = SOFT_BLOCK_SHARED_OPTIN;
		return CUDA_SUCCESS;
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH: /* gone since compute capability 9.0 */
	case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* As CUDA has it, the heap cannot change once a kernel has used it. */
static CUresult set_heap(struct soft_heap *h, size_t value)
{
	scoped_lock(&h->lock);
	if (h->base && value != h->limit)
		return CUDA_ERROR_INVALID_VALUE;
	if (value > SOFT_HEAP_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->limit = MAX(value, (size_t)SOFT_PAGE_BYTES);
	return CUDA_SUCCESS;
}

static CUresult set_output(struct soft_output *o, size_t value)
{
	scoped_lock(&o->lock);
	if (value > SOFT_OUTPUT_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->limit = MAX(value, (size_t)SOFT_OUTPUT_MIN);
	return CUDA_SUCCESS;
}

static CUresult soft_ctx_set_limit(struct dev_ctx *ctx, CUlimit limit, size_t value)
{
	CUresult res = soft_ctx_status(ctx);

	if (res)
		return res;
	scoped_lock(&ctx->dev->lock);
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		/* All threads that can be resident must have theirs, as on a GPU. */
		if (value > MIN((uint64_t)SIMT_MAX_STACK_BYTES,
				ctx->dev->cfg.memory_bytes /
					(ctx->dev->exec.n_sms * SOFT_SM_THREADS)))
			return CUDA_ERROR_INVALID_VALUE;
		ctx->stack_bytes = ALIGN_UP(value, (size_t)16);
		return CUDA_SUCCESS;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		return set_output(&ctx->output, value);
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return set_heap(&ctx->heap, value);
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
		ctx->pending_launches = value;
		return CUDA_SUCCESS;
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		if (value > L2_FETCH_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		ctx->l2_fetch = value;
		return CUDA_SUCCESS;
	case CU_LIMIT_SHMEM_SIZE:
	case CU_LIMIT_CIG_ENABLED:
		return CUDA_ERROR_NOT_PERMITTED;
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: /* the device has no such lines */
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
	case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Stacks are the host's. */
static uint64_t soft_ctx_limit_bytes(struct dev_ctx *ctx, CUlimit limit, size_t value)
{
	bool own =
		limit == CU_LIMIT_PRINTF_FIFO_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE;

	return own ? value : 0;
}

/* ---- the device ---- */

static int fill_config(const struct device_config *cfg, struct device_config *ret_cfg)
{

	*ret_cfg = *cfg;
	if (!ret_cfg->tpcs)
		ret_cfg->tpcs = SOFT_DEFAULT_TPCS;
	if (!ret_cfg->memory_bytes)
		ret_cfg->memory_bytes = SOFT_DEFAULT_MEMORY;
	if (!ret_cfg->granularity)
		ret_cfg->granularity = SOFT_GRANULARITY;
	if (!ret_cfg->threads)
		ret_cfg->threads = cpus_allowed();
	ret_cfg->threads = MIN(ret_cfg->threads, (unsigned)SOFT_MAX_THREADS);
	if (ret_cfg->tpcs > SOFT_MAX_TPCS ||
	    ret_cfg->granularity < SOFT_GRANULARITY_MIN ||
	    ret_cfg->granularity > SOFT_GRANULARITY_MAX ||
	    (ret_cfg->granularity & (ret_cfg->granularity - 1)) ||
	    ret_cfg->memory_bytes > SOFT_OWN_BASE - DEVICE_BAND_BASE)
		return -EINVAL;
	return 0;
}

static void soft_close(struct device *dev)
{
	struct dev_ctx *ctx, *tmp;

	pthread_mutex_lock(&dev->lock);
	list_for_each (ctx, &dev->contexts, link)
		soft_ctx_lose_locked(ctx, CUDA_ERROR_DEINITIALIZED, "device closed");
	pthread_mutex_unlock(&dev->lock);
	list_for_each_safe (ctx, tmp, &dev->contexts, link)
		soft_ctx_destroy(ctx);
	for (unsigned i = 0; i < SOFT_NUM_ENGINES; i++)
		soft_engine_stop(&dev->engines[i]);
	soft_exec_fini(&dev->exec);
	soft_memory_fini(&dev->mem);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

static int soft_open(const struct device_config *cfg, struct device **ret_dev)
{
	struct device *dev = calloc(1, sizeof(*dev));
	int r;

	if (!dev)
		return -ENOMEM;
	r = fill_config(cfg, &dev->cfg);
	if (r == 0)
		r = soft_memory_init(&dev->mem, dev->cfg.memory_bytes,
				     dev->cfg.granularity);
	if (r < 0) {
		free(dev);
		return r;
	}
	pthread_mutex_init(&dev->lock, NULL);
	list_init(&dev->contexts);
	list_init(&dev->ready);
	list_init(&dev->host_ops);
	r = soft_exec_init(&dev->exec, dev);
	for (unsigned i = 0; r == 0 && i < SOFT_NUM_ENGINES; i++)
		r = soft_engine_start(&dev->engines[i], dev);
	if (r < 0) {
		soft_close(dev);
		return r;
	}
	*ret_dev = dev;
	return 0;
}

static uint64_t soft_overhead(struct device *dev)
{
	return 0;
}

static bool soft_footprint(struct device *dev, uint64_t *ret_least, uint64_t *ret_most)
{
	scoped_lock(&dev->mem.lock);
	*ret_least = *ret_most = dev->mem.own;
	return true;
}

static void soft_info(struct device *dev, struct device_info *ret_info)
{
	*ret_info = (struct device_info){
		.name = SOFT_DEVICE_NAME,
		.memory_bytes = dev->cfg.memory_bytes,
		.driver_version = DRIVER_VERSION,
		.driver = DRIVER_NAME,
		.granularity = dev->cfg.granularity,
		.n_sms = dev->exec.n_sms,
	};
	memcpy(ret_info->uuid, dev->cfg.uuid, sizeof(ret_info->uuid));
}

static uint64_t soft_busy_ns(struct device *dev, uint64_t *ret_memory_ns)
{
	*ret_memory_ns = 0;
	scoped_lock(&dev->lock);
	return soft_exec_busy_locked(&dev->exec);
}

static bool soft_had_ns(struct device *dev, uint64_t *ret_ns)
{
	uint64_t memory;

	*ret_ns = soft_busy_ns(dev, &memory);
	return true;
}

static bool ctx_pending_locked(const struct dev_ctx *ctx)
{
	const struct dev_stream *st;

	if (ctx->legacy.completed != ctx->legacy.submitted)
		return true;
	list_for_each (st, &ctx->streams, link) {
		if (st->completed != st->submitted)
			return true;
	}
	return false;
}

static bool soft_pending(struct device *dev)
{
	const struct dev_ctx *ctx;

	scoped_lock(&dev->lock);
	list_for_each (ctx, &dev->contexts, link) {
		if (ctx_pending_locked(ctx))
			return true;
	}
	return false;
}

static bool soft_slice(struct device *dev, uint32_t us)
{
	scoped_lock(&dev->lock);
	soft_turn_slice(&dev->exec.turn, us);
	return true;
}

/* Whether a stream has nothing else to do before one of its kernels has ended. The word of one that
 * ended before kernels were off may be there, and what waits for it goes on. */
static bool stands_locked(const struct dev_stream *st)
{
	const struct soft_op *op;

	list_for_each (op, &st->queue, link) {
		if (op->kind == SOFT_OP_KERNEL)
			return true;
		if (op->for_kernels)
			return soft_words_wait(op);
		if (op->kind != SOFT_OP_MARK && op->kind != SOFT_OP_EVENT)
			return false;
	}
	return true;
}

static bool ctx_stands_locked(const struct dev_ctx *ctx)
{
	const struct dev_stream *st;

	list_for_each (st, &ctx->streams, link) {
		if (!stands_locked(st))
			return false;
	}
	return stands_locked(&ctx->legacy);
}

static bool soft_freeze(struct device *dev)
{
	const struct dev_ctx *ctx;

	scoped_lock(&dev->lock);
	soft_exec_off_locked(&dev->exec, SOFT_FROZEN);
	list_for_each (ctx, &dev->contexts, link) {
		if (ctx_stands_locked(ctx))
			continue;
		soft_exec_on_locked(&dev->exec, SOFT_FROZEN);
		return false;
	}
	return true;
}

static void soft_thaw(struct device *dev)
{
	scoped_lock(&dev->lock);
	soft_exec_on_locked(&dev->exec, SOFT_FROZEN);
}

static bool soft_preempt(struct device *dev, bool on)
{
	scoped_lock(&dev->lock);
	if (on)
		soft_exec_off_locked(&dev->exec, SOFT_PREEMPTED);
	else
		soft_exec_on_locked(&dev->exec, SOFT_PREEMPTED);
	return on;
}

/* Code that has references is not loaded. */
static CUresult soft_texref_find(struct dev_module *mod, const char *name, bool surface)
{
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult soft_texref_set(struct dev_module *mod, const char *name, bool surface,
				const struct dev_texture_desc *d, bool bound)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* simt has no tensor copies: programs take another way. */
static CUresult soft_tensor_map(struct dev_ctx *ctx, const struct dev_tensor_map *m,
				CUtensorMap *ret_map)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult soft_tensor_map_move(struct dev_ctx *ctx, CUtensorMap *map,
				     CUdeviceptr address)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* In name only: a cluster may lie anywhere. */
static CUresult soft_tpc_map(struct dev_ctx *ctx, struct dev_tpc_map *ret_map)
{
	*ret_map = (struct dev_tpc_map){
		.n = MIN(ctx->dev->cfg.tpcs, (unsigned)DEV_TPCS_MAX)};
	for (unsigned i = 0; i < ret_map->n; i++) {
		ret_map->gpc[i] = (uint8_t)(i / SOFT_TPCS_PER_GPC);
		ret_map->index[i] = (uint8_t)(i % SOFT_TPCS_PER_GPC);
		ret_map->bit[i] = (uint8_t)i;
	}
	return CUDA_SUCCESS;
}

static CUresult soft_find_tpcs(struct dev_ctx *ctx, struct dev_tpc_map *ret_map)
{
	return ctx->dev->cfg.tpcs > SOFT_SET_MAX ? CUDA_ERROR_NOT_SUPPORTED
						 : soft_tpc_map(ctx, ret_map);
}

struct dev_tpcs soft_tpcs(struct device *dev)
{
	scoped_lock(&dev->lock);
	return dev->exec.tpcs;
}

struct dev_tpcs soft_stream_tpcs(struct dev_ctx *ctx, const struct dev_stream *st)
{
	struct dev_tpcs set = soft_tpcs(ctx->dev);
	struct dev_tpc_map map;

	if (!st || !(st->tpcs[0] | st->tpcs[1]))
		return set;
	(void)soft_tpc_map(ctx, &map);
	return dev_tpcs_pick(&map, &set, st->tpcs);
}

CUresult soft_stream_keep_to(struct dev_ctx *ctx, struct dev_stream *st,
			     const uint64_t tpcs[2])
{
	if (ctx->dev->cfg.tpcs > SOFT_SET_MAX)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(st->tpcs, tpcs, sizeof(st->tpcs));
	return CUDA_SUCCESS;
}

unsigned soft_sms(struct device *dev)
{
	struct dev_tpcs set = soft_tpcs(dev);

	return soft_exec_sms(&dev->exec, &set);
}

static bool soft_run_on(struct device *dev, const struct dev_tpcs *tpcs)
{
	scoped_lock(&dev->lock);
	dev->exec.tpcs = *tpcs;
	return true;
}

/* Sensors of a device that has nothing to measure. */
static void soft_sensors(struct device *dev, uint32_t ret_value[SENSOR_NUM])
{
	for (unsigned i = 0; i < SENSOR_NUM; i++)
		ret_value[i] = SENSOR_NONE;
}

const struct device_ops device_soft_ops = {
	.abi = DEVICE_OPS_ABI,
	.name = "soft",
	.open = soft_open,
	.close = soft_close,
	.info = soft_info,
	.overhead = soft_overhead,
	.footprint = soft_footprint,
	.attribute = soft_attribute,
	.busy_ns = soft_busy_ns,
	.had_ns = soft_had_ns,
	.pending = soft_pending,
	.slice = soft_slice,
	.freeze = soft_freeze,
	.thaw = soft_thaw,
	.preempt = soft_preempt,
	.filler = soft_filler,
	.tpc_map = soft_tpc_map,
	.find_tpcs = soft_find_tpcs,
	.run_on = soft_run_on,
	.sensors = soft_sensors,
	.ctx =
		{
			.create = soft_ctx_create,
			.destroy = soft_ctx_destroy,
			.synchronize = soft_ctx_synchronize,
			.get_limit = soft_ctx_get_limit,
			.set_limit = soft_ctx_set_limit,
			.limit_bytes = soft_ctx_limit_bytes,
			.status = soft_ctx_status,
			.known = soft_ctx_status,
			.fault = soft_ctx_fault,
			.record_event = soft_ctx_record_event,
			.wait_event = soft_ctx_wait_event,
		},
	.memory =
		{
			.reserve = soft_reserve,
			.unreserve = soft_unreserve,
			.create = soft_mem_create,
			.compressible = soft_mem_compressible,
			.release = soft_mem_release,
			.export = soft_mem_export,
			.import = soft_mem_import,
			.create_in_file = soft_mem_create_in_file,
			.map = soft_map,
			.unmap = soft_unmap,
			.set_access = soft_set_access,
			.host_map = soft_host_map,
			.host_unmap = soft_host_unmap,
			.own = soft_own,
		},
	.copy =
		{
			.write = soft_write,
			.read = soft_read,
			.write_taken = soft_write_taken,
			.rows = soft_copy,
			.digest = soft_digest,
			.end = soft_stream_synchronize,
			.fill = soft_fill,
		},
	.array =
		{
			.bytes = soft_array_bytes,
			.create = soft_array_create,
			.destroy = soft_array_destroy,
			.write = soft_array_write,
			.read = soft_array_read,
			.copy = soft_array_copy,
		},
	.texture =
		{
			.create = soft_texture_create,
			.create_surface = soft_surface_create,
			.destroy = soft_texture_destroy,
			.find_ref = soft_texref_find,
			.set_ref = soft_texref_set,
		},
	.tensor =
		{
			.map = soft_tensor_map,
			.move = soft_tensor_map_move,
		},
	.stream =
		{
			.create = soft_stream_create,
			.keep_to = soft_stream_keep_to,
			.set_attribute = soft_stream_set_attribute,
			.mem_ops = soft_stream_mem_ops,
			.wait_for_kernels = soft_stream_wait_for_kernels,
			.destroy = soft_stream_destroy,
			.query = soft_stream_query,
			.synchronize = soft_stream_synchronize,
			.synchronize_to = soft_stream_synchronize_to,
			.wait_event = soft_stream_wait_event,
			.host_func = soft_host_func,
			.host_func_done = soft_host_func_done,
		},
	.event =
		{
			.create = soft_event_create,
			.destroy = soft_event_destroy,
			.record = soft_event_record,
			.query = soft_event_query,
			.synchronize = soft_event_synchronize,
			.elapsed = soft_event_elapsed,
		},
	.module =
		{
			.load = soft_module_load,
			.load_library = soft_library_load,
			.managed = soft_module_managed,
			.unload = soft_module_unload,
			.memory = soft_module_memory,
			.function = soft_module_function,
			.global = soft_module_global,
			.function_at = soft_module_function_at,
			.status = soft_module_status,
			.function_count = soft_module_function_count,
		},
	.func =
		{
			.attribute = soft_func_attribute,
			.set_attribute = soft_func_set_attribute,
			.param = soft_func_param,
			.occupancy = soft_func_occupancy,
			.clusters = soft_func_clusters,
			.launch = soft_launch,
		},
};
