/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim rejects a second use of a number without a lock: of two lanes that show the
 * same ticket one wins the exchange. Sleepers use their bed's futex; nobody pays for it
 * while nobody sleeps.
 *
 * Who has executed a ticket apart says so in its claim and then moves `done` over all that
 * are; who has done so in order moves `done` and then looks at the next claim. Whoever is
 * last sees the other's word.
 *
 * #syscalls: futex
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/macros.h"
#include "session/tickets.h"

/*
 * A sleeper is woken some turns early and polls for its own, since waking takes 20 us
 * and more: with 8 turns a command of 1.3 us costs 2.8 us among 8 to 128 lanes, with 3
 * turns 8, with none 6 to 46 (16 processors). More poll than half of the processors, and
 * they keep others from their turn: 12 turns cost 9 us.
 */
#define TICKETS_AHEAD 8u
/* Polls for each turn ahead: about ten microseconds, more than most commands take. */
#define TICKETS_SPINS 250u

typedef bool (*due_fn)(const struct tickets *t, uint64_t seq);

void tickets_init(struct tickets *t)
{
	memset(t, 0, sizeof(*t));
	atomic_init(&t->done, 1);
	t->ahead = MIN(MAX(cpus_allowed() / 2, 1u), TICKETS_AHEAD);
}

static bool turn(const struct tickets *t, uint64_t seq)
{
	/* seq_cst: pairs with the fence between store and load in tickets_done(). */
	return atomic_load(&t->done) >= seq || atomic_load(&t->ended);
}

static bool turn_is_near(const struct tickets *t, uint64_t seq)
{
	return atomic_load(&t->done) + t->ahead >= seq || atomic_load(&t->ended);
}

static void sleep_until(due_fn due, struct tickets *t, uint64_t seq)
{
	_Atomic uint32_t *sleepers = &t->beds[seq % TICKETS_BEDS].sleepers;
	_Atomic uint32_t *calls = &t->beds[seq % TICKETS_BEDS].calls;

	atomic_fetch_add(&t->waiters, 1);
	atomic_fetch_add(sleepers, 1);
	for (;;) {
		uint32_t w = atomic_load(calls);

		if (due(t, seq))
			break;
		if (!syscall(SYS_futex, calls, FUTEX_WAIT_PRIVATE, w, NULL, NULL, 0))
			atomic_fetch_add_explicit(&t->woken, 1, memory_order_relaxed);
	}
	atomic_fetch_sub(sleepers, 1);
	atomic_fetch_sub(&t->waiters, 1);
}

int tickets_wait(struct tickets *t, uint64_t seq)
{
	if (likely(tickets_past(t, seq)))
		return 0;
	atomic_fetch_add(&t->pressing, 1);
	if (!turn_is_near(t, seq))
		sleep_until(turn_is_near, t, seq);
	for (unsigned i = 0; i < t->ahead * TICKETS_SPINS && !turn(t, seq); i++)
		cpu_relax();
	if (!turn(t, seq))
		sleep_until(turn, t, seq);
	atomic_fetch_sub(&t->pressing, 1);
	return atomic_load(&t->done) >= seq ? 0 : -EPIPE;
}

static _Atomic uint64_t *claim_of(struct tickets *t, uint64_t seq)
{
	return &t->claims[seq % TICKETS_OPEN];
}

/* A place is taken by higher and higher tickets only. */
int tickets_claim_now(struct tickets *t, uint64_t seq)
{
	uint64_t was = atomic_load_explicit(claim_of(t, seq), memory_order_relaxed);

	do {
		if (was / 2 >= seq || tickets_past(t, seq + 1))
			return -EPROTO;
	} while (!atomic_compare_exchange_strong(claim_of(t, seq), &was, seq * 2));
	return 0;
}

int tickets_claim(struct tickets *t, uint64_t seq)
{
	int r;

	if (tickets_past(t, seq + 1))
		return -EPROTO;
	r = tickets_wait(t, seq);
	return r < 0 ? r : tickets_claim_now(t, seq);
}

static void wake(struct tickets *t, uint64_t seq)
{
	_Atomic uint32_t *calls = &t->beds[seq % TICKETS_BEDS].calls;

	if (!atomic_load(&t->beds[seq % TICKETS_BEDS].sleepers))
		return;
	atomic_fetch_add(calls, 1);
	syscall(SYS_futex, calls, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Tickets may be done several at a time. */
static void wake_due(struct tickets *t, uint64_t from, uint64_t to)
{
	if (to - from > TICKETS_BEDS)
		from = to - TICKETS_BEDS;
	while (from < to) {
		wake(t, ++from);
		wake(t, from + t->ahead);
	}
}

static bool is_executed(struct tickets *t, uint64_t seq)
{
	return atomic_load(claim_of(t, seq)) == seq * 2 + 1;
}

/* Moves `done` over what has been executed apart. */
static void move_done(struct tickets *t)
{
	uint64_t from = atomic_load(&t->done), to;

	for (;;) {
		for (to = from; is_executed(t, to); to++)
			;
		if (to == from)
			return;
		if (!atomic_compare_exchange_strong(&t->done, &from, to))
			continue;
		if (unlikely(atomic_load(&t->waiters)))
			wake_due(t, from, to);
		from = to;
	}
}

void tickets_executed(struct tickets *t, const uint64_t *seqs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		atomic_store(claim_of(t, seqs[i]), seqs[i] * 2 + 1);
	move_done(t);
}

void tickets_done(struct tickets *t, uint64_t seq)
{
	uint64_t was = atomic_load_explicit(&t->done, memory_order_relaxed);

	/* seq_cst store, then loads: a sleeper either is counted here or sees `done`, and
	 * so does who has executed the next ticket. */
	atomic_store(&t->done, seq + 1);
	if (unlikely(atomic_load(&t->waiters)))
		wake_due(t, was, seq + 1);
	if (unlikely(is_executed(t, seq + 1)))
		move_done(t);
}

void tickets_end(struct tickets *t)
{
	atomic_store(&t->ended, true);
	wake_due(t, 0, TICKETS_BEDS);
}
