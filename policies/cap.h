/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caps: how much of the device's time a tenant has at most, as cpu.max of cgroup v2 says it:
 * a quota in each period. What it takes beyond its quota, since work cannot be taken back, is
 * owed in the periods that follow; what it leaves is lost.
 *
 * Pure, as placement.h: numbers in, decisions out, and any numbers are safe.
 */
#ifndef WEFT_POLICIES_CAP_H
#define WEFT_POLICIES_CAP_H

#include <stdbool.h>
#include <stdint.h>

/* Bounds of both, and the period if none is said, in us; a shorter one than a few kernels
 * take would be one of debts alone. */
#define CAP_MIN_US    1000u
#define CAP_MAX_US    10000000u
#define CAP_PERIOD_US 100000u

struct cap {
	uint32_t quota_us; /* 0: no cap */
	uint32_t period_us;
};

/* All zero at first, and when the cap changes. */
struct cap_state {
	uint64_t period_ns; /* begin of the present period; 0: none has begun */
	int64_t left_ns;    /* of its quota; less than 0: owed */
	uint64_t until_ns;  /* held until then */
};

/*
 * Takes used_ns of the device's time, until now, off what a tenant has left. Returns until
 * when it is to be held: the begin of the period in which it has something again, or 0: it
 * may go on.
 */
uint64_t cap_charge(struct cap_state *s, const struct cap *c, uint64_t now_ns,
		    uint64_t used_ns);

#endif
