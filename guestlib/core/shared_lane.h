/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes for threads that cannot have one of their own: a session has 256 at most, and
 * each takes a descriptor. Such a thread stays with the lane it was given, and holds it
 * from the beginning of a command to its answer; those of one lane share their per-thread
 * default stream as well.
 */
#ifndef WEFT_GUEST_SHARED_LANE_H
#define WEFT_GUEST_SHARED_LANE_H

#include "core/guest.h"

struct shared_lane;

/* Whether it is time for one more, in a process that is to have n others. */
bool shared_lane_wanted(unsigned n);

/* Takes over l. */
void shared_lane_add(struct lane *l);

/* Gives t one of them, as t->lane and t->shared; false: there is none. */
bool shared_lane_join(struct guest_thread *t);
void shared_lane_leave(struct guest_thread *t);

/* In a forked child. */
void shared_lane_abandon(void);

/* As lane_begin() and so on, for such a thread. */
void *shared_lane_begin(struct guest_thread *t, uint16_t op, uint32_t size,
			uint32_t payload_size, void **ret_payload);
int shared_lane_post(struct guest_thread *t);
int shared_lane_send(struct guest_thread *t);
int shared_lane_answer(struct guest_thread *t, struct lane_reply *ret_reply);
int shared_lane_next(struct guest_thread *t, struct lane_reply *ret_reply);

#endif
