/* SPDX-License-Identifier: Apache-2.0 */
/* Occupancy: what is computed from the number of blocks that fit on an SM. */
#include <string.h>

#include "calls.h"
#include "code/launch.h"
#include "code/module.h"
#include "core/process.h"
#include "object/context.h"

#define OCCUPANCY_FLAGS ((unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)

/* Shared memory is given out in units of so many bytes. */
#define SHARED_UNIT 128

static int device_attribute(CUdevice_attribute attr)
{
	return guest_process.device.attributes[attr];
}

static CUresult function(CUfunction func, struct guest_func **ret_f)
{
	CUresult r = ctx_check_current();

	if (r)
		return r;
	*ret_f = func_lookup(func);
	return *ret_f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction func, int block_size, size_t shared, unsigned int flags)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r == CUDA_SUCCESS)
		r = guest_sticky();
	if (r)
		return r;
	if (!blocks || (flags & ~OCCUPANCY_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	return func_blocks_per_sm(f, block_size, shared, flags, blocks);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction func,
							     int block_size,
							     size_t shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		blocks, func, block_size, shared, 0);
}

/* The block size with the most threads on an SM, larger blocks first. */
static CUresult best_block(CUfunction func, CUoccupancyB2DSize shared_of, size_t shared,
			   int limit, unsigned flags, int *ret_blocks, int *ret_size)
{
	int warp = device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	int best = 0, size, blocks;
	CUresult r;

	if (warp <= 0)
		return CUDA_ERROR_UNKNOWN;
	for (size = limit; size > 0; size -= size % warp ? size % warp : warp) {
		r = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&blocks, func, size, shared_of ? shared_of(size) : shared, flags);
		if (r)
			return r;
		if (blocks * size > best) {
			best = blocks * size;
			*ret_blocks = blocks;
			*ret_size = size;
		}
	}
	return best ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block_size,
							   CUfunction func,
							   CUoccupancyB2DSize shared_of,
							   size_t shared, int limit,
							   unsigned int flags)
{
	struct guest_func *f;
	int max, blocks = 0, size = 0;
	CUresult r = function(func, &f);

	if (r)
		return r;
	if (!min_grid || !block_size || limit < 0 || (flags & ~OCCUPANCY_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	max = func_attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	limit = limit ? MIN(limit, max) : max;
	r = best_block(func, shared_of, shared, limit, flags, &blocks, &size);
	if (r)
		return r;
	*min_grid = blocks * device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	*block_size = size;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size,
						  CUfunction func,
						  CUoccupancyB2DSize shared_of,
						  size_t shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, func,
							 shared_of, shared, limit, 0);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction func,
							 int n_blocks, int block_size)
{
	int per_sm, per_block, reserved, fixed, fit;
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	if (!bytes || n_blocks <= 0 || block_size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, func, block_size, 0);
	if (r)
		return r;
	if (fit < n_blocks)
		return CUDA_ERROR_INVALID_VALUE;
	per_sm = device_attribute(
		CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
	per_block = func_attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
	reserved = device_attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
	fixed = func_attribute(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
	per_sm = ALIGN_DOWN(per_sm / n_blocks, SHARED_UNIT) - MAX(reserved, 0);
	*bytes = (size_t)MAX(MIN(per_sm - fixed, per_block), 0);
	return CUDA_SUCCESS;
}

/* ---- clusters: the device knows ---- */

static CUresult send_clusters(struct guest_thread *t, struct guest_func *f,
			      const struct launch *l, bool largest, int *ret_n)
{
	unsigned n = l->attrs ? l->attrs->n : 0, i;
	struct occupancy_clusters_cmd *cmd = begin_occupancy_clusters(t, n);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->func = f->handle;
	memcpy(cmd->grid, l->grid, sizeof(cmd->grid));
	memcpy(cmd->block, l->block, sizeof(cmd->block));
	memcpy(cmd->cluster, l->cluster, sizeof(cmd->cluster));
	cmd->shared_bytes = l->shared_bytes;
	cmd->largest = largest;
	for (i = 0; i < n; i++)
		launch_put_attr(&occupancy_clusters_cmd_attr(cmd)[i], l->attrs->v[i]);
	r = guest_call(t, sizeof(struct occupancy_clusters_rep), &reply);
	if (r == CUDA_SUCCESS)
		*ret_n = ((const struct occupancy_clusters_rep *)reply.body)->n;
	return r;
}

static CUresult clusters(CUfunction func, const CUlaunchConfig *config, bool largest,
			 int *ret_n)
{
	struct launch l = {.func = func};
	struct launch_attrs attrs;
	struct guest_thread *t;
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r == CUDA_SUCCESS)
		r = guest_enter(NEED_CTX, &t);
	if (r)
		return r;
	if (!ret_n)
		return CUDA_ERROR_INVALID_VALUE;
	r = launch_parse_config(config, &l, &attrs);
	return r ? r : send_clusters(t, f, &l, largest, ret_n);
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *size, CUfunction func,
						    const CUlaunchConfig *config)
{
	return clusters(func, config, true, size);
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *n_clusters, CUfunction func,
					      const CUlaunchConfig *config)
{
	return clusters(func, config, false, n_clusters);
}
