/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "policies/space.h"

#define WORDS (SPACE_TPCS_MAX / 64)

static struct space_set minus(struct space_set a, const struct space_set *b)
{
	for (unsigned i = 0; i < WORDS; i++)
		a.bits[i] &= ~b->bits[i];
	return a;
}

static void join(struct space_set *a, const struct space_set *b)
{
	for (unsigned i = 0; i < WORDS; i++)
		a->bits[i] |= b->bits[i];
}

/* The first that both have; SPACE_TPCS_MAX: none. */
static uint32_t common(const struct space_set *a, const struct space_set *b)
{
	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t both = a->bits[i] & b->bits[i];

		if (both)
			return i * 64 + (uint32_t)__builtin_ctzll(both);
	}
	return SPACE_TPCS_MAX;
}

static struct space_set all_of(const struct space_map *m)
{
	struct space_set s = {{0}};

	for (uint32_t i = 0; i < m->n && i < SPACE_TPCS_MAX; i++)
		space_add(&s, i);
	return s;
}

static bool is_fixed(const struct space_want *w)
{
	return !space_is_empty(&w->tpcs) || !space_is_empty(&w->gpcs);
}

/* ---- certain ones ---- */

/* The TPCs of the GPCs that are asked for. Returns one that is not there, or
 * SPACE_TPCS_MAX. */
static uint32_t of_gpcs(const struct space_map *m, const struct space_set *gpcs,
			struct space_set *ret)
{
	struct space_set there = {{0}}, lost;
	const struct space_set every = {{UINT64_MAX, UINT64_MAX}};

	*ret = (struct space_set){{0}};
	for (uint32_t i = 0; i < m->n && i < SPACE_TPCS_MAX; i++) {
		if (!space_has(gpcs, m->gpc[i]))
			continue;
		space_add(&there, m->gpc[i]);
		space_add(ret, i);
	}
	lost = minus(*gpcs, &there);
	return common(&lost, &every);
}

static struct space_why fix(const struct space_map *m, const struct space_want *w,
			    struct space_set *ret)
{
	struct space_set all = all_of(m), lost = minus(w->tpcs, &all);
	uint32_t gone;

	if (!space_is_empty(&lost))
		return (struct space_why){SPACE_NO_TPC, .what = common(&lost, &lost)};
	*ret = w->tpcs;
	if (!space_is_empty(&w->tpcs))
		return (struct space_why){SPACE_OK};
	gone = of_gpcs(m, &w->gpcs, ret);
	if (gone != SPACE_TPCS_MAX)
		return (struct space_why){SPACE_NO_GPC, .what = gone};
	return (struct space_why){SPACE_OK};
}

/* ---- so many ---- */

/* The GPC to take from: the one with the fewest that suffice, or else the one with most. */
static uint32_t best_gpc(const struct space_map *m, const struct space_set *free,
			 uint32_t need)
{
	uint32_t best = 0, has = 0, in[UINT8_MAX + 1] = {0};

	for (uint32_t i = 0; i < m->n && i < SPACE_TPCS_MAX; i++)
		in[m->gpc[i]] += space_has(free, i);
	for (uint32_t g = 0; g <= UINT8_MAX; g++) {
		uint32_t n = in[g];

		if (n && (!has || (n >= need ? has < need || n < has : n > has))) {
			best = g;
			has = n;
		}
	}
	return best;
}

static struct space_set pack(const struct space_map *m, struct space_set free,
			     uint32_t need)
{
	struct space_set got = {{0}};

	while (need && !space_is_empty(&free)) {
		uint32_t g = best_gpc(m, &free, need);

		for (uint32_t i = 0; i < m->n && i < SPACE_TPCS_MAX && need; i++) {
			if (m->gpc[i] != g || !space_has(&free, i))
				continue;
			space_add(&got, i);
			need--;
		}
		free = minus(free, &got);
	}
	return got;
}

/* ---- all of them ---- */

/* TPCs that those before have: alone, and in common with others. */
struct held {
	struct space_set alone, shared;
};

static void hold(struct held *h, const struct space_tenant *t)
{
	join(t->want.exclusive ? &h->alone : &h->shared, &t->gets);
}

/* The tenant before t that has TPC i, and is in its way. */
static uint32_t whose(const struct space_tenant *t, uint32_t me, uint32_t i)
{
	for (uint32_t k = 0; k < me; k++) {
		if (is_fixed(&t[k].want) && space_has(&t[k].gets, i) &&
		    (t[k].want.exclusive || t[me].want.exclusive))
			return k;
	}
	return me;
}

