/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that weftd has granted to a worker ahead of use, in a page that both have
 * mapped, so that most charges cost no message.
 *
 * The worker takes from what was given and puts back what it frees; weftd adds to it when
 * it grants and may drain it at any time. So a tenant's use is, exactly and at any moment,
 * what its workers were granted less what is spare of their credit. weftd believes
 * credit up to what it has granted.
 *
 * Two numbers with one writer each, the spare is the difference: what the worker has taken
 * stands there by itself, so that the next weftd finds it, wherever the one before was
 * killed. Who takes looks again at what is given, and who drains looks again at what is
 * taken: one of both sees the other.
 *
 * Lock-free; worker: any thread, weftd: its one thread.
 */
#ifndef WEFT_IPC_CREDIT_H
#define WEFT_IPC_CREDIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct credit {
	/* Bytes, modulo 2^64: given by weftd, less what it drained; taken by the worker,
	 * less what it put back, which may have been granted by message. */
	_Atomic uint64_t given, taken;
	_Atomic uint32_t ask; /* 1: over the tenant's limit, take nothing */
	_Atomic uint32_t seq; /* odd while weftd writes what follows */
	/* Bytes that weftd could still grant, and the tenant's total; 0: ask weftd. */
	_Atomic uint64_t left, total;
};

/* Bytes by which a is ahead of b, or 0. */
static inline uint64_t credit_difference(uint64_t a, uint64_t b)
{
	int64_t ahead = (int64_t)(a - b);

	return ahead > 0 ? (uint64_t)ahead : 0;
}

/* Worker: takes bytes out of the spare. False: ask weftd. */
static inline bool credit_take(struct credit *c, uint64_t bytes)
{
	uint64_t taken = atomic_load_explicit(&c->taken, memory_order_relaxed);

	if (atomic_load_explicit(&c->ask, memory_order_acquire))
		return false;
	do {
		if (bytes > credit_difference(atomic_load(&c->given), taken))
			return false;
		/* seq_cst, as the look at what is given: pairs with credit_drain(). */
	} while (!atomic_compare_exchange_weak(&c->taken, &taken, taken + bytes));
	if ((int64_t)(atomic_load(&c->given) - (taken + bytes)) >= 0)
		return true;
	atomic_fetch_sub(&c->taken, bytes); /* drained meanwhile */
	return false;
}

/* Worker: puts back bytes that are free again. */
static inline void credit_put(struct credit *c, uint64_t bytes)
{
	atomic_fetch_sub(&c->taken, bytes);
}

/* weftd: grants bytes ahead. */
static inline void credit_give(struct credit *c, uint64_t bytes)
{
	atomic_fetch_add(&c->given, bytes);
}

/* Looks at a worker that takes all the time, after which the rest is left to it. */
#define CREDIT_LOOKS 16

/* weftd: takes all of the spare, which others can be granted then; returns its bytes. */
static inline uint64_t credit_drain(struct credit *c)
{
	uint64_t was = atomic_load(&c->given), taken = atomic_load(&c->taken), now;

	if (!credit_difference(was, taken))
		return 0;
	/* Bytes taken before the worker could see this stay given: pairs with
	 * credit_take(). */
	for (unsigned i = 0; i < CREDIT_LOOKS; i++) {
		now = credit_difference(was, taken) ? taken : was;
		atomic_store(&c->given, now);
		taken = atomic_load(&c->taken);
		if (now == was || !credit_difference(taken, now))
			return was - now;
	}
	atomic_store(&c->given, was);
	return 0;
}

/* Returns the bytes that are spare now. */
static inline uint64_t credit_spare(const struct credit *c)
{
	uint64_t given = atomic_load_explicit(&c->given, memory_order_acquire);

	return credit_difference(given,
				 atomic_load_explicit(&c->taken, memory_order_acquire));
}

/* weftd: brackets a change of grants, so that a reader sees what was before or after. */
static inline void credit_write_begin(struct credit *c)
{
	atomic_fetch_add_explicit(&c->seq, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* pairs with credit_look() */
}

static inline void credit_write_end(struct credit *c)
{
	atomic_fetch_add_explicit(&c->seq, 1, memory_order_release);
}

/* Worker: reads the bytes that the tenant has left and may have. False: ask weftd. */
static inline bool credit_look(struct credit *c, uint64_t *ret_left, uint64_t *ret_total)
{
	for (unsigned tries = 0; tries < 100; tries++) {
		uint32_t seq = atomic_load_explicit(&c->seq, memory_order_acquire);
		uint64_t total = atomic_load_explicit(&c->total, memory_order_relaxed);
		uint64_t left = atomic_load_explicit(&c->left, memory_order_relaxed) +
				credit_spare(c);

		atomic_thread_fence(memory_order_acquire);
		if (seq & 1 || atomic_load_explicit(&c->seq, memory_order_relaxed) != seq)
			continue;
		if (!total)
			return false;
		*ret_left = left < total ? left : total;
		*ret_total = total;
		return true;
	}
	return false;
}

#endif
