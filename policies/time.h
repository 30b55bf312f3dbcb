/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: for how long each session has the device at a stretch, while several want it, and
 * who may want it. The hardware goes round among the sessions that have work and preempts
 * each when its slice is over, whatever code runs; one that has nothing to run is passed
 * over. A tenant that may not go submits nothing, and what it has submitted ends.
 *
 * Pure, as placement.h: numbers in, decisions out, and any numbers are safe. This header is
 * all that a policy outside the tree needs; hostd/doc/write-a-policy.md is its page.
 *
 * To go from one session to the next costs the device 180 us (driver 580, H200), TIME_LOAD_US
 * of which are of the slice of the one that comes. In slices of 10 ms two to eight loops of
 * kernels of 1 ms get 98 % of what one gets alone, in those of 2 ms, the driver's own, 91 %.
 * So slices are long once all that compute have been seen to have work all the time, and
 * short while one has not: it waits for results, and for the end of the others' slices. In
 * long ones it would have work all the time too, and get little of it done. While one has a
 * cap they are short as well: a quota is as long as a few of them.
 */
#ifndef WEFT_POLICIES_TIME_H
#define WEFT_POLICIES_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIME_ABI          3u
#define TIME_WEIGHT_MAX   10000u
#define TIME_PRIORITY_MAX 100u

#define TIME_LOAD_US      24u
#define TIME_SWITCH_US    156u /* and the rest, which is of nobody's slice */
/* To take a session off at once and to load it again, likewise (pace.h); H200. */
#define TIME_PREEMPT_US 500u
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
/* And of one that waits for its turn while its memory moves: what looks whether 64 MiB have
 * changed is done in one. Were it as short as that of the one that goes, they would go to and
 * fro and neither get anywhere. */
#define TIME_BELOW_MOVES_US 200u

/* How long somebody in a hurry who launches one short kernel after the other waits for more of
 * them at most (session/gate.h), so that those below have the device meanwhile. */
#define TIME_GATHER_US 1500u
/* Unless it has work for so many per mille of the time: the device's, not the program's. */
#define TIME_GATHER_PENDING 700u

struct time_device {
	/* Bytes that the sessions which compute may have on the device, all together; 0: what
	 * they have is never moved out. */
	uint64_t memory;
};

struct time_tenant {
	uint32_t weight;   /* 1 to TIME_WEIGHT_MAX */
	uint32_t priority; /* more is more urgent */
	uint32_t sessions; /* that have work, or had some a moment ago */
	/* Per mille of the last seconds in which all of its sessions had work, waiting or
	 * running; of the device that it had, in longer ones. TIME_UNSEEN: nobody has looked
	 * yet. For turns(), pending is of its turns, while all its set was there: in how many
	 * looks it had work on the device. */
	uint32_t pending, busy;
	/* Bytes that its sessions which compute have, wherever they are, and of these such as
	 * are in host memory; 0, too, if that is next to nothing. */
	uint64_t set, out;
	uint64_t all;   /* bytes that they have, with such as they do without */
	uint64_t fixed; /* of set: what never leaves the device, as contexts */
	uint64_t asks;  /* bytes that they allocate, and wait for */

	bool goes; /* it may, by turns() */
	/* For turns() alone. Whether it has work now, on the device or before it, and for how
	 * many microseconds it has had none; for how long it has gone, or not. */
	bool works;
	uint32_t idle_us, for_us;
	uint32_t latency_us; /* longest that it is to wait for its turn; 0: any */
	uint32_t in_us; /* since nothing of its set was out, in this turn or before it */
	uint32_t still_us; /* for how long `out` has not got less than it was before */
	/* For how long it has been first in the line and does not go; 0: it is not yet. */
	uint32_t first_us;
	/* The quota of its cap (cap.h), 0 if it has none, which slices() hears of, too; what
	 * is left of that, and how many microseconds of the period are. */
	uint32_t quota_us, left_us, ends_us;
};

#define TIME_UNSEEN UINT32_MAX

/* The line: what turns() says of each tenant. What a tenant has leaves the device and comes
 * back in that order (placement.h). */
