/* SPDX-License-Identifier: Apache-2.0 */
/* Launches, and attributes of functions. */
#include <string.h>

#include "base/macros.h"
#include "device/cuda/freeze/freeze.h"
#include "device/cuda/launch.h"
#include "device/cuda/mask.h"
#include "device/cuda/module.h"
#include "device/cuda/output.h"
#include "device/cuda/stream.h"

CUresult cuda_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx, cu.cuFuncGetAttribute(ret_value, attr, f->cu));
}

CUresult cuda_func_set_attribute(struct dev_func *f, CUfunction_attribute attr, int value)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx, cu.cuFuncSetAttribute(f->cu, attr, value));
}

CUresult cuda_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p)
{
	CUresult res = cuda_enter(f->mod->ctx);
	size_t offset, size;

	if (!res)
		res = cu.cuFuncGetParamInfo(f->cu, index, &offset, &size);
	if (res)
		return cuda_note(f->mod->ctx, res);
	*ret_p = (struct dev_param){(uint32_t)offset, (uint32_t)size};
	return CUDA_SUCCESS;
}

CUresult cuda_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx,
			 cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				 ret_blocks, f->cu, block_size, shared_bytes, flags));
}

/* ---- launches ---- */

static void put_attr(CUlaunchAttribute *to, const struct dev_launch_attr *from)
{
	to->id = from->id;
	to->value = from->value;
	if (from->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
		to->value.programmaticEvent.event = from->event ? from->event->cu : NULL;
	else if (from->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
		to->value.launchCompletionEvent.event =
			from->event ? from->event->cu : NULL;
}

unsigned cuda_launch_attrs(CUlaunchAttribute *to, const struct dev_launch *l)
{
	unsigned n = 0;

	if (l->cooperative) {
		to[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
		to[n++].value.cooperative = 1;
	}
	if (l->cluster[0]) {
		to[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
		to[n].value.clusterDim.x = l->cluster[0];
		to[n].value.clusterDim.y = l->cluster[1];
		to[n++].value.clusterDim.z = l->cluster[2];
	}
	for (unsigned i = 0; i < l->n_attrs; i++)
		put_attr(&to[n++], &l->attrs[i]);
	return n;
}

static CUlaunchConfig config_of(const struct dev_launch *l, struct dev_stream *st,
				CUlaunchAttribute *attrs)
{
	return (CUlaunchConfig){
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared_bytes,
		.hStream = cuda_stream_of(st),
		.attrs = attrs,
		.numAttrs = cuda_launch_attrs(attrs, l),
	};
}

/* ---- what fits ---- */

static unsigned product(const unsigned v[3])
{
	return MAX(v[0], 1u) * MAX(v[1], 1u) * MAX(v[2], 1u);
}

/* Blocks of a cluster: the launch's, or else as the function was compiled. */
static unsigned cluster_of(const struct dev_launch *l)
{
	static const CUfunction_attribute attrs[] = {
		CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
		CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
		CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
	};
	unsigned n = 1;

	if (l->cluster[0])
		return product(l->cluster);
	for (unsigned i = 0; i < ARRAY_SIZE(attrs); i++) {
		int v = 0;

		if (!cu.cuFuncGetAttribute(&v, attrs[i], l->func->cu) && v > 1)
			n *= (unsigned)v;
	}
	return n;
}

CUresult cuda_fit_of(const struct dev_launch *l, struct cuda_fit *ret_fit)
{
	int blocks = 0;
	CUresult res = CUDA_SUCCESS;

	*ret_fit = (struct cuda_fit){.cluster = cluster_of(l)};
	if (l->cooperative)
		res = cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&blocks, l->func->cu, (int)product(l->block), l->shared_bytes, 0);
	if (l->cooperative && blocks > 0)
		ret_fit->sms =
			(product(l->grid) + (unsigned)blocks - 1) / (unsigned)blocks;
	return res;
}

static CUresult fits_in(unsigned tpcs, unsigned in_gpc, const struct cuda_fit *fit)
{
	if (!tpcs)
		return CUDA_SUCCESS;
	if (fit->cluster > 2 * in_gpc)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return fit->sms > 2 * tpcs ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
				   : CUDA_SUCCESS;
}

CUresult cuda_fits(const struct device *dev, const struct cuda_fit *fit)
{
	return fits_in(atomic_load_explicit(&dev->tpcs, memory_order_relaxed),
		       atomic_load(&dev->tpcs_in_gpc), fit);
}

static CUresult check_fits(const struct device *dev, const struct dev_launch *l)
{
	struct cuda_fit fit;
	CUresult res;

	if (likely(!atomic_load_explicit(&dev->tpcs, memory_order_relaxed)))
		return CUDA_SUCCESS;
	res = cuda_fit_of(l, &fit);
	return res ? res : cuda_fits(dev, &fit);
}

/* ---- one ---- */

/* In a stream that is kept to some TPCs. */
static CUresult launch_kept(struct dev_stream *st, const struct dev_launch *l,
			    const CUlaunchConfig *config, void **extra)
{
	struct dev_tpcs tpcs = cuda_stream_tpcs(st);
	struct cuda_fit fit;
	CUresult res = cuda_fit_of(l, &fit);

	if (!res)
		res = fits_in(tpcs.n, tpcs.n_in_gpc, &fit);
	if (res)
		return res;
	cuda_mask_only(tpcs.n ? tpcs.bits : NULL);
	res = cu.cuLaunchKernelEx(config, l->func->cu, NULL, extra);
	cuda_mask_only(NULL);
	return res;
}

CUresult cuda_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l)
{
	CUlaunchAttribute attrs[DEV_LAUNCH_ATTRS_MAX + 2];
	size_t size = l->params_size;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)l->params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CUresult res = cuda_enter(ctx);
	CUlaunchConfig config;

	if (res)
		return res;
	if (l->func->mod->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (size != l->func->params_size) /* before the driver reads past the end */
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	res = check_fits(ctx->dev, l);
	if (res)
		return res;
	cuda_is_kernel(ctx, st);
	config = config_of(l, st, attrs);
	if (unlikely(st && st->kept))
		return cuda_note(ctx, launch_kept(st, l, &config, size ? extra : NULL));
	return cuda_note(ctx, cu.cuLaunchKernelEx(&config, l->func->cu, NULL,
						  size ? extra : NULL));
}

/* ---- clusters that fit ---- */

/* Clusters that the TPCs have room for, of n on the whole device. */
static int clusters_there(const struct device *dev, const struct dev_launch *l,
			  bool largest, int n)
{
	unsigned tpcs = atomic_load_explicit(&dev->tpcs, memory_order_relaxed);
	unsigned most = 2 * atomic_load(&dev->tpcs_in_gpc);

	if (!tpcs)
		return n;
	if (!largest)
		return product(l->cluster) > most
			       ? 0
			       : (int)((unsigned)n * 2 * tpcs / dev->info.n_sms);
	while (n > 1 && (unsigned)n > most)
		n /= 2;
	return n;
}

CUresult cuda_func_clusters(struct dev_func *f, const struct dev_launch *l, bool largest,
			    int *ret_n)
{
	CUlaunchAttribute attrs[DEV_LAUNCH_ATTRS_MAX + 2];
	CUresult res = cuda_enter(f->mod->ctx);
	CUlaunchConfig config;

	if (res)
		return res;
	config = config_of(l, NULL, attrs);
	res = cuda_note(
		f->mod->ctx,
		largest ? cu.cuOccupancyMaxPotentialClusterSize(ret_n, f->cu, &config)
			: cu.cuOccupancyMaxActiveClusters(ret_n, f->cu, &config));
	if (!res)
		*ret_n = clusters_there(f->mod->ctx->dev, l, largest, *ret_n);
	return res;
}
