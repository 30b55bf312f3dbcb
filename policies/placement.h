/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement: which tenant's memory is evicted when the device is full, which of its
 * pieces, where they go, and what comes back first.
 *
 * Pure: numbers in, decisions out. Nothing is kept between calls, nothing is allocated,
 * and the same numbers give the same decision. Any numbers are safe, nonsense too.
 *
 * Fair share. What the device has for tenants is divided by weight among those that want
 * it; what one does not want goes to the others. A tenant wants what it has on the
 * device, what it has evicted and what it waits for, up to memory.high and memory.max. Of
 * that it is due at least memory.min and, while there is enough for everybody's,
 * memory.low.
 *
 * Turns. While tenants take turns (time.h) each place in the line has what it wants of what
 * those before it leave; only memory.min, and memory.low as far as those before it do not want
 * it, are a tenant's whatever its place, and what it allocates just now, beside what cannot
 * move. What leaves is what is needed last, for those whose turn is near, and what comes back what is
 * needed first.
 *
 * The reserve is kept free so that the next allocation need not wait: shares are of what
 * is left beside it. It comes after everybody's memory.low, and whoever allocates may
 * have it; who is above its share then fills it up again.
 *
 * The numbers describe the end of all moves under way: what a RECLAIM was sent for is
 * evicted, what a RESTORE was granted is resident.
 */
#ifndef WEFT_POLICIES_PLACEMENT_H
#define WEFT_POLICIES_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACEMENT_ABI        4
#define PLACEMENT_WEIGHT_MAX 10000u
#define PLACEMENT_NOBODY     UINT32_MAX
/* Places in the line, the last of which is for all that come later. */
#define PLACEMENT_TURNS 8u

enum placement_where {
	PLACE_MAPPED,  /* host memory at the same address; kernels read it over PCIe */
	PLACE_SWAPPED, /* host memory; returns or is mapped before the session runs again
			*/
};

struct placement_device {
	uint64_t total;     /* what tenants may have together */
	uint64_t free;      /* of it nobody's, nor promised to who waits */
	uint64_t host_room; /* host memory that more may go out to */
	uint64_t piece;     /* moves are in multiples of it */
	uint64_t reserve;   /* of total: to be kept free; 0 while not scarce() */
	/* Result of shares() for these tenants; NULL: victim() works it out. Memory that
	 * has moved since, or is free, makes no difference. */
	const uint64_t *shares;
};

struct placement_tenant {
	uint64_t weight;    /* 1 to PLACEMENT_WEIGHT_MAX */
	uint64_t resident;  /* on the device; granted ahead of use is not counted */
	uint64_t evicted;   /* in host memory, mapped or swapped */
	uint64_t wanted;    /* waits for this much more, free or not */
	uint64_t asks;      /* of that: allocations, which do not wait for its turn */
	uint64_t movable;   /* of resident: can leave now */
	uint64_t cold;      /* of that: it does without; not counted in what it wants */
	uint64_t evicted_room; /* memory.swap.max allows so much more to be evicted */
	uint64_t min, low, high, max;
	bool busy; /* its work did not end in time a moment ago, or it is moving */
	/* Place in the line: 0: it goes, or nobody takes turns; 1: it is next; ... */
	uint32_t turn;
};

/* A session of a tenant. */
struct placement_session {
	uint64_t movable, evicted;
	uint64_t idle_ns; /* since it last submitted work */
	bool busy;
	bool turns; /* tenants take turns where they do not fit: with all that they compute with */
};

struct placement_step {
	uint32_t tenant;
	uint64_t bytes; /* a multiple of the piece, but for a last piece */
};

/* Unit that a worker can move at once: an extent that was never split, or a piece. */
struct placement_piece {
	uint64_t id; /* the caller's; equal ones are not told apart */
	uint64_t size;
	uint64_t age; /* launches since an argument named it, or since it was allocated */
	uint64_t allocation_bytes; /* of the largest allocation that has a part in it */
	uint64_t allocation_age;   /* the least age of any piece of that */
};

