/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fair shares by filling up with water: the level rises for all at once, by weight, and
 * each tenant stops where it wants no more, until the device is divided.
 */
#include "policies/share.h"

/* The level counts bytes of weight 1 with so many bits behind the point, so that rounding
 * down costs a tenant less than a byte. */
#define LEVEL_BITS 16

struct share_bounds share_bounds(const struct placement_tenant *t)
{
	uint64_t wants = share_add(share_add(t->resident, t->away), t->wanted);
	struct share_bounds b;

	b.most = share_min(wants, share_min(t->high, t->max));
	b.least = share_min(t->min, b.most);
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

uint64_t share_of(const struct share_level *l, const struct placement_tenant *t)
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

static bool fits(const struct share_level *l, uint64_t total,
		 const struct placement_tenant *t, uint32_t n)
{
	share_wide sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += share_of(l, &t[i]);
	return sum <= total;
}

struct share_level share_divide(uint64_t total, const struct placement_tenant *t,
				uint32_t n)
{
	struct share_level l = {SHARE_ALL, 0};
	/* From here on everybody has all it wants, or more than there is. */
	share_wide above = ((share_wide)total + 1) << LEVEL_BITS;

	if (fits(&l, total, t, n))
		return l;
	/* At level 0 everybody has the least of the stage. */
	do
		l.stage++;
	while (!fits(&l, total, t, n));

	while (above - l.level > 1) {
		struct share_level half = {l.stage, l.level + (above - l.level) / 2};

		if (fits(&half, total, t, n))
			l.level = half.level;
		else
			above = half.level;
	}
	return l;
}
