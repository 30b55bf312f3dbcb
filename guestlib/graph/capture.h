/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture, for functions that become nodes; core/capturing.h has the rest. */
#ifndef WEFT_GUEST_CAPTURE_H
#define WEFT_GUEST_CAPTURE_H

#include "graph/graph.h"
#include "core/capturing.h"

/* Sets capture_hooks to the functions of this room; called by cuInit(). */
void capture_init(void);

/*
 * Begin a capture in a stream, into a graph of its own or behind n nodes (deps) of one of
 * the program's, and end it. *ret_graph, which may be NULL for the program's own graph,
 * is NULL after an error. The driver's errors for a stream, a mode or a graph.
 */
CUresult capture_begin(CUstream stream, CUstreamCaptureMode mode, bool ptsz);
CUresult capture_begin_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
				const CUgraphEdgeData *data, size_t n,
				CUstreamCaptureMode mode, bool ptsz);
CUresult capture_end(CUstream stream, CUgraph *ret_graph, bool ptsz);

/* Adds a node behind those that the stream depends on; takes over what op owns, also on
 * failure. */
CUresult capture_add(CUstream stream, bool ptsz, struct graph_op *op);

/* Capture a copy and a fill in a stream that is being captured. */
CUresult capture_copy(const CUDA_MEMCPY3D *p, CUstream stream, bool ptsz);
CUresult capture_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUstream stream, bool ptsz);

/* Capture cuMemAllocAsync and cuMemFreeAsync in a stream that is being captured. */
CUresult capture_alloc(CUdeviceptr *dptr, size_t size, CUstream stream, bool ptsz);
CUresult capture_free(CUdeviceptr dptr, CUstream stream, bool ptsz);

/* ---- events ---- */

/*
 * Record an event in a stream, and have a stream wait for one, if a capture is concerned:
 * *ret_taken says so, else the caller goes on.
 */
CUresult capture_record(CUevent event, CUstream stream, bool ptsz, bool *ret_taken);
CUresult capture_wait(CUstream stream, CUevent event, bool ptsz, bool *ret_taken);

/* Refuses a question about an event that stands for nodes of a capture, which becomes
 * invalid; CUDA_SUCCESS for all other events. */
CUresult capture_forbids_event(const struct guest_event *e);

#endif