struct placement {
	uint32_t abi; /* PLACEMENT_ABI */
	const char *name;

	/* Tenants want more than there is. */
	bool (*scarce)(const struct placement_device *d, const struct placement_tenant *t,
		       uint32_t n);

	/* The fair share of tenant i in bytes. 0 where there is no such tenant. */
	uint64_t (*share)(const struct placement_device *d,
			  const struct placement_tenant *t, uint32_t n, uint32_t i);

	/* The fair shares of all: as much work as for one. */
	void (*shares)(const struct placement_device *d, const struct placement_tenant *t,
		       uint32_t n, uint64_t *ret_share);

	/*
	 * `asks` waits for `bytes` more than are free, which are part of what it wants:
	 * who gives how much of them? First who is furthest above its share, `asks`
	 * itself included, as it would be with what it wants. Then, unless `asks` holds
	 * its share in memory that cannot move, others down to their low, then down to
	 * their min. Busy ones are passed over. Call again for what is left.
	 * PLACEMENT_NOBODY asks for the device itself. Returns 0, -EBUSY (only busy ones
	 * could), -ENOMEM (there is not enough host memory), or -ENOSPC (so much cannot
	 * be had, so that nobody gives any).
	 */
	int (*victim)(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, uint32_t asks, uint64_t bytes,
		      struct placement_step *ret_step);

	/*
	 * Nobody waits: who should be evicted in the background? Who is above its high or
	 * its max; then who is above its share while another is a piece or more below and
	 * has that evicted, or while the reserve is not there; in a line, while one whose
	 * turn is near is, and who waits longest gives first. Returns as victim() does;
	 * -ENOSPC: all is well.
	 */
	int (*relieve)(const struct placement_device *d, const struct placement_tenant *t,
		       uint32_t n, struct placement_step *ret_step);

	/*
	 * Memory is free: who gets how much of what it has evicted? The first in the line,
	 * and where there is none the tenant that has least of its share, up to its share,
	 * without the reserve. Nobody is taken from what this gave as long as no tenant
	 * changes. Returns 0, -EBUSY (only busy ones would), or -ENOSPC (nobody).
	 */
	int (*returns)(const struct placement_device *d, const struct placement_tenant *t,
		       uint32_t n, struct placement_step *ret_step);

	/*
	 * Picks the session of a tenant that is evicted: the one that is idle longest, of
	 * those that were active just now the one with most; and the one that gets memory
	 * back: the last one that was active. Returns its index, or n: none.
	 */
	uint32_t (*session_leaves)(const struct placement_session *s, uint32_t n);
	uint32_t (*session_comes)(const struct placement_session *s, uint32_t n);

	/* Where what that session gives goes. */
	enum placement_where (*where)(const struct placement_session *s);

	/*
	 * Reorders c so that those that should leave come first, in this order, and
	 * returns how many: at least `bytes` together, if there is so much, but never
	 * more than `room`. O(n + k log n) for k of n.
	 */
	size_t (*pieces_leave)(struct placement_piece *c, size_t n, uint64_t bytes,
			       uint64_t room, uint64_t seed);
	/* Like pieces_leave(), to come back: never more than `bytes` together. */
	size_t (*pieces_come)(struct placement_piece *c, size_t n, uint64_t bytes,
			      uint64_t seed);
};

/*
 * random:  any piece, always host-mapped, as GPUswap does it.
 * lru:     least recently launched with; swapped when the session is idle for long, or
 *          where there are turns.
 * largest: of the largest allocation that is idle; the rest as lru.
 */
extern const struct placement placement_random, placement_lru, placement_largest;

/* NULL: none has that name. */
const struct placement *placement_find(const char *name);
/* The i-th; NULL: that was all. The first is the one to use if nothing else is said. */
const struct placement *placement_at(unsigned i);

#endif
