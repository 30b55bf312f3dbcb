/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies of PILOT, a runtime for managed memory, by tenants where it has kernels: who goes
 * keeps its memory on the device, and who does not gives it up.
 *
 * MFit lets a tenant go when all it has fits beside those that go; the first in line goes in any
 * case if nobody does. AMFit does so by what it uses. By either, one that has waited for too long
 * goes, and as many of the others are held back, those that have (use) most first, as it takes.
 * Whoever is let go goes when its memory has come in: kernels that read host memory take so long
 * that it could not do so beside them. MAdvise holds nobody back: each keeps its share on the
 * device, the rest is read where it is (placement.h).
 */
#include "policies/sets.h"
#include "policies/time.h"

/* Longest that one waits if its latency does not say otherwise, and least that it goes then. */
#define WAIT_US 1000000u
/* One that had nothing to do for so long needs no room: as by sets. */
#define IDLE_US 20000u
/* Nothing of one's memory has come in for so long: no more will, as by sets. */
#define STILL_US 1000000u

enum kind {
	ALLOCATED,
	USED,
};

/* Tenants, and what is said of each. */
struct line {
	const struct time_device *d;
	const struct time_tenant *t;
	uint32_t n;
	enum kind kind;
	uint32_t shortest_us; /* that somebody in it is to wait, at most */
	struct time_turn *turn;
};

static uint64_t bytes_at(const struct line *l, uint32_t i)
{
	const struct time_tenant *t = &l->t[i];
	bool used = l->kind == USED || t->all < t->set;

	return sets_add(used ? t->set : t->all, t->asks);
}

static uint32_t wait_us(const struct time_tenant *t)
{
	return t->latency_us ? t->latency_us : WAIT_US;
}

/* Has something to do: an allocation is that as well, for which others give. */
static bool wants(const struct time_tenant *t)
{
	return t->works || t->asks;
}

/* Whether it has something to do, or just had. */
static bool needs(const struct time_tenant *t)
{
	return wants(t) || (t->sessions && t->idle_us < IDLE_US);
}

static bool is_late(const struct time_tenant *t)
{
	return wants(t) && !t->goes && t->for_us >= wait_us(t);
}

/* Goes, and may be held back: it has gone for as long as it waits itself, or somebody does who is in
 * more of a hurry. */
static bool may_wait(const struct line *l, uint32_t i)
{
	const struct time_tenant *t = &l->t[i];
	uint32_t least = wait_us(t);

	if (l->shortest_us < least)
		least = l->shortest_us;
	return needs(t) && t->goes && t->for_us >= least;
}

static uint32_t shortest_us(const struct time_tenant *t, uint32_t n)
{
	uint32_t us = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		if (wants(&t[i]) && !t[i].goes && wait_us(&t[i]) < us)
			us = wait_us(&t[i]);
	}
	return us;
}

struct going {
	uint64_t bytes; /* and what the others keep in any case */
	bool any;
};

/* Tenants that are to go; stay: without those that may be held back. */
static struct going going(const struct line *l, bool stay)
{
	struct going r = {0};

	for (uint32_t i = 0; i < l->n; i++) {
		bool goes = l->turn[i].go && needs(&l->t[i]) && !(stay && may_wait(l, i));

		r.bytes = sets_add(r.bytes, goes ? bytes_at(l, i) : l->t[i].fixed);
		r.any |= goes;
	}
	return r;
}

/* Before one that allocates, one that does not: others give for that, and are to compute no more.
 * Else the one that has (uses) more. */
static bool waits_before(const struct line *l, uint32_t i, uint32_t than)
{
	bool asks = l->t[i].asks;

	return asks == !!l->t[than].asks ? bytes_at(l, i) > bytes_at(l, than) : !asks;
}

/* The first of those that are to go and may be held back; n: there is none. */
static uint32_t first_to_wait(const struct line *l)
{
	uint32_t one = l->n;

	for (uint32_t i = 0; i < l->n; i++) {
		if (!l->turn[i].go || !may_wait(l, i))
			continue;
		if (one == l->n || waits_before(l, i, one))
			one = i;
	}
	return one;
}

