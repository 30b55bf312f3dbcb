/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes for threads that cannot have one of their own: a session has 256 at most, and
 * each takes a descriptor. Such a thread stays with the lane it was given, and holds it
 * from the beginning of a command to its answer; threads with the same lane share their
 * per-thread default stream as well.
 */
#ifndef WEFT_GUEST_SHARED_LANE_H
#define WEFT_GUEST_SHARED_LANE_H

#include "core/guest.h"

struct shared_lane;

/* True if one more shared lane is to be opened before the process opens its n-th own
 * one. */
bool shared_lane_wanted(unsigned n);

/* Adds a lane to those that are shared, and takes it over. */
void shared_lane_add(struct lane *l);

/* Give t a shared lane, as t->lane and t->shared (false: no lane or no memory), and take
 * it away again. */
bool shared_lane_join(struct guest_thread *t);
void shared_lane_leave(struct guest_thread *t);

/* Forgets all shared lanes; for a forked child. */
void shared_lane_abandon(void);

/* As lane_begin() and so on, for a thread with a shared lane. */
void *shared_lane_begin(struct guest_thread *t, uint16_t op, uint32_t size,
			uint32_t payload_size, void **ret_payload);
int shared_lane_post(struct guest_thread *t);
int shared_lane_send(struct guest_thread *t);
int shared_lane_answer(struct guest_thread *t, struct lane_reply *ret_reply);
int shared_lane_next(struct guest_thread *t, struct lane_reply *ret_reply);

#endif
