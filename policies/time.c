/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "policies/sets.h"
#include "policies/time.h"

/* By what the device is divided. */
struct by {
	bool weight;
	/* Tenants that take turns: one goes at a time, and has what all of them are due. NULL:
	 * nobody does. */
	const struct sets *sets;
	double rotating;
};

static const struct by by_weight = {.weight = true}, by_tenant = {.weight = false};

static uint32_t bounded(uint32_t v, uint32_t least, uint32_t most)
{
	return v < least ? least : v > most ? most : v;
}

static double weight(const struct time_tenant *t, const struct by *by)
{
	if (by->sets && sets_rotates(by->sets, t))
		return by->rotating;
	return by->weight ? bounded(t->weight, 1, TIME_WEIGHT_MAX) : 1;
}

/* Whether it is not a tenant's turn. */
static bool waits(const struct time_tenant *t, const struct by *by)
{
	return by->sets && sets_rotates(by->sets, t) && !t->goes;
}

/* Returns what a tenant is due, for one of its sessions. */
static double part(const struct time_tenant *t, const struct by *by)
{
	return weight(t, by) / (t->sessions ? t->sessions : 1);
}

/* Tenants take what they can have that all have work for so much of the time, until one has
 * for less than the second, or has had less than the third of its part of the device. Far
 * apart: a session is looked at some dozen times. */
#define EAGER     900
#define NOT_EAGER 500
#define TAKES     0.3

static bool is_eager(const struct time_tenant *t, double part, bool before)
{
	/* A quota is less than a few long slices. */
	if (t->pending == TIME_UNSEEN || t->quota_us)
		return false;
	if (!before)
		return t->pending >= EAGER;
	return t->pending >= NOT_EAGER &&
	       (t->busy == TIME_UNSEEN || t->busy >= TAKES * 1000 * part);
}

/* Whether all of at least that priority, that have work, take what they can have. */
static bool all_eager(const struct time_tenant *t, uint32_t n, const struct by *by,
		      uint32_t priority, bool before)
{
	double all = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (t[i].sessions && t[i].priority >= priority)
			all += weight(&t[i], by);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].sessions && t[i].priority >= priority &&
		    !is_eager(&t[i], weight(&t[i], by) / all, before))
			return false;
	}
	return true;
}

/* Microseconds for a part of 1: the longest slice is of so many, or as much more as the
 * shortest needs. */
static double us_of_part(double least, double most, double longest)
{
	double us = longest / most;

	if (least * us < TIME_SHORT_US)
		us = TIME_SHORT_US / least;
	return most * us > TIME_LONGEST_US ? TIME_LONGEST_US / most : us;
}

static uint32_t slice(double us)
{
	return TIME_LOAD_US + bounded((uint32_t)(us + 0.5), 1, TIME_LONGEST_US);
}

/* Divides the device among those of at least a priority. */
static void divide(const struct time_tenant *t, uint32_t n, const struct by *by,
		   uint32_t priority, bool *eager, uint32_t *ret_us)
{
	double least = 0, most = 0, us, longest;

	for (uint32_t i = 0; i < n; i++) {
		double p = part(&t[i], by);

		if (!t[i].sessions || t[i].priority < priority)
			continue;
		least = least == 0 || p < least ? p : least;
		most = p > most ? p : most;
	}
	*eager = all_eager(t, n, by, priority, *eager);
	longest = *eager ? TIME_LONG_US : TIME_QUICK_US;
	us = most > 0 ? us_of_part(least, most, longest) : 0;
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].priority >= priority)
			ret_us[i] = us > 0 ? slice(part(&t[i], by) * us) : TIME_LONG_US;
	}
}

/* Returns the highest priority of those that have work; 0: nobody has. */
static uint32_t most_urgent(const struct time_tenant *t, uint32_t n)
{
	uint32_t p = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (t[i].sessions && t[i].priority > p)
			p = t[i].priority;
	}
	return p;
}

