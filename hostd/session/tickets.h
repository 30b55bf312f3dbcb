/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of commands across the lanes of a session ("Order" in wire.h).
 *
 * With one lane in use a ticket costs one load, one compare-and-swap and one store: its
 * turn has always come. A lane whose turn is far sleeps in the bed of the ticket that it
 * waits for; it is woken a few turns early and polls then, so that no command waits for a
 * waking. Each command wakes those for whom that is so, and nobody else.
 *
 * A command that is apart names the ticket that it comes after. Lanes execute such
 * commands side by side, and `done` moves when the lowest of them is executed.
 */
#ifndef WEFT_SESS_TICKETS_H
#define WEFT_SESS_TICKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* As many as there are lanes, so that few share one; a power of two. */
#define TICKETS_BEDS 256u
/* From the lowest ticket that is not executed to the highest that is claimed: so many
 * batches of all lanes, and then some; a power of two. */
#define TICKETS_OPEN 8192u

struct tickets {
	_Atomic uint64_t done;     /* all tickets below it have been executed */
	_Atomic uint32_t waiters;  /* in all beds */
	_Atomic uint32_t pressing; /* who waits for what others have yet to execute */
	unsigned ahead;            /* so many turns early they are woken */
	_Atomic bool ended;
	_Atomic uint64_t woken; /* how often somebody was, ever */
	struct {
		_Atomic uint32_t sleepers;
		_Atomic uint32_t calls; /* what they sleep on */
	} beds[TICKETS_BEDS];           /* by ticket */
	/* By ticket: the last one claimed here, doubled, and 1 if it has been executed while
	 * lower ones had not. */
	_Atomic uint64_t claims[TICKETS_OPEN];
};

void tickets_init(struct tickets *t);

/*
 * Waits until all tickets below seq have been executed and claims it. Returns 0, -EPROTO
 * if it was used before, or -EPIPE after tickets_end().
 */
int tickets_claim(struct tickets *t, uint64_t seq);

/* Claims ticket seq without waiting: of a command that is apart, and there is
 * tickets_room(); or the one before it is claimed by the caller and not done, and one
 * tickets_done() will be for both. Returns 0 or -EPROTO. */
int tickets_claim_now(struct tickets *t, uint64_t seq);

/* Fewer than TICKETS_OPEN are open below seq. */
static inline bool tickets_room(const struct tickets *t, uint64_t seq)
{
	return seq < atomic_load_explicit(&t->done, memory_order_acquire) + TICKETS_OPEN;
}

/* All tickets below seq have been executed, and what they did is visible. */
static inline bool tickets_past(const struct tickets *t, uint64_t seq)
{
	return atomic_load_explicit(&t->done, memory_order_acquire) >= seq;
}

/* Somebody waits for what others have yet to execute. */
static inline bool tickets_pressing(const struct tickets *t)
{
	return atomic_load_explicit(&t->pressing, memory_order_relaxed);
}

/* Tickets up to seq, claimed by the caller, have been executed, and all before them. */
void tickets_done(struct tickets *t, uint64_t seq);

/* Tickets seqs[0..n-1] of commands that are apart have been executed. */
void tickets_executed(struct tickets *t, const uint64_t *seqs, unsigned n);

/* Waits until all tickets below seq have been executed. Returns 0 or -EPIPE. */
int tickets_wait(struct tickets *t, uint64_t seq);

/* Wakes all waiters with -EPIPE, for good. Any thread. */
void tickets_end(struct tickets *t);

#endif
