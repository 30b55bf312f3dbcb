/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fair shares by filling up with water: the level rises for all at once, by weight, and
 * each tenant stops where it wants no more, until the device is divided.
 */
#include "policies/share.h"

/* The level counts bytes of weight 1 with so many bits behind the point, so that rounding
 * down costs a tenant less than a byte. */
#define LEVEL_BITS 16

/* Bytes that do not wait for a tenant's turn: what cannot move, and what it allocates. */
static uint64_t pressing(const struct placement_tenant *t)
{
	uint64_t fixed = t->resident - share_min(t->movable, t->resident);

	return t->turn && t->asks ? share_add(fixed, t->asks) : 0;
}

struct share_bounds share_bounds(const struct placement_tenant *t)
{
	uint64_t all = share_add(share_add(t->resident, t->evicted), t->wanted);
	uint64_t hot = all - share_min(t->cold, t->resident);
	uint64_t wants = share_max(hot, share_min(all, t->min)); /* a promise is of all */
	struct share_bounds b;

	b.most = share_min(wants, share_min(t->high, t->max));
	b.least = share_min(share_max(t->min, pressing(t)), b.most);
	b.low = share_max(b.least, share_min(t->low, b.most));
	return b;
}

uint64_t share_total(const struct placement_device *d, const struct placement_tenant *t,
		     uint32_t n)
{
	uint64_t left = d->total - share_min(d->reserve, d->total), promised = 0;

	for (uint32_t i = 0; i < n; i++)
		promised = share_add(promised, share_bounds(&t[i]).low);
	return share_max(left, share_min(promised, d->total));
}

static uint64_t share_at(const struct share_level *l, const struct placement_tenant *t)
{
	struct share_bounds b = share_bounds(t);
	share_wide part = share_weight(t) * l->level >> LEVEL_BITS;
	uint64_t share = part > UINT64_MAX ? UINT64_MAX : (uint64_t)part;

	switch (l->stage) {
	case SHARE_ALL:
		return b.most;
	case SHARE_ABOVE_LOW:
		return share_max(b.low, share_min(share, b.most));
	case SHARE_ABOVE_LEAST:
		return share_max(b.least, share_min(share, b.low));
	case SHARE_BELOW_LEAST:
		return share_min(share, b.least);
	}
	return 0;
}

/* Sum of all shares at a level, and its slope, by which it grows with the level: the
 * weights of tenants whose share rises. */
struct filled {
	share_wide sum, slope;
};

static bool rises(const struct share_level *l, const struct placement_tenant *t,
		  uint64_t share)
{
	struct share_bounds b = share_bounds(t);
	uint64_t top = l->stage == SHARE_ABOVE_LOW     ? b.most
		       : l->stage == SHARE_ABOVE_LEAST ? b.low
						       : b.least;

	return share < top && share == share_weight(t) * l->level >> LEVEL_BITS;
}

static struct filled fill(const struct share_level *l, const struct placement_tenant *t,
			  uint32_t n)
{
	struct filled f = {0, 0};

	for (uint32_t i = 0; i < n; i++) {
		uint64_t share;

		if (share_turn(&t[i]) != l->turn)
			continue;
		share = share_at(l, &t[i]);
		f.sum += share;
		f.slope += rises(l, &t[i], share) ? share_weight(&t[i]) : 0;
	}
	return f;
}

bool share_all(uint64_t total, const struct placement_tenant *t, uint32_t n)
{
	share_wide sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += share_bounds(&t[i]).most;
	return sum <= total;
}

/* How far the level is to rise for so many more bytes, if nobody stops or begins to;
 * where that leads nowhere, half of the way. */
static share_wide rise(const struct filled *f, share_wide bytes, share_wide way)
{
	share_wide step = f->slope ? (bytes << LEVEL_BITS) / f->slope : 0;

	return step && step < way ? step : way / 2;
}

/*
 * The level is the highest at which all is not too much. It lies between one that fits
 * and one that does not, and these come closer in rounds of three: to where it would be
 * too much if shares grew in straight lines, though each is rounded down; to where it
 * would just fit; and half of the way, so that it ends soon however the lines are bent.
 */
static struct share_level divide(uint64_t total, const struct placement_tenant *t,
				 uint32_t n, uint32_t turn)
{
	struct share_level l = {SHARE_ALL, 0, turn};
	/* From here on everybody has all it wants, or more than there is. */
	share_wide above = ((share_wide)total + 1) << LEVEL_BITS;
	struct filled at, next;

	if (fill(&l, t, n).sum <= total)
		return l;
	/* At level 0 everybody has the least of the stage. */
	do {
		l.stage++;
		at = fill(&l, t, n);
	} while (at.sum > total);

	for (unsigned k = 0; above - l.level > 1; k++) {
		share_wide way = above - l.level, left = total - at.sum;
		share_wide step = k % 3 == 0   ? rise(&at, left + n, way)
				  : k % 3 == 1 ? rise(&at, left, way)
					       : way / 2;
		struct share_level to = {l.stage, l.level + step, turn};

		next = fill(&to, t, n);
		if (next.sum > total) {
			above = to.level;
			continue;
		}
		l = to;
		at = next;
	}
	return l;
}

/* Bytes that those at one place want, and those after it have in any case, or if they are
 * there. */
struct claims {
	uint32_t n;
	share_wide most, low_after, least_after;
};

static struct claims claims_at(const struct placement_tenant *t, uint32_t n,
			       uint32_t turn)
{
	struct claims c = {0};

	for (uint32_t i = 0; i < n; i++) {
		struct share_bounds b = share_bounds(&t[i]);

		if (share_turn(&t[i]) == turn) {
			c.n++;
			c.most += b.most;
		} else if (share_turn(&t[i]) > turn) {
			c.low_after += b.low;
			c.least_after += b.least;
		}
	}
	return c;
}

static uint64_t less(uint64_t a, share_wide b)
{
	return a > b ? a - (uint64_t)b : 0;
}

/* Bytes left for those at one place: not what those after it have in any case; what these
 * have if it is there, only if it is wanted. */
static uint64_t left_for(const struct claims *c, uint64_t total)
{
	uint64_t all = less(total, c->least_after), spare = less(total, c->low_after);

	return c->most < all ? share_max(spare, (uint64_t)c->most) : all;
}

struct share_levels share_divide(uint64_t total, const struct placement_tenant *t,
				 uint32_t n)
{
	struct share_levels l;

	for (uint32_t turn = 0; turn < PLACEMENT_TURNS; turn++) {
		struct claims c = claims_at(t, n, turn);

		l.of[turn] = (struct share_level){SHARE_ALL, 0, turn};
		if (!c.n)
			continue;
		l.of[turn] = divide(left_for(&c, total), t, n, turn);
		total = less(total, fill(&l.of[turn], t, n).sum);
	}
	return l;
}

uint64_t share_of(const struct share_levels *l, const struct placement_tenant *t)
{
	return share_at(&l->of[share_turn(t)], t);
}
