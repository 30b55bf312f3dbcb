/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ticket goes claimed -> executed -> done. `claimed` rejects a second use of a number
 * without a lock: of two lanes that show the same ticket one wins the exchange. Sleepers
 * use their bed's futex; nobody pays for it while nobody sleeps.
 *
 * #syscalls: futex
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
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

void tickets_init(struct tickets *t)
{
	atomic_init(&t->claimed, 1);
	atomic_init(&t->done, 1);
	atomic_init(&t->waiters, 0);
	t->ahead = MIN(MAX(cpus_allowed() / 2, 1u), TICKETS_AHEAD);
	atomic_init(&t->ended, false);
	atomic_init(&t->woken, 0);
	for (unsigned i = 0; i < TICKETS_BEDS; i++) {
		atomic_init(&t->beds[i].sleepers, 0);
		atomic_init(&t->beds[i].calls, 0);
	}
}

static bool turn(struct tickets *t, uint64_t seq)
{
	/* seq_cst: pairs with the fence between store and load in tickets_done(). */
	return atomic_load(&t->done) >= seq || atomic_load(&t->ended);
}

static bool turn_is_near(struct tickets *t, uint64_t seq)
{
	return atomic_load(&t->done) + t->ahead >= seq || atomic_load(&t->ended);
}

static void sleep_until(bool (*due)(struct tickets *, uint64_t), struct tickets *t,
			uint64_t seq)
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
	/* acquire: what the commands before this one did is visible. */
	if (likely(atomic_load_explicit(&t->done, memory_order_acquire) >= seq))
		return 0;
	if (!turn_is_near(t, seq))
		sleep_until(turn_is_near, t, seq);
	for (unsigned i = 0; i < t->ahead * TICKETS_SPINS && !turn(t, seq); i++)
		cpu_relax();
	if (!turn(t, seq))
		sleep_until(turn, t, seq);
	return atomic_load(&t->done) >= seq ? 0 : -EPIPE;
}

int tickets_claim_next(struct tickets *t, uint64_t seq)
{
	uint64_t expected = seq;

	return atomic_compare_exchange_strong(&t->claimed, &expected, seq + 1) ? 0
									       : -EPROTO;
}

int tickets_claim(struct tickets *t, uint64_t seq)
{
	int r;

	if (seq == 0 || seq < atomic_load_explicit(&t->done, memory_order_acquire))
		return -EPROTO;
	r = tickets_wait(t, seq);
	if (r < 0)
		return r;
	return tickets_claim_next(t, seq);
}

static void wake(struct tickets *t, uint64_t seq)
{
	_Atomic uint32_t *calls = &t->beds[seq % TICKETS_BEDS].calls;

	if (!atomic_load(&t->beds[seq % TICKETS_BEDS].sleepers))
		return;
	atomic_fetch_add(calls, 1);
	syscall(SYS_futex, calls, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Tickets may be done several at a time: a batch. */
static void wake_due(struct tickets *t, uint64_t from, uint64_t to)
{
	if (to - from > TICKETS_BEDS)
		from = to - TICKETS_BEDS;
	while (from < to) {
		wake(t, ++from);
		wake(t, from + t->ahead);
	}
}

void tickets_done(struct tickets *t, uint64_t seq)
{
	uint64_t was = atomic_load_explicit(&t->done, memory_order_relaxed);

	/* seq_cst store, then load: a sleeper either is counted here or sees `done`. */
	atomic_store(&t->done, seq + 1);
	if (unlikely(atomic_load(&t->waiters)))
		wake_due(t, was, seq + 1);
}

void tickets_end(struct tickets *t)
{
	atomic_store(&t->ended, true);
	wake_due(t, 0, TICKETS_BEDS);
}
