/* SPDX-License-Identifier: Apache-2.0 */
/* The real GPU: opening, contexts, and the table of its functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "device/cuda/freeze/freeze.h"
#include "device/cuda/copy.h"
#include "device/cuda/filler.h"
#include "device/cuda/graph.h"
#include "device/cuda/launch.h"
#include "device/cuda/mask.h"
#include "device/cuda/memory.h"
#include "device/cuda/module.h"
#include "device/cuda/nvml.h"
#include "device/cuda/output.h"
#include "device/cuda/reach.h"
#include "device/cuda/stream.h"
#include "device/cuda/texture.h"
#include "device/cuda/rm/switches.h"
#include "device/cuda/rm/tsg.h"

/* ---- contexts ---- */

/* A client of an MPS server keeps the context that it has, for all of ours: for another one it
 * would have to connect once more, and in its sandbox it cannot. */
static CUresult primary_make(struct device *dev, unsigned flags, struct dev_ctx *ctx)
{
	CUresult res = CUDA_SUCCESS;

	if (!dev->primary_kept)
		res = cu.cuDevicePrimaryCtxSetFlags(dev->cu, flags);
	if (!res)
		res = cu.cuDevicePrimaryCtxRetain(&ctx->cu, dev->cu);
	if (!res && dev->cfg.shared && !dev->primary_kept)
		dev->primary_kept = !cu.cuDevicePrimaryCtxRetain(&ctx->cu, dev->cu);
	ctx->primary = dev->primary_used = !res;
	return res;
}

static CUresult ctx_make(struct device *dev, unsigned flags, struct dev_ctx *ctx)
{
	/* The primary context first: it is the one that the driver itself expects. */
	if (!dev->primary_used || dev->cfg.shared)
		return primary_make(dev, flags, ctx);
	return cu.cuCtxCreate(&ctx->cu, NULL, flags, dev->cu);
}

static void ctx_drop(struct dev_ctx *ctx)
{
	if (ctx->primary) {
		cu.cuDevicePrimaryCtxRelease(ctx->dev->cu);
		ctx->dev->primary_used = false;
	} else {
		cu.cuCtxDestroy(ctx->cu);
	}
	cuda_leave();
}

static CUresult slots_make(struct dev_ctx *ctx)
{
	size_t size = CUDA_HOST_SLOTS * sizeof(uint32_t);
	void *p;
	CUresult res;

	res = cu.cuMemHostAlloc(&p, size, CU_MEMHOSTALLOC_DEVICEMAP);
	if (res)
		return res;
	memset(p, 0, size);
	ctx->slots = p;
	return cu.cuMemHostGetDevicePointer(&ctx->slots_addr, p, 0);
}

