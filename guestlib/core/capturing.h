/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams that are being captured mean for everybody else. While there are none all
 * of this costs one load. A function that can be captured asks capture_wants() before
 * anything else; every other function that takes a stream goes through guest_stream(),
 * which ends the capture with an error. Captures themselves are the graph room's, which
 * has its functions called here; any thread.
 */
#ifndef WEFT_GUEST_CAPTURING_H
#define WEFT_GUEST_CAPTURING_H

#include <stdatomic.h>

#include "core/guest.h"

struct guest_event;
struct launch;

struct capture_hooks {
	/* A stream, as it travels, is used by a function that cannot be captured. */
	CUresult (*forbids)(uint64_t wire);
	/* guest_unsafe() and guest_whole(). */
	CUresult (*unsafe)(struct guest_thread *t);
	CUresult (*whole)(struct guest_thread *t, uint64_t ctx);
	bool (*finds)(CUstream stream, bool ptsz);
	void (*event_gone)(struct guest_event *e);
	void (*stream_gone)(uint64_t wire);
	void (*ctx_gone)(uint64_t ctx);
	/* Work becomes a node; for a stream that capture_wants() wants. */
	CUresult (*copy)(const CUDA_MEMCPY3D *p, CUstream stream, bool ptsz);
	CUresult (*launch)(const struct launch *l);
};

/* Of the graph room; set by cuInit() before any stream can be captured. */
extern const struct capture_hooks *capture_hooks;

extern _Atomic unsigned capture_count;

/* relaxed: who has begun a capture on another thread has told this one by other means */
static inline bool capture_any(void)
{
	return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}

/* True if work for that stream goes into a graph. */
static inline bool capture_wants(CUstream stream, bool ptsz)
{
	return capture_any() && capture_hooks->finds(stream, ptsz);
}

/* The event is being destroyed. */
static inline void capture_event_gone(struct guest_event *e)
{
	if (unlikely(capture_any()))
		capture_hooks->event_gone(e);
}

/* A stream is being destroyed: its capture ends, or goes on without it. */
static inline void capture_stream_gone(uint64_t wire)
{
	if (unlikely(capture_any()))
		capture_hooks->stream_gone(wire);
}

/* A context is about to end: all its streams go so. */
static inline void capture_ctx_gone(uint64_t ctx)
{
	if (unlikely(capture_any()))
		capture_hooks->ctx_gone(ctx);
}

#endif
