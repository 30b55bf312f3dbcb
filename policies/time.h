/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: for how long each session has the device at a stretch, while several want it. The
 * hardware goes round among the sessions that have work and preempts each when its slice
 * is over, whatever code runs; one that has nothing to run is passed over.
 *
 * Pure, as placement.h: numbers in, decisions out, and any numbers are safe.
 *
 * To go from one session to the next costs the device 180 us (driver 580, H200), TIME_LOAD_US
 * of which are of the slice of the one that comes. In slices of 10 ms two to eight loops of
 * kernels of 1 ms get 98 % of what one gets alone, in those of 2 ms, the driver's own, 91 %.
 * So slices are long once all that compute have been seen to have work all the time, and
 * short while one has not: it waits for results, and for the end of the others' slices. In
 * long ones it would have work all the time too, and get little of it done.
 */
#ifndef WEFT_POLICIES_TIME_H
#define WEFT_POLICIES_TIME_H

#include <stdbool.h>
#include <stdint.h>

#define TIME_ABI          1u
#define TIME_WEIGHT_MAX   10000u
#define TIME_PRIORITY_MAX 100u

#define TIME_LOAD_US      24u
/* Longest slice, while no other is shorter than TIME_SHORT_US for it: while all take what
 * they can have, and while one does not. Longest of all. */
#define TIME_LONG_US    10000u
#define TIME_QUICK_US   2000u
#define TIME_SHORT_US   500u
#define TIME_LONGEST_US 100000u
/* Slice of a session alone below somebody in a hurry, who waits for its end: some
 * microseconds more than loading takes, or it would never come to anything. And of several:
 * in much shorter ones the device would do little but go round among them. */
#define TIME_BELOW_US     30u
#define TIME_BELOW_ALL_US 1000u

struct time_tenant {
	uint32_t weight;   /* 1 to TIME_WEIGHT_MAX */
	uint32_t priority; /* more is more urgent */
	uint32_t sessions; /* that have work, or had some a moment ago */
	/* Per mille of the last seconds in which all of its sessions had work, waiting or
	 * running; of the device that it had, in longer ones. TIME_UNSEEN: nobody has looked
	 * yet. */
	uint32_t pending, busy;
};

#define TIME_UNSEEN UINT32_MAX

struct time_policy {
	uint32_t abi; /* TIME_ABI */
	const char *name;
	/*
	 * Says in ret_us[i], of n, for how many microseconds each session of tenant i has
	 * the device at a stretch, if it has work: those of one tenant all alike, a tenant's
	 * time not depending on how many it has. 0: as long as the driver has it.
	 * *eager: whether all take what they can have; as it said last time, false at first.
	 */
	void (*slices)(const struct time_tenant *t, uint32_t n, bool *eager,
		       uint32_t *ret_us);
};

/*
 * fair:        by weight among the most urgent that have work; those below them get little,
 *              and never nothing.
 * equal:       each tenant as much as any other; neither weight nor priority counts.
 * best-effort: as the driver does it: each session as much as any other.
 */
extern const struct time_policy time_fair, time_equal, time_best_effort;

/* NULL: none has that name. */
const struct time_policy *time_policy_find(const char *name);
/* The i-th; NULL: that was all. The first is the one to use if nothing else is said. */
const struct time_policy *time_policy_at(unsigned i);

#endif