static CUresult cuda_ctx_create(struct device *dev, unsigned flags,
				struct dev_ctx **ret_ctx)
{
	struct dev_ctx *ctx = calloc(1, sizeof(*ctx));
	CUresult res;

	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->dev = dev;
	list_init(&ctx->streams);
	list_init(&ctx->events);
	list_init(&ctx->modules);
	list_init(&ctx->graveyard);
	pthread_mutex_init(&ctx->batch_lock, NULL);
	pthread_mutex_lock(&dev->making);
	ctx->id = ++dev->last_ctx;
	res = ctx_make(dev, flags, ctx);
	pthread_mutex_unlock(&dev->making);
	if (res) {
		free(ctx);
		return res;
	}
	if (!cuda_tsg_slices())
		log_info("cuda: this driver keeps the copy engines' turns long: others' "
			 "copies delay copies and mappings, 1 ms each");
	cuda_leave();
	res = cuda_enter(ctx);
	if (!res)
		res = slots_make(ctx);
	if (res) {
		pthread_mutex_lock(&dev->making);
		ctx_drop(ctx);
		pthread_mutex_unlock(&dev->making);
		free(ctx);
		return res;
	}
	cuda_host_adopt(ctx);
	scoped_lock(&dev->lock);
	list_append(&dev->contexts, &ctx->link);
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

static void ctx_free_objects(struct dev_ctx *ctx)
{
	struct dev_module *mod;

	while (!list_empty(&ctx->streams))
		cuda_stream_destroy(
			list_entry(ctx->streams.next, struct dev_stream, link));
	while (!list_empty(&ctx->events))
		cuda_event_destroy(list_entry(ctx->events.next, struct dev_event, link));
	while ((mod = cuda_module_first(ctx)))
		cuda_module_unload(mod);
}

/* Host memory that the context before had registered. */
static void adopt_elsewhere(struct device *dev)
{
	struct dev_ctx *ctx = NULL;

	pthread_mutex_lock(&dev->lock);
	if (dev->host.tree.root && !list_empty(&dev->contexts))
		ctx = list_entry(dev->contexts.next, struct dev_ctx, link);
	pthread_mutex_unlock(&dev->lock);
	if (ctx && !cuda_enter(ctx))
		cuda_host_adopt(ctx);
}

static void cuda_ctx_destroy(struct dev_ctx *ctx)
{
	struct device *dev = ctx->dev;

	if (!cuda_enter(ctx))
		cuda_note(ctx, cu.cuCtxSynchronize());
	cuda_output_flush(dev);
	cuda_batches_drop(ctx);
	cuda_graphs_drop(ctx);
	ctx_free_objects(ctx);
	cuda_host_ops_drop(ctx);
	cuda_host_leave(ctx);
	cuda_completion_drop(ctx);
	cuda_run_drop(&ctx->run);
	cu.cuMemFreeHost(ctx->slots);
	pthread_mutex_lock(&dev->lock);
	list_remove(&ctx->link);
	pthread_mutex_unlock(&dev->lock);
	pthread_mutex_lock(&dev->making);
	ctx_drop(ctx);
	pthread_mutex_unlock(&dev->making);
	pthread_mutex_destroy(&ctx->batch_lock);
	free(ctx);
	adopt_elsewhere(dev);
}

static CUresult cuda_ctx_synchronize(struct dev_ctx *ctx)
{
	unsigned unknown = cuda_unknown(ctx);
	CUresult res = cuda_enter(ctx);

	if (!res)
		res = cuda_note(ctx, cu.cuCtxSynchronize());
	if (!res)
		cuda_known_until(ctx, unknown);
	cuda_output_look(ctx);
	return res;
}

static CUresult cuda_ctx_get_limit(struct dev_ctx *ctx, CUlimit limit, size_t *ret_value)
{
	CUresult res = cuda_enter(ctx);

	return res ? res : cuda_note(ctx, cu.cuCtxGetLimit(ret_value, limit));
}

static CUresult cuda_ctx_set_limit(struct dev_ctx *ctx, CUlimit limit, size_t value)
{
	cuda_scoped_thawed(ctx->dev);
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	cuda_batches_drop(ctx); /* made for the stacks that there were */
	return cuda_note(ctx, cu.cuCtxSetLimit(limit, value));
}

/* Stacks are for all threads that fit on the GPU, at once; the others when a kernel needs
 * them. */
static uint64_t cuda_ctx_limit_bytes(struct dev_ctx *ctx, CUlimit limit, size_t value)
{
	int threads = 0;

	switch ((int)limit) {
	case CU_LIMIT_STACK_SIZE:
		cu.cuDeviceGetAttribute(
			&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
			ctx->dev->cu);
		return (uint64_t)threads * ctx->dev->info.n_sms * value;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return value;
	default:
		return 0;
	}
}

static CUresult cuda_ctx_known(struct dev_ctx *ctx)
{
	return (CUresult)atomic_load_explicit(&ctx->status, memory_order_relaxed);
}

static CUresult cuda_ctx_status(struct dev_ctx *ctx)
{
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	(void)cuda_note(ctx, cu.cuStreamQuery(CU_STREAM_LEGACY));
	return cuda_ctx_known(ctx);
}

static void cuda_ctx_fault(struct dev_ctx *ctx, char *ret_text, size_t size)
{
	CUresult res = (CUresult)atomic_load_explicit(&ctx->status, memory_order_relaxed);
	const char *name;

	if (res && !cu.cuGetErrorName(res, &name))
		snprintf(ret_text, size, "%s (%d)", name, (int)res);
	else if (size)
		ret_text[0] = 0;
}

/* ---- the device ---- */

static int device_find(struct device *dev)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	struct device_info *info = &dev->info;
	size_t total = 0, granule = 0;
	CUuuid uuid;
	int sms = 0, words = 0, major = 0, minor = 0;

	if (cu.cuDeviceGet(&dev->cu, (int)dev->cfg.index))
		return -ENODEV;
	prop.location =
		(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->cu};
	if (cu.cuDeviceGetName(info->name, sizeof(info->name), dev->cu) ||
	    cu.cuDeviceGetUuid(&uuid, dev->cu) || cu.cuDeviceTotalMem(&total, dev->cu) ||
	    cu.cuDriverGetVersion(&info->driver_version) ||
	    cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
				    dev->cu) ||
	    cu.cuDeviceGetAttribute(
		    &words, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, dev->cu) ||
	    cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				    dev->cu) ||
	    cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				    dev->cu) ||
	    cu.cuMemGetAllocationGranularity(&granule, &prop,
					     CU_MEM_ALLOC_GRANULARITY_MINIMUM))
		return -ENODEV;
	memcpy(info->uuid, uuid.bytes, sizeof(info->uuid));
	info->memory_bytes = total;
	info->granularity = (unsigned)granule;
	info->n_sms = (unsigned)sms;
	/* The guest library would move the page. */
	dev->writes_words = words && !device_cuda_nests;
	dev->sm = (unsigned)(10 * major + minor);
	return cuda_reach_check(dev->cu);
}

