/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes that a session writes for traces (ipc/trace.h). Nothing here waits, and it all costs a
 * load and a branch while nobody traces.
 */
#ifndef WEFT_SESS_TRACE_H
#define WEFT_SESS_TRACE_H

#include "ipc/trace.h"
#include "session/session_private.h"

struct sess_func;

/* When something begins that is to be in a trace; 0: nobody traces. */
static inline uint64_t trace_begin(const struct session *s)
{
	return trace_on(s->count) ? clock_now_ns() : 0;
}

/* Writes what a lane has done since then, until now. */
void trace_write_lane(const struct sess_lane *sl, enum trace_kind kind, uint64_t begin_ns,
		      uint64_t value);

/* As above, or nothing: begin_ns is trace_begin()'s. */
static inline void trace_lane(const struct sess_lane *sl, enum trace_kind kind,
			      uint64_t begin_ns, uint64_t value)
{
	if (unlikely(begin_ns))
		trace_write_lane(sl, kind, begin_ns, value);
}

/* Has a launch of f, in the stream that the guest calls that, be traced. */
void trace_launch(const struct sess_lane *sl, struct sess_func *f, uint64_t stream,
		  struct dev_launch *l);
/* Writes n launches that the device was given between then and now, those of them that are
 * traced. */
void trace_submitted(const struct sess_lane *sl, const struct dev_launch *l, unsigned n,
		     uint64_t begin_ns);

/* device_config.ran() of a session. */
void trace_ran(void *session, const struct dev_ran *r);
/* gate_on_passed() of a session. */
void trace_passed(void *session, const struct gate_lane *l, uint64_t since_ns);

#endif
