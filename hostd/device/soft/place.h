/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the block that runs next, and of its SM: the executor's decisions, without
 * its threads. Everything is under the device's lock. */
#ifndef WEFT_DEVICE_SOFT_PLACE_H
#define WEFT_DEVICE_SOFT_PLACE_H

#include "device/soft/exec.h"

/* Spare ctas kept per thread. */
#define SOFT_SPARE_PER_THREAD 4

/* Rounds of turns that came to nothing, before more blocks are placed, or threads sleep.
 */
#define SOFT_PATIENCE 8

struct soft_block {
	struct simt_cta *cta;
	unsigned sm;
	bool done;
};

/* The place of a resident block or cluster. */
struct soft_slot {
	struct list link; /* soft_kernel.turns */
	struct soft_kernel *kernel;
	uint64_t cluster; /* which */
	uint64_t instr;   /* run so far */
	bool started;
	unsigned n;
	struct soft_block blocks[];
};

struct soft_need soft_sm_empty(void);

/* The kernel that has its turn now, or NULL. */
struct soft_kernel *soft_kernel_pick_locked(struct soft_exec *e);

/*
 * The slot that should run now, taken out of every list; NULL if there is none, or if it
 * is not of ctx (of stream st) where these are given.
 */
struct soft_slot *soft_slot_pick_locked(struct soft_exec *e, const struct dev_ctx *ctx,
					const struct dev_stream *st);

/* Queues a slot for its next turn. */
void soft_slot_wait_turn_locked(struct soft_exec *e, struct soft_slot *s);

/* Takes the kernel's first slot out of its turns; NULL if there is none. */
struct soft_slot *soft_slot_next_turn_locked(struct soft_exec *e, struct soft_kernel *k);

/* Gives back what the slot holds. The kernel may have nothing left to do then. */
void soft_slot_free_locked(struct soft_exec *e, struct soft_slot *s);

#endif
