/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: beginning and ending them, what a program may ask and change meanwhile. */
#include <stdlib.h>

#include "core/thread.h"
#include "graph/capture_live.h"
#include "object/context.h"

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

static CUresult begin_1(CUstream stream, bool ptsz)
{
	return capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, ptsz);
}

GUEST_PAIR(cuStreamBeginCapture, ptsz, (CUstream stream), begin_1, stream)
GUEST_PAIR(cuStreamBeginCapture_v2, ptsz, (CUstream stream, CUstreamCaptureMode mode),
	   capture_begin, stream, mode)
GUEST_PAIR(cuStreamBeginCaptureToGraph, ptsz,
	   (CUstream stream, CUgraph graph, const CUgraphNode *deps,
	    const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
	   capture_begin_to_graph, stream, graph, deps, data, n, mode)
GUEST_PAIR(cuStreamEndCapture, ptsz, (CUstream stream, CUgraph *graph), capture_end,
	   stream, graph)

/* ---- questions ---- */

struct info {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const CUgraphEdgeData **edges;
	size_t *n;
};

/* The array stays until the next such call or the end of the capture. */
static CUresult show_deps(struct cap_stream *s, const struct info *out)
{
	CUgraphNode *shown = realloc(s->shown, (s->deps.n + 1) * sizeof(*shown));
	size_t i;

	if (!shown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->shown = shown;
	for (i = 0; i < s->deps.n; i++)
		shown[i] = graph_node_public(s->deps.v[i]);
	if (out->edges) {
		CUgraphEdgeData *e = calloc(s->deps.n + 1, sizeof(*e));

		if (!e)
			return CUDA_ERROR_OUT_OF_MEMORY;
		free(s->edges);
		*out->edges = s->edges = e;
	}
	if (out->deps)
		*out->deps = shown;
	if (out->n)
		*out->n = s->deps.n;
	return CUDA_SUCCESS;
}

static CUresult info_locked(uint64_t wire, const struct info *out)
{
	struct cap_stream *s = capture_find(wire);

	if (wire == GUEST_STREAM_LEGACY)
		return capture_forbid_legacy(false);
	if (!s)
		return CUDA_SUCCESS;
	*out->status = s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (out->id)
		*out->id = s->capture->id;
	if (s->capture->invalid)
		return CUDA_SUCCESS;
	if (out->graph)
		*out->graph = (CUgraph)(uintptr_t)s->capture->graph->handle;
	return out->deps || out->edges || out->n ? show_deps(s, out) : CUDA_SUCCESS;
}

static CUresult info(CUstream stream, bool ptsz, const struct info *out)
{
	uint64_t wire;
	CUresult r = ctx_check_current();

	if (r == CUDA_SUCCESS)
		r = guest_stream_value(stream, ptsz, &wire);
	if (r)
		return r;
	if (!out->status)
		return CUDA_ERROR_INVALID_VALUE;
	*out->status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (likely(!capture_any()))
		return CUDA_SUCCESS;
	graph_scope();
	return info_locked(wire, out);
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status, bool ptsz)
{
	const struct info out = {.status = status};

	return info(stream, ptsz, &out);
}

static CUresult info_1(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       bool ptsz)
{
	const struct info out = {.status = status, .id = id};

	return info(stream, ptsz, &out);
}

static CUresult info_2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       CUgraph *graph, const CUgraphNode **deps, size_t *n, bool ptsz)
{
	const struct info out = {status, id, graph, deps, NULL, n};

	return info(stream, ptsz, &out);
}

static CUresult info_3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
		       CUgraph *graph, const CUgraphNode **deps,
		       const CUgraphEdgeData **edges, size_t *n, bool ptsz)
{
	const struct info out = {status, id, graph, deps, edges, n};

	return info(stream, ptsz, &out);
}

GUEST_PAIR(cuStreamIsCapturing, ptsz, (CUstream stream, CUstreamCaptureStatus *status),
	   is_capturing, stream, status)
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

/* ---- dependencies ---- */

static CUresult update_2(CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *data,
			 size_t n, unsigned flags, bool ptsz)
{
	struct node_set set = {0};
	struct cap_stream *s;
	CUresult r = guest_status();

	if (r)
		return r;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!capture_edges_plain(data, n))
		return CUDA_ERROR_NOT_SUPPORTED;
	graph_scope();
	s = capture_find_stream(stream, ptsz);
	if (!s)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	r = node_set_collect(s->capture->graph, deps, n, &set);
	if (r == CUDA_SUCCESS && flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES &&
	    !node_set_join(&set, &s->deps))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r) {
		free(set.v);
		return r;
	}
	free(s->deps.v);
	s->deps = set;
	return CUDA_SUCCESS;
}

static CUresult update(CUstream stream, CUgraphNode *deps, size_t n, unsigned flags,
		       bool ptsz)
{
	return update_2(stream, deps, NULL, n, flags, ptsz);
}

GUEST_PAIR(cuStreamUpdateCaptureDependencies, ptsz,
	   (CUstream stream, CUgraphNode *deps, size_t n, unsigned int flags), update,
	   stream, deps, n, flags)
GUEST_PAIR(cuStreamUpdateCaptureDependencies_v2, ptsz,
	   (CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *data, size_t n,
	    unsigned int flags),
	   update_2, stream, deps, data, n, flags)
