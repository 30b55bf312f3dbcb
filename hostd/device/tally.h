/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of something there was at a moment that is not sharp: while a number is read
 * elsewhere, slowly and without a lock, other threads make and end things. Each counts
 * before and after; from what was done before the look and begun by its end follow
 * bounds, which are one number if nobody made or ended anything meanwhile.
 *
 * Any thread. Counting is two additions a thing; the numbers are bytes since the
 * beginning.
 */
#ifndef WEFT_DEVICE_TALLY_H
#define WEFT_DEVICE_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/macros.h"

struct tally {
	_Atomic uint64_t making, made, ending, ended;
};

struct tally_look {
	uint64_t made, ended;
};

/* Around the making of something, and the ending. */
static inline void tally_making(struct tally *t, uint64_t bytes)
{
	atomic_fetch_add(&t->making, bytes);
}

static inline void tally_made(struct tally *t, uint64_t bytes)
{
	atomic_fetch_add(&t->made, bytes);
}

/* Takes back bytes of a making that failed, or that made so much less. */
static inline void tally_unmade(struct tally *t, uint64_t bytes)
{
	atomic_fetch_sub(&t->making, bytes);
}

static inline void tally_ending(struct tally *t, uint64_t bytes)
{
	atomic_fetch_add(&t->ending, bytes);
}

static inline void tally_ended(struct tally *t, uint64_t bytes)
{
	atomic_fetch_add(&t->ended, bytes);
}

/* Takes back bytes of an ending that did not happen after all. */
static inline void tally_unended(struct tally *t, uint64_t bytes)
{
	atomic_fetch_sub(&t->ending, bytes);
}

/* Before the number is read elsewhere. */
static inline struct tally_look tally_look(struct tally *t)
{
	return (struct tally_look){atomic_load(&t->made), atomic_load(&t->ended)};
}

/* After it: what there was then, at least and at most. */
static inline void tally_bounds(struct tally *t, struct tally_look before,
				uint64_t *ret_least, uint64_t *ret_most)
{
	*ret_least = before.made - MIN(before.made, atomic_load(&t->ending));
	*ret_most = atomic_load(&t->making) - before.ended;
}

#endif
