// SPDX-License-Identifier: Apache-2.0
/* Stream capture: no stream can be captured yet, and these say so. */
#include "context.h"
#include "thread.h"

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	old = t->capture_mode;
	t->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

static CUresult not_capturing(CUstream stream, CUstreamCaptureStatus *status, bool ptsz)
{
	uint64_t wire;
	CUresult r = ctx_check_current();

	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, &wire);
	if (r)
		return r;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult info_1(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       bool ptsz)
{
	return not_capturing(stream, status, ptsz);
}

static CUresult info_2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       CUgraph *graph, const CUgraphNode **deps, size_t *n, bool ptsz)
{
	return not_capturing(stream, status, ptsz);
}

static CUresult info_3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       CUgraph *graph, const CUgraphNode **deps,
		       const CUgraphEdgeData **edges, size_t *n, bool ptsz)
{
	return not_capturing(stream, status, ptsz);
}

/* The outputs beside the status mean something only while capturing. */
GUEST_PAIR(cuStreamIsCapturing, ptsz, (CUstream stream, CUstreamCaptureStatus *status),
	   not_capturing, stream, status)
GUEST_PAIR(cuStreamGetCaptureInfo, ptsz,
	   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), info_1,
	   stream, status, id)
GUEST_PAIR(cuStreamGetCaptureInfo_v2, ptsz,
	   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	    CUgraph *graph, const CUgraphNode **deps, size_t *n),
	   info_2, stream, status, id, graph, deps, n)
GUEST_PAIR(cuStreamGetCaptureInfo_v3, ptsz,
	   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	    CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
	    size_t *n),
	   info_3, stream, status, id, graph, deps, edges, n)
