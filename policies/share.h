/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to policies/: what each tenant is due of the device.
 */
#ifndef WEFT_POLICIES_SHARE_H
#define WEFT_POLICIES_SHARE_H

#include "policies/placement.h"

typedef unsigned __int128 share_wide;

/* Bytes of one tenant: least <= low <= most. */
struct share_bounds {
	uint64_t least; /* never less: memory.min */
	uint64_t low;   /* less only if nothing else is left: memory.low */
	uint64_t most;  /* what it wants, up to its limits */
};

/* How the device is divided among those with one place in the line: a tenant gets its weight
 * times the level, within bounds that depend on how much there is. */
struct share_level {
	enum {
		SHARE_ALL,
		SHARE_ABOVE_LOW,
		SHARE_ABOVE_LEAST,
		SHARE_BELOW_LEAST
	} stage;
	share_wide level;
	uint32_t turn;
};

struct share_levels {
	struct share_level of[PLACEMENT_TURNS];
};

static inline uint64_t share_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t share_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t share_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint32_t share_turn(const struct placement_tenant *t)
{
	return t->turn < PLACEMENT_TURNS ? t->turn : PLACEMENT_TURNS - 1;
}

static inline uint64_t share_weight(const struct placement_tenant *t)
{
	return share_max(1, share_min(t->weight, PLACEMENT_WEIGHT_MAX));
}

struct share_bounds share_bounds(const struct placement_tenant *t);

/* Bytes left beside the reserve, of which nobody's low is taken. */
uint64_t share_total(const struct placement_device *d, const struct placement_tenant *t,
		     uint32_t n);

/* True if everybody can have all it wants. */
bool share_all(uint64_t total, const struct placement_tenant *t, uint32_t n);

/* O(n) for each place in the line that somebody has, most often with a factor of about twenty,
 * of three hundred at most. */
struct share_levels share_divide(uint64_t total, const struct placement_tenant *t,
				 uint32_t n);

/* Share of t in bytes; all shares together are no more than there is. */
uint64_t share_of(const struct share_levels *l, const struct placement_tenant *t);

#endif