/* Holds back as many as do not fit, but for the last one that goes. */
static void hold_back(struct line *l)
{
	while (going(l, false).bytes > l->d->memory) {
		uint32_t one = first_to_wait(l);

		if (one == l->n)
			return;
		l->turn[one].go = false;
		if (going(l, false).any)
			continue;
		l->turn[one].go = true;
		return;
	}
}

/* The one that has waited longest of those that are not to go and have no place in the line
 * yet; n: there is none. */
static uint32_t first_in_line(const struct line *l)
{
	const struct time_tenant *t = l->t;
	uint32_t one = l->n;

	for (uint32_t i = 0; i < l->n; i++) {
		if (l->turn[i].go || !wants(&t[i]) || l->turn[i].begins_us)
			continue;
		if (one == l->n || sets_waited_longer(&t[i], &t[one]))
			one = i;
	}
	return one;
}

/* Lets one go if it fits, or if it is late and fits once others are held back, or if nobody
 * else goes. Returns whether it does. */
static bool let_one_in(struct line *l, uint32_t one)
{
	uint64_t bytes = bytes_at(l, one), fixed = l->t[one].fixed;
	uint64_t its = bytes > fixed ? bytes - fixed : 0;
	struct going others = going(l, false), stay = going(l, true);
	bool fits_late = !stay.any || sets_add(stay.bytes, its) <= l->d->memory;

	l->turn[one].go = !others.any || sets_add(others.bytes, its) <= l->d->memory ||
			  (is_late(&l->t[one]) && fits_late);
	return l->turn[one].go;
}

/* Whether memory of one that is to go is still to come in. One that goes already computes with what
 * is out, unless that is most of it, as when another one has allocated. */
static bool is_coming(const struct time_tenant *t)
{
	uint64_t moves = t->set > t->fixed ? t->set - t->fixed : 0;

	if (t->goes)
		return t->out > moves / 2 && t->still_us < STILL_US;
	return t->out && (t->still_us < STILL_US || t->first_us < STILL_US);
}

/* Has those that are to go wait, in the first place of the line, for memory that comes in. */
static void await_memory(struct line *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		const struct time_tenant *t = &l->t[i];

		if (l->turn[i].go && t->works && is_coming(t) &&
		    t->set <= sets_room(l->d, t, l->t, l->n))
			l->turn[i] = (struct time_turn){.go = false};
	}
}

/* Lets those go that can, in their order; the others have their places in the line. */
static void let_in(struct line *l)
{
	uint32_t place = 0, i;

	while ((i = first_in_line(l)) != l->n) {
		if (!let_one_in(l, i))
			l->turn[i].begins_us = ++place;
	}
	hold_back(l);
	for (i = 0; i < l->n; i++) {
		if (!l->turn[i].begins_us && !(l->turn[i].go && l->t[i].sessions))
			l->turn[i].begins_us = TIME_NEVER; /* room is for those that do */
	}
}

static void let_all_go(uint32_t n, struct time_turn *turn)
{
	for (uint32_t i = 0; i < n; i++)
		turn[i].go = true;
}

/* Whether what all have (use) fits, whoever needs it just now. */
static bool all_fit(const struct line *l)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < l->n; i++)
		all = sets_add(all,
			       l->t[i].sessions || l->t[i].works ? bytes_at(l, i) : 0);
	return !l->d->memory || all <= l->d->memory;
}

static void decide(struct line *l)
{
	let_all_go(l->n, l->turn);
	if (!all_fit(l)) {
		for (uint32_t i = 0; i < l->n; i++)
			l->turn[i].go = l->t[i].goes && needs(&l->t[i]);
		let_in(l);
	}
	await_memory(l);
}

static void mfit_turns(const struct time_device *d, const struct time_tenant *t,
		       uint32_t n, struct time_turn *turn)
{
	struct line l = {d, t, n, ALLOCATED, shortest_us(t, n), turn};

	decide(&l);
}

static void amfit_turns(const struct time_device *d, const struct time_tenant *t,
			uint32_t n, struct time_turn *turn)
{
	struct line l = {d, t, n, USED, shortest_us(t, n), turn};

	decide(&l);
}

const struct time_policy time_mfit = {TIME_ABI, "mfit", time_fair_slices, mfit_turns,
				      true};
const struct time_policy time_amfit = {TIME_ABI, "amfit", time_fair_slices, amfit_turns,
				       true};
