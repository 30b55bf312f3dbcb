/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, for the files that are about something else: when they are idle, and whose
 * they are. */
#ifndef WEFT_GUEST_STREAM_H
#define WEFT_GUEST_STREAM_H

#include "core/idle.h"
#include "object/owned.h"

#define STREAM_ATTRS 11 /* CU_STREAM_ATTRIBUTE_* are launch attributes below this one */

struct guest_stream_info {
	struct owned owned;
	uint64_t handle;
	unsigned flags;
	int priority;
	uint64_t id;
	uint64_t ctx;
	struct guest_ctx *green; /* that of a green context, referenced; NULL: of none */
	_Atomic uint64_t idle; /* core/idle.h */
	CUstreamAttrValue attrs[STREAM_ATTRS];
};

/* ---- streams, as they travel; stream_wait.c ---- */

/* Finds the value of idle_now() at which a stream, as it travels, was last known to be
 * idle; NULL: no such stream. */
_Atomic uint64_t *idle_of_stream(struct guest_thread *t, uint64_t wire);

/* Notes that the stream was idle at a moment after idle_now() was `now`. */
static inline void idle_note(struct guest_thread *t, uint64_t wire, uint64_t now)
{
	_Atomic uint64_t *at = idle_of_stream(t, wire);

	if (at)
		atomic_store_explicit(at, now, memory_order_relaxed);
}

/* Waits for the stream, if it is not known to be idle. Returns the worker's code. */
CUresult stream_wait(struct guest_thread *t, uint64_t wire);

/* ---- stream.c: of streams that were made ---- */

_Atomic uint64_t *stream_idle(uint64_t h); /* NULL: no such stream */
uint64_t stream_ctx(uint64_t h);           /* its context's handle; 0: no such stream */

/* Gives the priority that the stream was made with, as cuStreamGetPriority() does.
 * stream: as a caller gives it, NULL by ptsz. */
CUresult stream_get_priority(CUstream stream, int *priority, bool ptsz);

/* True if the stream takes part in the legacy stream's implicit order. */
bool stream_is_blocking(uint64_t wire);

/*
 * Finds the shadow of a stream as a caller gives it, NULL by ptsz; the default streams'
 * shadows are the whole process's. The gate's error, INVALID_CONTEXT or INVALID_HANDLE.
 */
CUresult stream_find(CUstream stream, bool ptsz, struct guest_stream_info **ret_s);

/* Makes a stream of the thread's current context without waiting, or, of a green context's
 * (green: its shadow), as soon as the worker has said that it can be; flags are checked, the
 * priority is clamped. */
CUresult stream_new(struct guest_thread *t, struct guest_ctx *green, unsigned flags,
		    int priority, uint64_t *ret_handle);
/* The shadow of the green context that a stream belongs to, as it travels; NULL: none. */
struct guest_ctx *stream_green(uint64_t wire);

/* Ends a stream's handle and frees s, after the stream was destroyed. */
void stream_drop(struct guest_stream_info *s);

/* Clamps a priority to those that the device has. Greater priorities are smaller
 * numbers. */
int stream_clamp_priority(int priority);

#endif
