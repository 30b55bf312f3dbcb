/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, for what is not a stream: when they are idle, and whose they are. */
#ifndef WEFT_GUEST_STREAM_H
#define WEFT_GUEST_STREAM_H

#include "core/idle.h"

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

/* Takes part in the legacy stream's implicit order. */
bool stream_is_blocking(uint64_t wire);

#endif
