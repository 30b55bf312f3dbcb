/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: attributes and occupancy, by the rules of compute capability 9.0. */
#include "base/macros.h"
#include "device/soft/soft.h"
#include "device/soft/module.h"

/* Registers are given to warps in such units, and warps come in fours. */
#define REGS_PER_WARP_UNIT 256
#define WARPS_UNIT         4

uint32_t soft_func_max_dynamic(const struct dev_func *f)
{
	uint32_t fixed = simt_func_attr(f->f)->shared_bytes;

	if (f->max_dynamic_bytes >= 0)
		return (uint32_t)f->max_dynamic_bytes;
	return fixed < SOFT_BLOCK_SHARED_BYTES ? SOFT_BLOCK_SHARED_BYTES - fixed : 0;
}

struct soft_need soft_func_need(const struct dev_func *f, unsigned threads,
				uint64_t shared_bytes)
{
	unsigned warps = (threads + SIMT_WARP - 1) / SIMT_WARP;
	unsigned regs = ALIGN_UP(f->num_regs * SIMT_WARP, REGS_PER_WARP_UNIT) *
			ALIGN_UP(warps, WARPS_UNIT);
	uint64_t shared = simt_func_attr(f->f)->shared_bytes + shared_bytes +
			  SOFT_BLOCK_SHARED_SYSTEM;

	return (struct soft_need){
		.threads = (int)(warps * SIMT_WARP),
		.regs = (int)regs,
		.shared_bytes = (int)ALIGN_UP(shared, SIMT_SHARED_UNIT),
		.blocks = 1,
	};
}

static int cluster_dim(const struct dev_func *f, int d)
{
	uint32_t fixed = simt_func_attr(f->f)->cluster[d];

	return fixed ? (int)fixed : f->cluster[d];
}

CUresult soft_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value)
{
	const struct simt_func_attr *a = simt_func_attr(f->f);
	CUresult res = soft_ctx_status(f->mod->ctx);

	if (res)
		return res;
	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret_value = (int)a->max_threads;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*ret_value = (int)a->shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*ret_value = (int)a->const_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*ret_value = (int)a->local_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*ret_value = (int)f->num_regs;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*ret_value = (int)f->mod->ptx->sm;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*ret_value = SOFT_SM;
		break;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
		*ret_value = 0;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*ret_value = (int)soft_func_max_dynamic(f);
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*ret_value = f->carveout;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*ret_value = a->explicit_cluster && !a->cluster[0];
		break;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		*ret_value = cluster_dim(
			f, (int)(attr - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH));
		break;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*ret_value = f->non_portable_cluster;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*ret_value = f->cluster_policy;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult set_in_range(int *place, int value, int lo, int hi)
{
	if (value < lo || value > hi)
		return CUDA_ERROR_INVALID_VALUE;
	*place = value;
	return CUDA_SUCCESS;
}

CUresult soft_func_set_attribute(struct dev_func *f, CUfunction_attribute attr, int value)
{
	const struct simt_func_attr *a = simt_func_attr(f->f);
	CUresult res = soft_ctx_status(f->mod->ctx);
	int d;

	if (res)
		return res;
	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		return set_in_range(&f->max_dynamic_bytes, value, 0,
				    (int)(SOFT_BLOCK_SHARED_OPTIN - a->shared_bytes));
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return set_in_range(&f->carveout, value, -1, 100);
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		d = (int)(attr - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
		if (a->cluster[0])
			return CUDA_ERROR_NOT_PERMITTED; /* compiled in */
		return set_in_range(&f->cluster[d], value, 0, SIMT_MAX_CLUSTER);
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		if (value < 0 || value > 1)
			return CUDA_ERROR_INVALID_VALUE;
		f->non_portable_cluster = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return set_in_range(&f->cluster_policy, value, 0,
				    CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult soft_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p)
{
	const struct simt_func_attr *a = simt_func_attr(f->f);

	if (index >= a->num_params)
		return CUDA_ERROR_INVALID_VALUE;
	ret_p->offset = a->params[index].offset;
	ret_p->size = a->params[index].bytes;
	return CUDA_SUCCESS;
}

CUresult soft_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks)
{
	const struct simt_func_attr *a = simt_func_attr(f->f);
	CUresult res = soft_ctx_status(f->mod->ctx);
	struct soft_need need;

	if (res)
		return res;
	if (block_size <= 0 || flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)block_size > a->max_threads ||
	    shared_bytes > SOFT_BLOCK_SHARED_OPTIN - a->shared_bytes) {
		*ret_blocks = 0;
		return CUDA_SUCCESS;
	}
	need = soft_func_need(f, (unsigned)block_size, shared_bytes);
	*ret_blocks = (int)soft_exec_blocks_per_sm(&need);
	return CUDA_SUCCESS;
}
