/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ticket goes claimed -> executed -> done. `claimed` rejects a second use of a number
 * without a lock: of two lanes that show the same ticket one wins the exchange. Sleepers
 * use a futex on `wakeups`; nobody pays for it while nobody sleeps.
 *
 * #syscalls: futex
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"
#include "session/tickets.h"

/* A turn that comes within about ten microseconds is cheaper polled than slept for. */
#define TICKETS_SPINS 300

void tickets_init(struct tickets *t)
{
	atomic_init(&t->claimed, 1);
	atomic_init(&t->done, 1);
	atomic_init(&t->waiters, 0);
	atomic_init(&t->wakeups, 0);
	atomic_init(&t->ended, false);
}

static bool turn(struct tickets *t, uint64_t seq)
{
	/* seq_cst: pairs with the fence between store and load in tickets_done(). */
	return atomic_load(&t->done) >= seq || atomic_load(&t->ended);
}

static void sleep_until_turn(struct tickets *t, uint64_t seq)
{
	atomic_fetch_add(&t->waiters, 1);
	for (;;) {
		uint32_t w = atomic_load(&t->wakeups);

		if (turn(t, seq))
			break;
		syscall(SYS_futex, &t->wakeups, FUTEX_WAIT_PRIVATE, w, NULL, NULL, 0);
	}
	atomic_fetch_sub(&t->waiters, 1);
}

int tickets_wait(struct tickets *t, uint64_t seq)
{
	/* acquire: what the commands before this one did is visible. */
	if (likely(atomic_load_explicit(&t->done, memory_order_acquire) >= seq))
		return 0;
	for (unsigned i = 0; i < TICKETS_SPINS && !turn(t, seq); i++)
		cpu_relax();
	if (!turn(t, seq))
		sleep_until_turn(t, seq);
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

static void wake_all(struct tickets *t)
{
	atomic_fetch_add(&t->wakeups, 1);
	syscall(SYS_futex, &t->wakeups, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void tickets_done(struct tickets *t, uint64_t seq)
{
	/* seq_cst store, then load: a sleeper either is counted here or sees `done`. */
	atomic_store(&t->done, seq + 1);
	if (unlikely(atomic_load(&t->waiters)))
		wake_all(t);
}

void tickets_end(struct tickets *t)
{
	atomic_store(&t->ended, true);
	wake_all(t);
}
