/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "policies/blocks.h"

static uint32_t least_of(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t most_of(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void decide_all(struct blocks_session *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		s[i].permille = 0;
}

/* ---- sim ---- */

/* Given so far: parts of each session's blocks, and what they take. */
struct given {
	uint32_t parts[BLOCKS_SESSIONS_MAX];
	bool closed[BLOCKS_SESSIONS_MAX]; /* has what it gets */
	uint64_t taken[BLOCKS_RESOURCES];
};

static uint32_t blocks_with(const struct blocks_session *s, uint32_t parts)
{
	return most_of(1, (uint32_t)((uint64_t)s->blocks * parts / BLOCKS_PARTS));
}

/* In proportion, where nobody knows. */
static uint32_t speed_with(const struct blocks_session *s, uint32_t parts)
{
	uint32_t known = s->speed[parts - 1];

	return known ? least_of(known, 1000) : 1000 * parts / BLOCKS_PARTS;
}

/* Fewest parts that make it quicker; 0: none do. */
static uint32_t next_parts(const struct blocks_session *s, uint32_t parts)
{
	for (uint32_t i = parts + 1; i <= BLOCKS_PARTS; i++) {
		if (speed_with(s, i) > speed_with(s, parts) &&
		    blocks_with(s, i) > blocks_with(s, parts))
			return i;
	}
	return 0;
}

static bool take(struct given *g, const struct blocks_session *s, uint32_t from,
		 uint32_t to)
{
	uint64_t more[BLOCKS_RESOURCES];
	uint32_t had = from ? blocks_with(s, from) : 0;

	for (uint32_t r = 0; r < BLOCKS_RESOURCES; r++) {
		more[r] = (uint64_t)s->need[r] * (blocks_with(s, to) - had);
		if (g->taken[r] + more[r] > BLOCKS_ALL)
			return false;
	}
	for (uint32_t r = 0; r < BLOCKS_RESOURCES; r++)
		g->taken[r] += more[r];
	return true;
}

/* Gain: what its next parts would make of its speed. */
static uint32_t gain(const struct given *g, const struct blocks_session *s, uint32_t i)
{
	uint32_t to = next_parts(&s[i], g->parts[i]);

	return to ? speed_with(&s[i], to) - speed_with(&s[i], g->parts[i]) : 0;
}

/* The one that is slowed down most, by its weight, of those that can be quicker; of equal ones the
 * one that gains most; n: none. */
static uint32_t slowest(const struct given *g, const struct blocks_session *s, uint32_t n)
{
	uint32_t found = n;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t speed, least;

		if (g->closed[i])
			continue;
		if (found == n) {
			found = i;
			continue;
		}
		speed = (uint64_t)speed_with(&s[i], g->parts[i]) *
			most_of(s[found].weight, 1);
		least = (uint64_t)speed_with(&s[found], g->parts[found]) *
			most_of(s[i].weight, 1);
		if (speed < least ||
		    (speed == least && gain(g, s, i) > gain(g, s, found)))
			found = i;
	}
	return found;
}

static void begin(struct given *g, const struct blocks_session *s, uint32_t n)
{
	memset(g, 0, sizeof(*g));
	for (uint32_t i = 0; i < n; i++) {
		if (!s[i].fixed)
			continue;
		g->parts[i] = BLOCKS_PARTS;
		g->closed[i] = true;
		(void)take(g, &s[i], 0, BLOCKS_PARTS);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (s[i].fixed)
			continue;
		g->parts[i] = 1;
		/* Without room for the least of each, they have that all the same: some wait. */
		g->closed[i] = !s[i].blocks || !take(g, &s[i], 0, 1);
	}
}

/* Whether nobody knows anything of one of them; then all run as they are. */
static bool one_is_unknown(struct blocks_session *s, uint32_t n)
{
	bool any = false;

	for (uint32_t i = 0; i < n; i++)
		any |= !s[i].blocks;
	for (uint32_t i = 0; i < n && any; i++)
		s[i].plain = s[i].blocks;
	return any;
}

static void decide_sim(struct blocks_session *s, uint32_t n)
{
	struct given g;
	uint32_t i, to;

	if (n < 2 || n > BLOCKS_SESSIONS_MAX || one_is_unknown(s, n)) {
		decide_all(s, n);
		return;
	}
	begin(&g, s, n);
	while ((i = slowest(&g, s, n)) < n) {
		to = next_parts(&s[i], g.parts[i]);
		if (to && take(&g, &s[i], g.parts[i], to))
			g.parts[i] = to;
		else
			g.closed[i] = true;
	}
	for (i = 0; i < n; i++) {
		uint32_t blocks = blocks_with(&s[i], g.parts[i]);

		/* Rounded up: so many are taken of it, rounded down. */
		s[i].permille =
			s[i].blocks && blocks < s[i].blocks
				? (uint32_t)(((uint64_t)blocks * 1000 + s[i].blocks - 1) /
					     s[i].blocks)
				: 0;
	}
}

uint32_t blocks_of(const struct blocks_session *s)
{
	return s->permille
		       ? most_of(1, (uint32_t)((uint64_t)s->blocks * s->permille / 1000))
		       : s->blocks;
}

/* ---- by name ---- */

const struct blocks_policy blocks_all = {
	.abi = BLOCKS_ABI, .name = "all", .decide = decide_all};
const struct blocks_policy blocks_sim = {
	.abi = BLOCKS_ABI, .name = "sim", .decide = decide_sim};

static const struct blocks_policy *const policies[] = {&blocks_all, &blocks_sim};

const struct blocks_policy *blocks_policy_at(unsigned i)
{
	return i < sizeof(policies) / sizeof(policies[0]) ? policies[i] : NULL;
}

const struct blocks_policy *blocks_policy_find(const char *name)
{
	const struct blocks_policy *p;

	for (unsigned i = 0; (p = blocks_policy_at(i)); i++) {
		if (!strcmp(p->name, name))
			break;
	}
	return p;
}
