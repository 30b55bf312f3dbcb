/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream captures, as the rest of the library meets them. While no stream is being
 * captured all of this costs one load. A function that can be captured asks
 * capture_wants() before anything else; every other function that takes a stream goes
 * through guest_stream(), which ends the capture with an error. Captures themselves
 * belong to graph/, whose functions are called through capture_hooks. Any thread.
 */
#ifndef WEFT_GUEST_CAPTURING_H
#define WEFT_GUEST_CAPTURING_H

#include <stdatomic.h>

#include "core/guest.h"

struct guest_event;
struct launch;

struct capture_hooks {
	/* Refuses a function that cannot be captured in a stream, as it travels: its
	 * capture becomes invalid. Returns CUDA_SUCCESS if it is in none. */
	CUresult (*forbids)(uint64_t wire);
	/* Bodies of guest_unsafe() and guest_whole(). */
	CUresult (*unsafe)(struct guest_thread *t);
	CUresult (*whole)(struct guest_thread *t, uint64_t ctx);
	/* True if the stream is being captured. */
	bool (*finds)(CUstream stream, bool ptsz);
	/* Bodies of capture_event_gone() and so on. */
	void (*event_gone)(struct guest_event *e);
	void (*stream_gone)(uint64_t wire);
	void (*ctx_gone)(uint64_t ctx);
	/* Add a node in place of doing the work; only where capture_wants() said true. */
	CUresult (*copy)(const CUDA_MEMCPY3D *p, CUstream stream, bool ptsz);
	CUresult (*launch)(const struct launch *l);
};

/* Functions of graph/; set by cuInit() before any stream can be captured. */
extern const struct capture_hooks *capture_hooks;

/* Captures under way in the process. */
extern _Atomic unsigned capture_count;

/* relaxed: a program that begins a capture in another thread orders the two itself */
static inline bool capture_any(void)
{
	return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}

/* True if work for that stream goes into a graph. */
static inline bool capture_wants(CUstream stream, bool ptsz)
{
	return capture_any() && capture_hooks->finds(stream, ptsz);
}

/* Tells captures that an event is about to be destroyed. */
static inline void capture_event_gone(struct guest_event *e)
{
	if (unlikely(capture_any()))
		capture_hooks->event_gone(e);
}

/* Tells captures that a stream, as it travels, is about to be destroyed: its capture
 * ends, or goes on without it. */
static inline void capture_stream_gone(uint64_t wire)
{
	if (unlikely(capture_any()))
		capture_hooks->stream_gone(wire);
}

/* Tells captures that a context (its handle) is about to end, and with it all its
 * streams. */
static inline void capture_ctx_gone(uint64_t ctx)
{
	if (unlikely(capture_any()))
		capture_hooks->ctx_gone(ctx);
}

#endif
