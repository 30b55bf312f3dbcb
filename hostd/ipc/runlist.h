/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runlist: processes that share the software GPU, as a GPU's host engine has its channel
 * groups. One of those with work has the device at a time, for its slice; then the next has
 * it. What one had beyond its slice, since its blocks run on to the end of theirs, is taken
 * off its next ones (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995).
 *
 * Processes that are shared have their turns together, as the clients of an MPS server, which
 * are one group: in the place of the first of them with work. A fault of one is all of theirs.
 *
 * The list lies in memory that all workers have mapped; weftd makes it, and nobody looks
 * after it. A process that has gone, or says nothing, holds up the others for
 * RUNLIST_GRACE_NS; what one writes there can make the others' turns wrong, and nothing else.
 */
#ifndef WEFT_IPC_RUNLIST_H
#define WEFT_IPC_RUNLIST_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

#define RUNLIST_ENTRIES 1024u
/* Slice of one that has not been told another, as NVIDIA's driver has it. */
#define RUNLIST_SLICE_US 2048u
/* The device is taken from one that is silent for so long after its slice. */
#define RUNLIST_GRACE_NS (20 * NSEC_PER_MSEC)
/* A process that has not said for so long that it has work has none. */
#define RUNLIST_FRESH_NS (100 * NSEC_PER_MSEC)
/* An entry that nobody has used for so long is anybody's. */
#define RUNLIST_UNUSED_NS (10 * NSEC_PER_SEC)
/* Longest slice, and most that is taken off the next ones. */
#define RUNLIST_MOST_NS (200 * NSEC_PER_MSEC)

struct runlist_entry {
	_Atomic uint64_t owner;   /* number of a process; 0: nobody's */
	_Atomic uint64_t seen_ns; /* when it had work last; clock_now_ns() */
	_Atomic uint64_t debt_ns; /* had beyond its slices */
	_Atomic uint32_t slice_us;
	_Atomic uint32_t has_work;
	_Atomic uint32_t word; /* changes when it gets the device: a futex */
	_Atomic uint32_t shared; /* not 0: with all others of which that is true */
	uint32_t pad[6];
};

/* The file. */
struct runlist {
	_Atomic uint32_t current;  /* index of who has the device, + 1; 0: nobody */
	_Atomic uint32_t n;        /* entries that were ever used */
	_Atomic uint64_t until_ns; /* its slice ends */
	/* Faults of those that are shared so far, and the CUDA error of the last. */
	_Atomic uint32_t faults, fault;
	uint64_t room[5];
	struct runlist_entry entries[RUNLIST_ENTRIES];
};
static_assert(sizeof(struct runlist_entry) == 64, "one cache line");

#endif
