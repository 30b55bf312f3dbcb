/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: when this process has the software GPU, by the runlist (ipc/runlist.h) that all
 * workers have. Without one it always has.
 */
#ifndef WEFT_DEVICE_SOFT_RUNLIST_H
#define WEFT_DEVICE_SOFT_RUNLIST_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/runlist.h"

/* A process's place. Under the device's lock, but for waiting. */
struct soft_turn {
	struct runlist *list; /* NULL: the device is ours alone */
	uint64_t number;      /* of this process */
	uint32_t index;       /* of its entry; RUNLIST_ENTRIES: none yet */
	uint32_t slice_us;
	bool shared;
	uint32_t faults;   /* of those that are shared, when it began */
	uint64_t since_ns; /* it has the device, or work; 0: neither */
	uint64_t had_ns;
};

/* Maps the file; fd stays the caller's, -1: there is none. shared: it has its turns with all
 * others that are. Returns 0 or -errno. */
int soft_turn_init(struct soft_turn *t, int fd, bool shared);
void soft_turn_fini(struct soft_turn *t);

/* From the next slice on; 0: RUNLIST_SLICE_US. */
void soft_turn_slice(struct soft_turn *t, uint32_t us);

/* There is work: returns whether this process has the device now. */
bool soft_turn_take(struct soft_turn *t, uint64_t now_ns);
/* Lets others with work go first: what is here waits for something. */
void soft_turn_yield(struct soft_turn *t, uint64_t now_ns);
/* There is no work. */
void soft_turn_leave(struct soft_turn *t, uint64_t now_ns);

/* Where its entry says that it has the device, and what stands there. */
struct soft_turn_word {
	_Atomic uint32_t *at; /* NULL: it has no entry yet */
	uint32_t was;
};

/* Returns what soft_turn_wait() wants: read before soft_turn_take() has said no. */
struct soft_turn_word soft_turn_word(const struct soft_turn *t);
/* Sleeps until it may be this process's turn, some milliseconds at most. Without the lock. */
void soft_turn_wait(struct soft_turn_word w);

/* A kernel of this process has faulted: so have all that are shared, if it is. */
void soft_turn_fault(const struct soft_turn *t, uint32_t error);
/* The error of another process that was this one's fault as well; 0: none. Without the
 * lock. */
uint32_t soft_turn_faulted(const struct soft_turn *t);

/* Nanoseconds for which it had work and the device. */
uint64_t soft_turn_had_ns(const struct soft_turn *t, uint64_t now_ns);

#endif
