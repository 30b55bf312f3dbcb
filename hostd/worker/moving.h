/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a worker that moves the session's memory between the device and host
 * memory when weftd says so (ipc/msg.h).
 *
 * For each move it closes the session's gate and opens it afterwards. If the work under
 * way does not end in time it says so, and others are asked instead. But each time in a
 * row that this happens it is patient for longer, up to a second, and says when the
 * device is quiet (QUIESCED): so memory under kernels of some hundred milliseconds moves
 * as well, and nobody else waits for that. As long as something is swapped it stays
 * closed: the first lane that wants in makes the thread ask weftd for room (NEED), and
 * what gets none is mapped where it is. weftd may have more moved out meanwhile. A lane
 * that is to share memory has it made resident before (MAKE_RESIDENT).
 */
#ifndef WEFT_WORKER_MOVING_H
#define WEFT_WORKER_MOVING_H

#include <stdbool.h>

#include "ipc/msg.h"

struct broker_link;
struct moving;
struct session;

/* Starts the thread, before the session's first lane. evicts: weftd may have memory moved, too,
 * and is told so. Returns 0 or -errno. */
int moving_new(struct session *s, struct broker_link *link, bool evicts,
	       struct moving **ret_m);
/* Ends it, once it has done what it is at; the gate stays as it is. No lane waits for
 * what becomes resident. Accepts NULL. */
void moving_free(struct moving *m);

/*
 * Any thread: takes RECLAIM, RESTORE, PREALLOC, NEED_GRANTED and RESIDENT_GRANTED.
 * Returns 0 or -EPROTO: weftd does not say such a thing now, or never.
 */
int moving_told(struct moving *m, const struct msg *msg);
/* Any thread: answers RESUME, and asks again what weftd has not answered. Moves go on
 * meanwhile: what they hold up may be what weftd is asked. Returns 0 or -errno. */
int moving_resume(struct moving *m, uint32_t id);

#endif