static enum space_error form_of(const struct space_want *w)
{
	unsigned n = !space_is_empty(&w->tpcs) + !space_is_empty(&w->gpcs) +
		     (w->count > 0);

	if (n > 1)
		return SPACE_CONTRADICTS;
	return !n && w->exclusive ? SPACE_ALL_ALONE : SPACE_OK;
}

static struct space_why place_fixed(const struct space_map *m, struct space_tenant *t,
				    uint32_t n, struct held *h)
{
	for (uint32_t i = 0; i < n; i++) {
		struct space_why why;
		uint32_t at;

		if (!is_fixed(&t[i].want))
			continue;
		why = fix(m, &t[i].want, &t[i].gets);
		why.tenant = i;
		if (why.error)
			return why;
		at = common(&t[i].gets, &h->alone);
		if (at == SPACE_TPCS_MAX && t[i].want.exclusive)
			at = common(&t[i].gets, &h->shared);
		if (at != SPACE_TPCS_MAX)
			return (struct space_why){SPACE_TAKEN, i, whose(t, i, at), at};
		hold(h, &t[i]);
	}
	return (struct space_why){SPACE_OK};
}

static uint32_t needed(const struct space_map *m, const struct space_want *w)
{
	uint32_t n;

	if (!w->percent)
		return w->count;
	n = (uint32_t)((uint64_t)m->n * (w->count < 100 ? w->count : 100) / 100);
	return n ? n : 1;
}

/* A tenant that keeps what it has, or (not keep) any. */
static struct space_why place_number(const struct space_map *m, struct space_tenant *t,
				     struct held *h, bool keep)
{
	struct space_set all = all_of(m), free = minus(all, &h->alone), more;
	struct space_set unused = minus(free, &h->shared);
	uint32_t need = needed(m, &t->want);

	if (t->want.exclusive)
		free = unused;
	if (keep) {
		more = minus(t->has, space_count(&unused) < need ? &free : &unused);
		if (space_count(&t->has) != need || !space_is_empty(&more))
			return (struct space_why){SPACE_OK};
		t->gets = t->has;
	} else if (space_count(&free) < need) {
		return (struct space_why){SPACE_TOO_MANY, .what = space_count(&free)};
	} else {
		t->gets = pack(m, unused, need);
		free = minus(free, &t->gets);
		more = pack(m, free, need - space_count(&t->gets));
		join(&t->gets, &more);
	}
	hold(h, t);
	return (struct space_why){SPACE_OK};
}

/* First come those who have some alone: the others make do with the rest, together. */
static struct space_why place_counted(const struct space_map *m, struct space_tenant *t,
				      uint32_t n, struct held *h)
{
	for (unsigned pass = 0; pass < 4; pass++) {
		bool exclusive = pass < 2, keep = pass % 2 == 0;

		for (uint32_t i = 0; i < n; i++) {
			struct space_why why;

			if (!t[i].want.count || t[i].want.exclusive != exclusive ||
			    !space_is_empty(&t[i].gets))
				continue;
			why = place_number(m, &t[i], h, keep);
			why.tenant = i;
			if (why.error)
				return why;
		}
	}
	return (struct space_why){SPACE_OK};
}

static struct space_why place_rest(const struct space_map *m, struct space_tenant *t,
				   uint32_t n, const struct held *h)
{
	struct space_set all = all_of(m), rest = minus(all, &h->alone);

	for (uint32_t i = 0; i < n; i++) {
		if (is_fixed(&t[i].want) || t[i].want.count)
			continue;
		if (space_is_empty(&rest) && m->n)
			return (struct space_why){SPACE_TOO_MANY, .tenant = i};
		t[i].gets = rest;
	}
	return (struct space_why){SPACE_OK};
}

struct space_why space_assign(const struct space_map *m, struct space_tenant *t,
			      uint32_t n)
{
	struct held h = {{{0}}, {{0}}};
	struct space_why why = {SPACE_OK};

	for (uint32_t i = 0; i < n; i++) {
		t[i].gets = (struct space_set){{0}};
		why = (struct space_why){form_of(&t[i].want), .tenant = i};
		if (why.error)
			return why;
	}
	why = place_fixed(m, t, n, &h);
	if (!why.error)
		why = place_counted(m, t, n, &h);
	return why.error ? why : place_rest(m, t, n, &h);
}
