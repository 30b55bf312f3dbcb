/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of commands across the lanes of a session ("Order" in wire.h).
 *
 * With one lane in use a ticket costs one load, one compare-and-swap and one store: its
 * turn has always come. A lane whose turn is far sleeps in the bed of its ticket; it is
 * woken a few turns early and polls then, so that no command waits for a waking. Each
 * command wakes those for whom that is so, and nobody else.
 */
#ifndef WEFT_SESS_TICKETS_H
#define WEFT_SESS_TICKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* As many as there are lanes, so that few share one; a power of two. */
#define TICKETS_BEDS 256u

struct tickets {
	_Atomic uint64_t claimed; /* the lowest ticket nobody has begun to execute */
	_Atomic uint64_t done;    /* all tickets below it have been executed */
	_Atomic uint32_t waiters; /* in all beds */
	unsigned ahead;           /* so many turns early they are woken */
	_Atomic bool ended;
	_Atomic uint64_t woken; /* how often somebody was, ever */
	struct {
		_Atomic uint32_t sleepers;
		_Atomic uint32_t calls; /* what they sleep on */
	} beds[TICKETS_BEDS];           /* by ticket */
};

void tickets_init(struct tickets *t);

/*
 * Waits until ticket seq may be executed and claims it. Returns 0, -EPROTO if it was used
 * before, or -EPIPE after tickets_end().
 */
int tickets_claim(struct tickets *t, uint64_t seq);

/* Claims ticket seq, the one before it being claimed by the caller, and not done: one
 * tickets_done() will be for both. Returns 0 or -EPROTO. */
int tickets_claim_next(struct tickets *t, uint64_t seq);

/* The claimed ticket has been executed. */
void tickets_done(struct tickets *t, uint64_t seq);

/* Waits until all tickets below seq have been executed. Returns 0 or -EPIPE. */
int tickets_wait(struct tickets *t, uint64_t seq);

/* Wakes all waiters with -EPIPE, for good. Any thread. */
void tickets_end(struct tickets *t);

#endif
