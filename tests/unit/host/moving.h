/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of moving.c for tests of its suite in other files: a session that moves, and a weftd
 * that says when. */
#ifndef WEFT_TESTS_MOVING_H
#define WEFT_TESTS_MOVING_H

#include <cuda.h>

#include "ipc/msg.h"
#include "policies/placement.h"
#include "transport/lane.h"

struct session;

/* The session, and the guest's end of its first lane. */
struct session *moving_session(struct lane **ret_lane);
CUdeviceptr moving_alloc(struct lane *l, uint64_t bytes);
void moving_release(struct lane *l, CUdeviceptr addr);
/* Fills memory with a word, and sees that it has it. */
void moving_fill(struct lane *l, CUdeviceptr addr, uint64_t bytes, uint32_t value);
void moving_check(struct lane *l, CUdeviceptr addr, uint64_t bytes, uint32_t value);
/* Has weftd move so much: until it is done, or once. */
struct msg_moved moving_move(enum msg_type type, uint32_t id, uint64_t bytes,
			     enum placement_where where);
extern bool moving_only_copies; /* weftd says so */
struct msg_moved moving_reclaim(uint32_t id, uint64_t bytes);
uint64_t moving_swapped(void), moving_mapped(void);
/* The latest message of a type from the worker, once there have been n. */
struct msg moving_wait(enum msg_type type, unsigned n);
/* Answers NEED. */
void moving_grant(uint32_t id, uint64_t bytes);

#endif