uint32_t time_least_urgent(const struct time_tenant *t, uint32_t n)
{
	uint32_t least = n;

	for (uint32_t i = 0; i < n; i++) {
		if (t[i].sessions && t[i].goes &&
		    (least == n || t[i].priority < t[least].priority))
			least = i;
	}
	return least;
}

/* Slices of those below: TIME_BELOW_ALL_US on the average, by weight. */
static uint32_t below_slice(const struct time_tenant *t, const struct by *by, double each)
{
	double us = TIME_BELOW_ALL_US * part(t, by) / each;

	return bounded((uint32_t)us, TIME_BELOW_ALL_US / 5, TIME_BELOW_ALL_US * 3);
}

static void slices_by(const struct by *by, const struct time_tenant *t, uint32_t n,
		      bool *eager, uint32_t *ret_us)
{
	uint32_t priority = most_urgent(t, n);
	uint64_t below = 0;
	double weights = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (t[i].priority >= priority || !t[i].sessions || waits(&t[i], by))
			continue;
		below += t[i].sessions;
		weights += weight(&t[i], by);
	}
	divide(t, n, by, priority, eager, ret_us);
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].priority >= priority)
			continue;
		if (!t[i].sessions)
			ret_us[i] = TIME_BELOW_ALL_US;
		else if (waits(&t[i], by))
			ret_us[i] = TIME_BELOW_MOVES_US;
		else if (below <= 1)
			ret_us[i] = TIME_BELOW_US;
		else
			ret_us[i] = below_slice(&t[i], by, weights / (double)below);
	}
}

void time_fair_slices(const struct time_device *d, const struct time_tenant *t,
		      uint32_t n, bool *eager, uint32_t *ret_us)
{
	slices_by(&by_weight, t, n, eager, ret_us);
}

void sets_slices(const struct time_device *d, const struct time_tenant *t, uint32_t n,
		 bool *eager, uint32_t *ret_us)
{
	const struct sets sets = sets_divide(d, t, n);
	struct by by = {.weight = true, .sets = &sets};

	for (uint32_t i = 0; i < n; i++) {
		if (sets_rotates(&sets, &t[i]))
			by.rotating += bounded(t[i].weight, 1, TIME_WEIGHT_MAX);
	}
	slices_by(&by, t, n, eager, ret_us);
}

void time_weight_slices(const struct time_device *d, const struct time_tenant *t,
			uint32_t n, bool *eager, uint32_t *ret_us)
{
	divide(t, n, &by_weight, 0, eager, ret_us);
}

static void equal_slices(const struct time_device *d, const struct time_tenant *t,
			 uint32_t n, bool *eager, uint32_t *ret_us)
{
	divide(t, n, &by_tenant, 0, eager, ret_us);
}

static void best_effort_slices(const struct time_device *d, const struct time_tenant *t,
			       uint32_t n, bool *eager, uint32_t *ret_us)
{
	(void)t;
	*eager = false;
	memset(ret_us, 0, n * sizeof(*ret_us));
}

const struct time_policy time_fair = {TIME_ABI, "fair", time_fair_slices, NULL, false};
const struct time_policy time_madvise = {TIME_ABI, "madvise", time_fair_slices, NULL,
					 false};
const struct time_policy time_equal = {TIME_ABI, "equal", equal_slices, NULL, false};
const struct time_policy time_best_effort = {TIME_ABI, "best-effort", best_effort_slices,
					     NULL, false};

static const struct time_policy *const policies[] = {
	&time_sets,     &time_fair,      &time_equal,   &time_best_effort,
	&time_priority, &time_exclusive, &time_fixed,   &time_deadline,
	&time_mfit,     &time_amfit,     &time_madvise,
};

const struct time_policy *time_policy_at(unsigned i)
{
	return i < sizeof(policies) / sizeof(policies[0]) ? policies[i] : NULL;
}

const struct time_policy *time_policy_find(const char *name)
{
	const struct time_policy *p;

	for (unsigned i = 0; name && (p = time_policy_at(i)); i++) {
		if (!strcmp(p->name, name))
			return p;
	}
	return NULL;
}
