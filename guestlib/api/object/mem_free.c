/* SPDX-License-Identifier: Apache-2.0 */
/* Freeing device memory: allocated by itself or in stream order, by graphs, imported. */
#include "calls.h"
#include "core/thread.h"
#include "graph/capture.h"
#include "graph/mem.h"
#include "object/extent.h"
#include "object/managed.h"
#include "object/pool.h"

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_ANY, &t);

	if (r == CUDA_SUCCESS)
		r = guest_unsafe(t);
	if (r || graph_mem_take(dptr, 0, &r) || managed_take(t, dptr, &r))
		return r;
	if (unlikely(pool_imports) && pool_import_take(t, dptr, &r))
		return r;
	pool_live_take(dptr);
	extent_forget(t, dptr);
	r = call_mem_free(t, dptr);
	extent_forget(t, dptr);
	return r;
}

static CUresult free_async(CUdeviceptr dptr, CUstream stream, bool ptsz)
{
	struct mem_free_async_cmd *cmd;
	struct lane_reply reply;
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r)
		return r;
	if (unlikely(capture_wants(stream, ptsz)))
		return capture_free(dptr, stream, ptsz);
	r = guest_stream(stream, ptsz, &wire);
	if (r || !dptr || graph_mem_take(dptr, wire, &r))
		return r;
	if (unlikely(pool_imports) && pool_import_take(t, dptr, &r))
		return r;
	extent_forget(t, dptr);
	cmd = begin_mem_free_async(t);
	if (!cmd)
		return guest_lost(t);
	cmd->dptr = dptr;
	cmd->stream = wire;
	/* A free that may be wrong waits for the worker, so that the error is this
	 * call's. */
	r = pool_live_take(dptr)
		    ? guest_post(t)
		    : guest_call(t, sizeof(struct mem_free_async_rep), &reply);
	extent_forget(t, dptr);
	return r;
}

GUEST_PAIR(cuMemFreeAsync, ptsz, (CUdeviceptr dptr, CUstream stream), free_async, dptr,
	   stream)
