/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to policies/: which tenants take turns while the memory that all compute with does
 * not fit on the device. As many as can stay there, the most urgent first, then those that have
 * least: as long as room is left for two of the others at a time, for the one whose turn it is
 * and the one that is next. Where two of the others never fit, or are less urgent, for one of
 * them.
 */
#ifndef WEFT_POLICIES_SETS_H
#define WEFT_POLICIES_SETS_H

#include "policies/time.h"

struct sets {
	bool turns; /* false: all fits, or nobody knows */
	/* Tenants stay that are more urgent than that, or, as urgent, have no more memory; false:
	 * nobody does. */
	bool some_stay;
	uint32_t priority;
	uint64_t bytes;
};

static inline uint64_t sets_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct sets sets_divide(const struct time_device *d, const struct time_tenant *t,
			uint32_t n);

static inline bool sets_rotates(const struct sets *s, const struct time_tenant *t)
{
	if (!s->turns || !t->sessions)
		return false;
	if (!s->some_stay || t->priority < s->priority)
		return true;
	return t->priority == s->priority && t->set > s->bytes;
}

/* Whether a tenant has waited for longer than another; one that goes has not waited. */
static inline bool sets_waited_longer(const struct time_tenant *t,
				      const struct time_tenant *than)
{
	return t->goes == than->goes ? t->for_us > than->for_us : than->goes;
}

/* Bytes that one of n can have on the device once the others' memory has left it. */
uint64_t sets_room(const struct time_device *d, const struct time_tenant *one,
		   const struct time_tenant *t, uint32_t n);

/* Slices by weight and priority, where those that take turns have the weight of all of them:
 * for time_sets. */
void sets_slices(const struct time_device *d, const struct time_tenant *t, uint32_t n,
		 bool *eager, uint32_t *ret_us);

#endif
