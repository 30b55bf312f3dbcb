/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/handlers.h"

/* Rows of a pitched allocation begin at multiples of this, as on NVIDIA's GPUs. */
#define PITCH_ALIGN 512u

/* Allocates memory. Pools give up their reserve before an allocation fails. */
static CUresult alloc(struct sess_lane *sl, uint64_t bytes, CUdeviceptr *ret_addr)
{
	struct session *s = sl->s;
	CUresult r = space_alloc(s->space, bytes, sl->ctx->id, ret_addr);

	if (r == CUDA_ERROR_OUT_OF_MEMORY && pools_reclaim(s->pools))
		r = space_alloc(s->space, bytes, sl->ctx->id, ret_addr);
	return r;
}

int handle_cuMemAlloc_v2(struct sess_lane *sl, const struct cuMemAlloc_v2_args *a,
			 struct cuMemAlloc_v2_rep *rep)
{
	CUdeviceptr addr = 0;

	rep->res.result = alloc(sl, a->cmd->bytesize, &addr);
	rep->dptr = addr;
	return 0;
}

int handle_cuMemAllocPitch_v2(struct sess_lane *sl,
			      const struct cuMemAllocPitch_v2_args *a,
			      struct cuMemAllocPitch_v2_rep *rep)
{
	uint64_t width = a->cmd->WidthInBytes, pitch, bytes;
	CUdeviceptr addr = 0;

	if (__builtin_add_overflow(width, PITCH_ALIGN - 1, &pitch)) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	pitch = ALIGN_DOWN(pitch, (uint64_t)PITCH_ALIGN);
	if (__builtin_mul_overflow(pitch, a->cmd->Height, &bytes)) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	rep->res.result = alloc(sl, bytes, &addr);
	rep->dptr = addr;
	rep->pPitch = pitch;
	return 0;
}

/*
 * As CUDA's, waits for the work that may still use the memory. A lost context's memory is
 * freed as well; its error is what the caller sees.
 */
int handle_mem_free(struct sess_lane *sl, const struct mem_free_args *a,
		    struct mem_free_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	CUresult sync, r = CUDA_SUCCESS;

	if (a->cmd->dptr && !space_is_alloc(sl->s->space, a->cmd->dptr) &&
	    !pools_have(sl->s->pools, a->cmd->dptr)) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	sync = sess_sync_result(sl, sl->s->ops->ctx.synchronize(ctx));
	if (a->cmd->dptr && !pools_free(sl->s->pools, a->cmd->dptr))
		r = space_release(sl->s->space, a->cmd->dptr);
	rep->res.result = sync ? sync : r;
	return 0;
}

int handle_cuMemGetInfo_v2(struct sess_lane *sl, const struct cuMemGetInfo_v2_args *a,
			   struct cuMemGetInfo_v2_rep *rep)
{
	sess_memory(sl->s, &rep->free, &rep->total);
	return 0;
}

int handle_address_range(struct sess_lane *sl, const struct address_range_args *a,
			 struct address_range_rep *rep)
{
	struct space_range range;
	uint64_t pool;

	if (pools_find(sl->s->pools, a->cmd->ptr, &range, &pool) != CUDA_SUCCESS) {
		rep->res.result = CUDA_ERROR_NOT_FOUND;
		return 0;
	}
	rep->base = range.base;
	rep->size = range.size;
	return 0;
}

/* The handle of the context with that number; 0 if it is gone. */
static uint64_t ctx_handle(struct sess_lane *sl, unsigned id)
{
	if (!id)
		return 0;
	if (sl->ctx && sl->ctx->id == id)
		return sl->ctx->obj.handle;
	return obj_ctx_handle(sl->s, id);
}

int handle_pointer_info(struct sess_lane *sl, const struct pointer_info_args *a,
			struct pointer_info_rep *rep)
{
	struct space_range range;

	rep->res.result = pools_find(sl->s->pools, a->cmd->ptr, &range, &rep->pool);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	rep->base = range.base;
	rep->size = range.size;
	rep->buffer_id = range.id;
	rep->ctx = ctx_handle(sl, range.owner);
	rep->mapped = range.mapped;
	rep->in_host_memory = range.in_host_memory;
	rep->shareable = range.kind == SPACE_ALLOCATION && !rep->pool;
	return 0;
}

int handle_host_alloc(struct sess_lane *sl, const struct host_alloc_args *a,
		      struct host_alloc_rep *rep)
{
	struct sess_ctx *ctx = sess_any_ctx(sl);
	struct hostmem_region g;

	if (!ctx) {
		rep->res.result = CUDA_ERROR_INVALID_CONTEXT;
		return 0;
	}
	sl->uncounted = true; /* without it the guest takes memory of its own */
	rep->res.result = hostmem_alloc(sl->s->hostmem, ctx->dev, a->cmd->size, &g);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	rep->addr = g.addr;
	rep->offset = g.offset;
	rep->mapped = g.size;
	return 0;
}

/* As CUDA's, waits for the work that may still use the memory; see cuMemFree. */
int handle_host_free(struct sess_lane *sl, const struct host_free_args *a,
		     struct host_free_rep *rep)
{
	struct dev_ctx *ctx;
	CUresult r;

	if (!wait_to_free(sl, &ctx, &rep->res.result) || !a->cmd->addr)
		return 0;
	r = hostmem_release(sl->s->hostmem, ctx, a->cmd->addr);
	if (rep->res.result == CUDA_SUCCESS)
		rep->res.result = r;
	return 0;
}