static void cuda_close(struct device *dev)
{
	while (!list_empty(&dev->contexts)) {
		struct dev_ctx *ctx =
			list_entry(dev->contexts.next, struct dev_ctx, link);

		cuda_host_ops_drop(ctx); /* or its streams would wait for ever */
		cuda_ctx_destroy(ctx);
	}
	cuda_output_close(dev);
	cuda_nvml_close(dev);
	cuda_memory_fini(dev);
	pthread_mutex_destroy(&dev->lock);
	pthread_mutex_destroy(&dev->host_lock);
	pthread_mutex_destroy(&dev->making);
	pthread_cond_destroy(&dev->still.changed);
	pthread_mutex_destroy(&dev->still.lock);
	free(dev);
}

static int cuda_open(const struct device_config *cfg, struct device **ret_dev)
{
	struct device *dev;
	int r = cuda_driver_load(cfg);

	if (r < 0)
		return r;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	dev->cfg = *cfg;
	r = device_find(dev);
	if (r < 0) {
		free(dev);
		return r;
	}
	pthread_mutex_init(&dev->still.lock, NULL);
	pthread_cond_init(&dev->still.changed, NULL);
	pthread_mutex_init(&dev->making, NULL);
	pthread_mutex_init(&dev->lock, NULL);
	pthread_mutex_init(&dev->host_lock, NULL);
	list_init(&dev->contexts);
	list_init(&dev->host_ops);
	cuda_memory_init(dev);
	cuda_nvml_open(dev);
	cuda_output_open(dev);
	*ret_dev = dev;
	return 0;
}

static void cuda_info(struct device *dev, struct device_info *ret_info)
{
	*ret_info = dev->info;
}

static bool ctx_pending_locked(struct dev_ctx *ctx)
{
	struct dev_stream *st;

	if (cuda_enter(ctx))
		return false;
	if (cu.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY)
		return true;
	list_for_each (st, &ctx->streams, link) {
		if (cu.cuStreamQuery(st->cu) == CUDA_ERROR_NOT_READY)
			return true;
	}
	return false;
}

static bool cuda_pending(struct device *dev)
{
	struct dev_ctx *ctx;

	scoped_lock(&dev->lock);
	list_for_each (ctx, &dev->contexts, link) {
		if (ctx_pending_locked(ctx))
			return true;
	}
	return false;
}

static bool cuda_had_ns(struct device *dev, uint64_t *ret_ns)
{
	(void)dev;
	return cuda_switches_had(ret_ns);
}

static bool cuda_slice(struct device *dev, uint32_t us)
{
	(void)dev;
	return cuda_tsg_compute(us ? us : CUDA_TSG_COMPUTE_US);
}

static bool cuda_run_on(struct device *dev, const struct dev_tpcs *tpcs)
{
	if (!cuda_mask_set(tpcs->n ? tpcs->bits : NULL))
		return false;
	atomic_store(&dev->tpcs_in_gpc, tpcs->n_in_gpc);
	atomic_store(&dev->tpcs, tpcs->n);
	return true;
}

static void cuda_know_tpcs(struct device *dev, const struct dev_tpc_map *map)
{
	dev->tpc_map = *map;
}

static CUresult cuda_attribute(struct device *dev, CUdevice_attribute attr,
			       int *ret_value)
{
	unsigned tpcs = atomic_load(&dev->tpcs);

	if (tpcs && attr == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) {
		*ret_value = (int)tpcs * 2;
		return CUDA_SUCCESS;
	}
	return cu.cuDeviceGetAttribute(ret_value, attr, dev->cu);
}

static const struct device_link_ops link_table = {
	.create = cuda_link_create,
	.add = cuda_link_add,
	.complete = cuda_link_complete,
	.destroy = cuda_link_destroy,
};

static const struct device_graph_ops graph_table = {
	.create = cuda_graph_create,
	.destroy = cuda_graph_destroy,
	.set = cuda_graph_set,
	.enable = cuda_graph_enable,
	.launch = cuda_graph_launch,
	.upload = cuda_graph_upload,
	.shell_create = cuda_shell_create,
	.shell_destroy = cuda_shell_destroy,
	.shell_condition = cuda_shell_condition,
};

