/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, for what is not a stream: when they are idle, and whose they are. */
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
	_Atomic uint64_t idle; /* core/idle.h */
	CUstreamAttrValue attrs[STREAM_ATTRS];
};

/* ---- streams, as they travel; stream_wait.c ---- */

/* When the stream was last known to be idle; NULL for one that is not known. */
_Atomic uint64_t *idle_of_stream(struct guest_thread *t, uint64_t wire);

/* The stream was idle at a moment after idle_now() was `now`. */
static inline void idle_note(struct guest_thread *t, uint64_t wire, uint64_t now)
{
	_Atomic uint64_t *at = idle_of_stream(t, wire);

	if (at)
		atomic_store_explicit(at, now, memory_order_relaxed);
}

/* Waits for the stream, if it is not known to be idle. */
CUresult stream_wait(struct guest_thread *t, uint64_t wire);

/* ---- stream.c: of streams that were made ---- */

_Atomic uint64_t *stream_idle(uint64_t h); /* NULL: no such stream */
uint64_t stream_ctx(uint64_t h);           /* of which context; 0: no such stream */

/* The priority it was made with, into *priority. stream as a caller gives it, NULL by ptsz;
 * what cuStreamGetPriority() says of it. */
CUresult stream_get_priority(CUstream stream, int *priority, bool ptsz);

/* Takes part in the legacy stream's implicit order. */
bool stream_is_blocking(uint64_t wire);

/*
 * What is known of a stream as a caller gives it, NULL by ptsz, into *ret_s: the default
 * streams' is the whole process's. What the gate says, INVALID_CONTEXT, INVALID_HANDLE.
 */
CUresult stream_find(CUstream stream, bool ptsz, struct guest_stream_info **ret_s);

/* A new stream of the thread's current context, made without waiting; flags are checked,
 * the priority is clamped. */
CUresult stream_new(struct guest_thread *t, unsigned flags, int priority,
		    uint64_t *ret_handle);

/* It was destroyed: its handle ends, and s with it. */
void stream_drop(struct guest_stream_info *s);

/* The nearest that the device has. Greater priorities are smaller numbers. */
int stream_clamp_priority(int priority);

#endif
