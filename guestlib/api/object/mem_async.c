/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation in stream order. */
#include "calls.h"
#include "graph/capture.h"
#include "object/pool.h"

static CUresult alloc(CUdeviceptr *dptr, size_t size, uint64_t pool, CUstream stream,
		      bool ptsz)
{
	struct mem_alloc_async_rep rep;
	struct guest_thread *t;
	uint64_t wire_stream;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r == CUDA_SUCCESS && !dptr)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && unlikely(capture_wants(stream, ptsz)))
		return capture_alloc(dptr, size, stream, ptsz);
	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, &wire_stream);
	if (r == CUDA_SUCCESS)
		r = guest_unsafe(t);
	if (r)
		return r;
	if (!size) {
		*dptr = 0;
		return CUDA_SUCCESS;
	}
	r = call_mem_alloc_async(t, pool, size, wire_stream, &rep);
	if (r)
		return r;
	*dptr = rep.dptr;
	pool_live_add(*dptr);
	return CUDA_SUCCESS;
}

static CUresult alloc_current(CUdeviceptr *dptr, size_t size, CUstream stream, bool ptsz)
{
	uint64_t pool = pool_current();
	CUresult r = pool_supported();

	return r ? r : alloc(dptr, size, pool, stream, ptsz);
}

static CUresult alloc_from(CUdeviceptr *dptr, size_t size, CUmemoryPool pool,
			   CUstream stream, bool ptsz)
{
	uint64_t wire;
	CUresult r = pool_supported();

	if (r == CUDA_SUCCESS)
		r = pool_to_wire(pool, &wire);
	return r ? r : alloc(dptr, size, wire, stream, ptsz);
}

GUEST_PAIR(cuMemAllocAsync, ptsz, (CUdeviceptr * dptr, size_t size, CUstream stream),
	   alloc_current, dptr, size, stream)
GUEST_PAIR(cuMemAllocFromPoolAsync, ptsz,
	   (CUdeviceptr * dptr, size_t size, CUmemoryPool pool, CUstream stream),
	   alloc_from, dptr, size, pool, stream)
