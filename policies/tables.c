/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement policies there are. They agree on whose memory is evicted and differ in
 * which pieces, and in where these go.
 */
#include <string.h>

#include "policies/choose.h"

/* Launches without a part of an allocation after which it is idle: more than a program
 * needs for one round of what it repeats, in most cases. */
#define IDLE_LAUNCHES 64

static uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static bool before_random(const struct placement_piece *a,
			  const struct placement_piece *b, uint64_t seed)
{
	return mixed(a->id ^ mixed(seed)) < mixed(b->id ^ mixed(seed));
}

static bool before_oldest(const struct placement_piece *a,
			  const struct placement_piece *b, uint64_t seed)
{
	(void)seed;
	return a->age != b->age ? a->age > b->age : a->id < b->id;
}

static bool before_youngest(const struct placement_piece *a,
			    const struct placement_piece *b, uint64_t seed)
{
	(void)seed;
	return a->age != b->age ? a->age < b->age : a->id < b->id;
}

static bool before_largest(const struct placement_piece *a,
			   const struct placement_piece *b, uint64_t seed)
{
	bool idle = a->allocation_age >= IDLE_LAUNCHES;

	if (idle != (b->allocation_age >= IDLE_LAUNCHES))
		return idle;
	if (idle && a->allocation_bytes != b->allocation_bytes)
		return a->allocation_bytes > b->allocation_bytes;
	return before_oldest(a, b, seed);
}

static size_t random_leave(struct placement_piece *c, size_t n, uint64_t bytes,
			   uint64_t room, uint64_t seed)
{
	return choose(c, n, bytes, room, seed, before_random);
}

static size_t random_come(struct placement_piece *c, size_t n, uint64_t bytes,
			  uint64_t seed)
{
	return choose(c, n, bytes, bytes, seed, before_random);
}

static size_t oldest_leave(struct placement_piece *c, size_t n, uint64_t bytes,
			   uint64_t room, uint64_t seed)
{
	return choose(c, n, bytes, room, seed, before_oldest);
}

static size_t youngest_come(struct placement_piece *c, size_t n, uint64_t bytes,
			    uint64_t seed)
{
	return choose(c, n, bytes, bytes, seed, before_youngest);
}

static size_t largest_leave(struct placement_piece *c, size_t n, uint64_t bytes,
			    uint64_t room, uint64_t seed)
{
	return choose(c, n, bytes, room, seed, before_largest);
}

#define TENANTS                                                                          \
	.abi = PLACEMENT_ABI, .scarce = placement_scarce, .share = placement_share,      \
	.shares = placement_shares, .victim = placement_victim,                          \
	.relieve = placement_relieve, .returns = placement_returns,                      \
	.session_leaves = placement_session_leaves,                                      \
	.session_comes = placement_session_comes

const struct placement placement_random = {
	TENANTS,
	.name = "random",
	.where = placement_where_mapped,
	.pieces_leave = random_leave,
	.pieces_come = random_come,
};

const struct placement placement_lru = {
	TENANTS,
	.name = "lru",
	.where = placement_where_idle,
	.pieces_leave = oldest_leave,
	.pieces_come = youngest_come,
};

const struct placement placement_largest = {
	TENANTS,
	.name = "largest",
	.where = placement_where_idle,
	.pieces_leave = largest_leave,
	.pieces_come = youngest_come,
};

static const struct placement *const tables[] = {&placement_lru, &placement_random,
						 &placement_largest};

const struct placement *placement_at(unsigned i)
{
	return i < sizeof(tables) / sizeof(tables[0]) ? tables[i] : NULL;
}

const struct placement *placement_find(const char *name)
{
	const struct placement *p;

	for (unsigned i = 0; name && (p = placement_at(i)); i++) {
		if (!strcmp(p->name, name))
			return p;
	}
	return NULL;
}