const struct device_ops device_cuda_ops = {
	.abi = DEVICE_OPS_ABI,
	.name = "cuda",
	.open = cuda_open,
	.close = cuda_close,
	.info = cuda_info,
	.overhead = cuda_overhead,
	.footprint = cuda_footprint,
	.holders = cuda_holders,
	.attribute = cuda_attribute,
	.busy_ns = cuda_busy_ns,
	.pending = cuda_pending,
	.filler = cuda_filler,
	.had_ns = cuda_had_ns,
	.slice = cuda_slice,
	.freeze = cuda_freeze,
	.thaw = cuda_thaw,
	.preempt = cuda_preempt,
	.tpc_map = cuda_tpc_map,
	.find_tpcs = cuda_find_tpcs,
	.run_on = cuda_run_on,
	.know_tpcs = cuda_know_tpcs,
	.sensors = cuda_sensors,
	.ctx =
		{
			.create = cuda_ctx_create,
			.destroy = cuda_ctx_destroy,
			.synchronize = cuda_ctx_synchronize,
			.get_limit = cuda_ctx_get_limit,
			.set_limit = cuda_ctx_set_limit,
			.limit_bytes = cuda_ctx_limit_bytes,
			.status = cuda_ctx_status,
			.known = cuda_ctx_known,
			.fault = cuda_ctx_fault,
			.record_event = cuda_ctx_record_event,
			.wait_event = cuda_ctx_wait_event,
		},
	.memory =
		{
			.reserve = cuda_reserve,
			.unreserve = cuda_unreserve,
			.create = cuda_mem_create,
			.compressible = cuda_mem_compressible,
			.release = cuda_mem_release,
			.export = cuda_mem_export,
			.import = cuda_mem_import,
			.create_in_file = cuda_mem_create_in_file,
			.map = cuda_map,
			.unmap = cuda_unmap,
			.set_access = cuda_set_access,
			.host_map = cuda_host_map,
			.host_unmap = cuda_host_unmap,
			.own = cuda_own,
		},
	.copy =
		{
			.write = cuda_write,
			.read = cuda_read,
			.write_taken = cuda_write_taken,
			.digest = cuda_digest,
			.end = cuda_copy_end,
			.rows = cuda_copy,
			.fill = cuda_fill,
		},
	.array =
		{
			.bytes = cuda_array_bytes,
			.create = cuda_array_create,
			.destroy = cuda_array_destroy,
			.write = cuda_array_write,
			.read = cuda_array_read,
			.copy = cuda_array_copy,
		},
	.texture =
		{
			.create = cuda_texture_create,
			.create_surface = cuda_surface_create,
			.destroy = cuda_texture_destroy,
			.find_ref = cuda_texref_find,
			.set_ref = cuda_texref_set,
		},
	.tensor =
		{
			.map = cuda_tensor_map,
			.move = cuda_tensor_map_move,
		},
	.stream =
		{
			.create = cuda_stream_create,
			.keep_to = cuda_stream_keep_to,
			.set_attribute = cuda_stream_set_attribute,
			.mem_ops = cuda_stream_mem_ops,
			.wait_for_kernels = cuda_stream_wait_for_kernels,
			.destroy = cuda_stream_destroy,
			.query = cuda_stream_query,
			.synchronize = cuda_stream_synchronize,
			.synchronize_to = cuda_stream_synchronize_to,
			.wait_event = cuda_stream_wait_event,
			.host_func = cuda_host_func,
			.host_func_done = cuda_host_func_done,
		},
	.event =
		{
			.create = cuda_event_create,
			.destroy = cuda_event_destroy,
			.record = cuda_event_record,
			.query = cuda_event_query,
			.synchronize = cuda_event_synchronize,
			.elapsed = cuda_event_elapsed,
		},
	.module =
		{
			.load = cuda_module_load,
			.load_library = cuda_library_load,
			.managed = cuda_module_managed,
			.unload = cuda_module_unload,
			.memory = cuda_module_memory,
			.function = cuda_module_function,
			.global = cuda_module_global,
			.function_at = cuda_module_function_at,
			.status = cuda_module_status,
			.function_count = cuda_module_function_count,
		},
	.func =
		{
			.attribute = cuda_func_attribute,
			.set_attribute = cuda_func_set_attribute,
			.param = cuda_func_param,
			.occupancy = cuda_func_occupancy,
			.clusters = cuda_func_clusters,
			.launch = cuda_launch,
			.launch_batch = cuda_launch_batch,
		},
	.link = &link_table,
	.graph = &graph_table,
};
