/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated weftd's look at tenants that take turns by memory, once a millisecond. */
#ifndef WEFT_TEST_LINE_H
#define WEFT_TEST_LINE_H

#include <string.h>

#include "policies/placement.h"
#include "policies/time.h"

/* A tenant is seen: whether it has work, and how much of its set is in host memory. */
static inline void line_see(struct time_tenant *t, bool works, uint64_t out)
{
	t->works = works;
	t->idle_us = works ? 0 : t->idle_us + 1000;
	t->for_us = t->for_us > UINT32_MAX - 1000 ? UINT32_MAX : t->for_us + 1000;
	t->still_us = out < t->out ? 0 : t->still_us + 1000;
	t->out = out;
	t->in_us = out ? 0 : t->in_us + 1000;
}

/* Asks who goes. True: one of those that went does not any more, and what it had submitted ends
 * first. for_us is 0 of those with whom it changes. */
static inline bool line_take_turns(const struct time_device *d, struct time_tenant *t,
				   uint32_t n, struct time_turn *turn)
{
	bool changes = false;

	memset(turn, 0, n * sizeof(*turn));
	time_sets.turns(d, t, n, turn);
	for (uint32_t i = 0; i < n; i++) {
		bool go = turn[i].go;

		changes |= !go && t[i].goes;
		t[i].for_us = go == t[i].goes ? t[i].for_us : 0;
		t[i].goes = go;
	}
	return changes;
}

/* Tells placement the places in the line. */
static inline void line_up(const struct time_turn *turn, struct placement_tenant *p,
			   uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t before = 1;

		for (uint32_t k = 0; k < n && before < PLACEMENT_TURNS - 1; k++)
			before += turn[k].begins_us &&
				  turn[k].begins_us < turn[i].begins_us;
		p[i].turn = !turn[i].begins_us                ? 0
			    : turn[i].begins_us == TIME_NEVER ? PLACEMENT_TURNS - 1
							      : before;
	}
}

#endif
