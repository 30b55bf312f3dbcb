/* SPDX-License-Identifier: Apache-2.0 */
/* Policies by which some tenants wait while others go. */
#include "policies/sets.h"
#include "policies/time.h"

static uint32_t turn_us(const struct time_tenant *t)
{
	uint64_t weight = t->weight < 1                 ? 1
			  : t->weight > TIME_WEIGHT_MAX ? TIME_WEIGHT_MAX
							: t->weight;

	return (uint32_t)(weight * TIME_TURN_US / 100);
}

static void let_all_go(uint32_t n, struct time_turn *ret_turn)
{
	for (uint32_t i = 0; i < n; i++)
		ret_turn[i].go = true;
}

/* The one that goes, and nobody else; n: there is none such. */
static uint32_t goes_alone(const struct time_tenant *t, uint32_t n)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (!t[i].goes)
			continue;
		if (one != n)
			return n;
		one = i;
	}
	return one;
}

/* The most urgent of those that have work: its priority. Returns whether anybody has. */
static bool most_urgent(const struct time_tenant *t, uint32_t n, uint32_t *ret_priority)
{
	bool any = false;

	*ret_priority = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!t[i].works)
			continue;
		any = true;
		if (t[i].priority > *ret_priority)
			*ret_priority = t[i].priority;
	}
	return any;
}

/* The one that has waited longest, if that is too long; n: nobody has. */
static uint32_t starved(const struct time_tenant *t, uint32_t n)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (t[i].works && !t[i].goes && t[i].for_us >= TIME_STARVED_US &&
		    (one == n || t[i].for_us > t[one].for_us))
			one = i;
	}
	return one;
}

/* ---- priority ---- */

static void priority_turns(const struct time_device *d, const struct time_tenant *t,
			   uint32_t n, struct time_turn *ret_turn)
{
	uint32_t priority, one = starved(t, n);

	if (!most_urgent(t, n, &priority)) {
		let_all_go(n, ret_turn);
		return;
	}
	/* The starved one goes for a moment: the next time it has not waited. */
	for (uint32_t i = 0; i < n; i++)
		ret_turn[i].go = t[i].priority >= priority || i == one;
}

/* ---- exclusive ---- */

/* The one with work, of at least that priority, that has waited longest; n: nobody. */
static uint32_t next(const struct time_tenant *t, uint32_t n, uint32_t priority)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (!t[i].works || t[i].priority < priority)
			continue;
		if (one == n || sets_waited_longer(&t[i], &t[one]))
			one = i;
	}
	return one;
}

static void exclusive_turns(const struct time_device *d, const struct time_tenant *t,
			    uint32_t n, struct time_turn *ret_turn)
{
	uint32_t one = goes_alone(t, n), priority, late = starved(t, n);

	if (!most_urgent(t, n, &priority)) {
		let_all_go(n, ret_turn);
	} else if (one != n && t[one].for_us < turn_us(&t[one]) &&
		   t[one].idle_us < TIME_IDLE_US) {
		ret_turn[one].go = true;
	} else if (late != n) {
		ret_turn[late].go = true;
	} else {
		ret_turn[next(t, n, priority)].go = true;
	}
}

/* ---- fixed ---- */

/* The next that has sessions, work or not; n: nobody. */
static uint32_t next_present(const struct time_tenant *t, uint32_t n, uint32_t from)
{
	for (uint32_t k = 1; k <= n; k++) {
		if (t[(from + k) % n].sessions)
			return (from + k) % n;
	}
	return n;
}

static void fixed_turns(const struct time_device *d, const struct time_tenant *t,
			uint32_t n, struct time_turn *ret_turn)
{
	uint32_t one = goes_alone(t, n);

	if (one == n || !t[one].sessions || t[one].for_us >= turn_us(&t[one]))
		one = next_present(t, n, one == n ? n - 1 : one);
	if (one == n)
		let_all_go(n, ret_turn);
	else
		ret_turn[one].go = true;
}

/* ---- deadline ---- */

/* Earliest deadline first (Liu and Layland, 1973): what a tenant has left of its quota is
 * due when its period ends. */
static void deadline_turns(const struct time_device *d, const struct time_tenant *t,
			   uint32_t n, struct time_turn *ret_turn)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (t[i].works && t[i].quota_us && t[i].left_us &&
		    (one == n || t[i].ends_us < t[one].ends_us))
			one = i;
	}
	if (one == n)
		let_all_go(n, ret_turn);
	else
		ret_turn[one].go = true;
}

const struct time_policy time_priority = {TIME_ABI, "priority", time_weight_slices,
					  priority_turns, false};
const struct time_policy time_exclusive = {TIME_ABI, "exclusive", time_weight_slices,
					   exclusive_turns, false};
const struct time_policy time_fixed = {TIME_ABI, "fixed", time_weight_slices, fixed_turns,
				       false};
const struct time_policy time_deadline = {TIME_ABI, "deadline", time_weight_slices,
					  deadline_turns, false};
