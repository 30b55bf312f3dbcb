/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter of a session: what the device did for it, in the page that weftd sees, and how
 * fast it may go on. From a launch on until nothing has run for some seconds the main thread
 * looks at it; before and afterwards it costs nothing.
 */
#ifndef WEFT_WORKER_METER_H
#define WEFT_WORKER_METER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"
#include "session/session.h"

struct meter {
	struct session *s;
	struct sess_parts on;
	pthread_mutex_t lock; /* of these three */
	uint64_t busy_ns, memory_ns, busy_at_ns;
	uint64_t looked_at_ns, look_ns; /* look_ns: between two looks */
	uint64_t looks_seen;            /* the page's looks_pending at the last tick */
	bool had_known;                 /* and how long it has had the device: */
	uint64_t had_ns;
	uint64_t launches;              /* the page's when there was no work last */
	bool held;                      /* by weftd */
	uint64_t preempt_until_ns;      /* 0: it may compute */
	bool preempted;
	unsigned quiet;                 /* ticks without a change of busy_ns */
};

/* Before the session's first lane, when its page is known. */
void meter_init(struct meter *m, struct session *s);
/* Main thread: something runs from now on. */
void meter_begin(struct meter *m);
/* Main thread: looks, if it is time. Returns nanoseconds until the next time, or
 * EPOLL_FOREVER. */
uint64_t meter_look(struct meter *m);
/* Main thread: weftd says how fast the session may go on. */
void meter_pace(struct meter *m, const struct msg_pace *p);
/* Any thread: the last moments of the session. */
void meter_end(struct meter *m);

#endif
