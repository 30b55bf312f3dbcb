/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. While no stream is being captured all of this costs one load. A
 * function that can be captured asks capture_wants() before anything else; every other
 * function that takes a stream goes through guest_stream(), which ends the capture with
 * an error.
 */
#ifndef WEFT_GUEST_CAPTURE_H
#define WEFT_GUEST_CAPTURE_H

#include <stdatomic.h>

#include "graph/graph.h"
#include "core/guest.h"

struct guest_event;

extern _Atomic unsigned capture_count;

/* relaxed: who has begun a capture on another thread has told this one by other means */
static inline bool capture_any(void)
{
	return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}

bool capture_finds(CUstream stream, bool ptsz);

/* True if work for that stream goes into a graph. */
static inline bool capture_wants(CUstream stream, bool ptsz)
{
	return capture_any() && capture_finds(stream, ptsz);
}

/* Adds a node behind what the stream has; takes over what op owns, also on failure. */
CUresult capture_add(CUstream stream, bool ptsz, struct graph_op *op);

CUresult capture_copy(const CUDA_MEMCPY3D *p, CUstream stream, bool ptsz);
CUresult capture_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUstream stream, bool ptsz);

/* cuMemAllocAsync and cuMemFreeAsync in a stream that is being captured. */
CUresult capture_alloc(CUdeviceptr *dptr, size_t size, CUstream stream, bool ptsz);
CUresult capture_free(CUdeviceptr dptr, CUstream stream, bool ptsz);

/* The stream, as it travels, is used by a function that cannot be captured. */
CUresult capture_forbids(uint64_t wire);

/* ---- events ---- */

/*
 * Recording in a stream that is being captured, and making a stream wait: *ret_taken says
 * if a capture was concerned, else the caller goes on.
 */
CUresult capture_record(CUevent event, CUstream stream, bool ptsz, bool *ret_taken);
CUresult capture_wait(CUstream stream, CUevent event, bool ptsz, bool *ret_taken);

/* The event stands for nodes of a capture; asking for it ends the capture. */
CUresult capture_forbids_event(const struct guest_event *e);

/* The event is being destroyed. */
void capture_event_gone(struct guest_event *e);

/* A stream is being destroyed: its capture ends, or goes on without it. */
void capture_stream_gone(uint64_t wire);

/* A context is about to end: all its streams go so. */
void capture_ctx_gone(uint64_t ctx);

#endif