struct time_turn {
	bool go; /* now */
	/* Microseconds from now to its next turn: 0: it goes, or there is no line; TIME_NEVER:
	 * none is in sight. And how long that will be; 0: nobody knows. */
	uint32_t begins_us, lasts_us;
};

#define TIME_NEVER UINT32_MAX

/* How long a tenant goes alone, of the weight of 100, while others want to. */
#define TIME_TURN_US 20000u
/* One that had nothing to do for so long has had its turn. */
#define TIME_IDLE_US 2000u
/* One that has waited for so long goes, however urgent others are. */
#define TIME_STARVED_US 1000000u

struct time_policy {
	uint32_t abi; /* TIME_ABI */
	const char *name;
	/*
	 * Says in ret_us[i], of n, for how many microseconds each session of tenant i has
	 * the device at a stretch, if it has work: those of one tenant all alike, a tenant's
	 * time not depending on how many it has. 0: as long as the driver has it.
	 * *eager: whether all take what they can have; as it said last time, false at first.
	 */
	void (*slices)(const struct time_device *d, const struct time_tenant *t,
		       uint32_t n, bool *eager, uint32_t *ret_us);
	/*
	 * Says in ret_turn[i], of n and zero before, whether tenant i may go now, and when;
	 * asked about once a millisecond while somebody computes. Who is to go and could not
	 * waits until what the others had submitted has ended, or for TIME_DRAIN_US. NULL: all
	 * may go.
	 */
	void (*turns)(const struct time_device *d, const struct time_tenant *t,
		      uint32_t n, struct time_turn *ret_turn);
	/* Turns are for memory that does not fit: while all go, it is asked 20 times a second,
	 * and sessions queue as much as they like. */
	bool by_memory;
};

#define TIME_DRAIN_US 50000u
/* By memory, where nothing of one that has work moves. */
#define TIME_DRAIN_MEMORY_US 500000u

/* Name of the table that a shared object has. */
#define TIME_SYMBOL "weft_time_policy"

/*
 * fair:        by weight among the most urgent that have work; those below them get little,
 *              and never nothing.
 * equal:       each tenant as much as any other; neither weight nor priority counts.
 * best-effort: as the driver does it: each session as much as any other.
 * priority:    the most urgent that have work, and nobody else; who has waited for a second
 *              goes for a moment.
 * exclusive:   one tenant at a time, among the most urgent, for a turn by weight.
 * fixed:       one tenant at a time, whether it has work or not.
 * deadline:    of those with something left of their quota, the one whose period ends first;
 *              the others when none of these has work.
 * sets:        as fair while all that tenants compute with fits on the device. If not, those
 *              that do not fit beside each other go one at a time, in turns by weight, while
 *              the next one's memory comes in; the others go on beside them.
 * mfit:        who has work goes when all the memory that it has fits beside those that go; who
 *              has waited for its latency, or a second, in any case, and of those that go the
 *              largest wait until it fits.
 * amfit:       as mfit, by what they use of it.
 * madvise:     as fair: nobody waits, each has its share of the device's memory, or memory.high,
 *              and reads the rest where it is.
 */
extern const struct time_policy time_fair, time_equal, time_best_effort, time_priority,
	time_exclusive, time_fixed, time_deadline, time_sets, time_mfit, time_amfit,
	time_madvise;

/* Slices by weight and priority, and by weight alone; for the tables above. */
void time_fair_slices(const struct time_device *d, const struct time_tenant *t,
		      uint32_t n, bool *eager, uint32_t *ret_us);
void time_weight_slices(const struct time_device *d, const struct time_tenant *t,
			uint32_t n, bool *eager, uint32_t *ret_us);

/* The first of the least urgent that have work and may go, who has the device while others have
 * nothing for it; n: nobody. */
uint32_t time_least_urgent(const struct time_tenant *t, uint32_t n);

/* NULL: none has that name. */
const struct time_policy *time_policy_find(const char *name);
/* The i-th; NULL: that was all. The first is the one to use if nothing else is said. */
const struct time_policy *time_policy_at(unsigned i);

#endif
