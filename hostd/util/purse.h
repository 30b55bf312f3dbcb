/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that weftd has granted to a worker ahead of use, in a page that both have
 * mapped, so that most charges cost no message.
 *
 * The worker takes from the spare and puts back what it frees; weftd adds to it when it
 * grants and may empty it at any time. So a tenant's use is, exactly and at any moment,
 * what its workers were granted less what is spare in their purses. weftd believes a
 * purse up to what it has granted.
 *
 * Lock-free; worker: any thread, weftd: its one thread.
 */
#ifndef WEFT_UTIL_PURSE_H
#define WEFT_UTIL_PURSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct purse {
	_Atomic uint64_t spare; /* bytes */
	_Atomic uint32_t
		ask; /* 1: the tenant is over its limit, nothing is to be taken */
	_Atomic uint32_t seq; /* odd while weftd writes what follows */
	/* What weftd could still grant, and the tenant's total; total 0: ask weftd. */
	_Atomic uint64_t left, total;
};

/* Worker: takes bytes out of the spare. False: ask weftd. */
static inline bool purse_take(struct purse *p, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(&p->spare, memory_order_relaxed);

	if (atomic_load_explicit(&p->ask, memory_order_acquire))
		return false;
	while (have >= bytes) {
		/* acq_rel: weftd's emptying comes before or after, never in between. */
		if (atomic_compare_exchange_weak_explicit(&p->spare, &have, have - bytes,
							  memory_order_acq_rel,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

/* Worker: bytes are free again. weftd: bytes are granted ahead. */
static inline void purse_put(struct purse *p, uint64_t bytes)
{
	atomic_fetch_add_explicit(&p->spare, bytes, memory_order_acq_rel);
}

/* weftd: what can be granted to others; the worker has none left. */
static inline uint64_t purse_empty(struct purse *p)
{
	return atomic_exchange_explicit(&p->spare, 0, memory_order_acq_rel);
}

/* What is spare now. */
static inline uint64_t purse_spare(const struct purse *p)
{
	return atomic_load_explicit(&p->spare, memory_order_acquire);
}

/* weftd: while it changes grants, so that a reader sees before or after. */
static inline void purse_write_begin(struct purse *p)
{
	atomic_fetch_add_explicit(&p->seq, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* pairs with purse_look() */
}

static inline void purse_write_end(struct purse *p)
{
	atomic_fetch_add_explicit(&p->seq, 1, memory_order_release);
}

/* Worker: what the tenant has left and may have. False: ask weftd. */
static inline bool purse_look(struct purse *p, uint64_t *ret_left, uint64_t *ret_total)
{
	for (unsigned tries = 0; tries < 100; tries++) {
		uint32_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);
		uint64_t total = atomic_load_explicit(&p->total, memory_order_relaxed);
		uint64_t left = atomic_load_explicit(&p->left, memory_order_relaxed) +
				purse_spare(p);

		atomic_thread_fence(memory_order_acquire);
		if (seq & 1 || atomic_load_explicit(&p->seq, memory_order_relaxed) != seq)
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
