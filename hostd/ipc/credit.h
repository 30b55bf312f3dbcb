/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that weftd has granted to a worker ahead of use, in a page that both have
 * mapped, so that most charges cost no message.
 *
 * The worker takes from the spare and puts back what it frees; weftd adds to it when it
 * grants and may drain it at any time. So a tenant's use is, exactly and at any moment,
 * what its workers were granted less what is spare of their credit. weftd believes
 * credit up to what it has granted.
 *
 * Lock-free; worker: any thread, weftd: its one thread.
 */
#ifndef WEFT_IPC_CREDIT_H
#define WEFT_IPC_CREDIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct credit {
	_Atomic uint64_t spare; /* bytes */
	_Atomic uint32_t ask;   /* 1: over the tenant's limit, take nothing */
	_Atomic uint32_t seq;   /* odd while weftd writes what follows */
	/* Bytes that weftd could still grant, and the tenant's total; 0: ask weftd. */
	_Atomic uint64_t left, total;
};

/* Worker: takes bytes out of the spare. False: ask weftd. */
static inline bool credit_take(struct credit *c, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(&c->spare, memory_order_relaxed);

	if (atomic_load_explicit(&c->ask, memory_order_acquire))
		return false;
	while (have >= bytes) {
		/* acq_rel: weftd's draining comes before or after, never in between. */
		if (atomic_compare_exchange_weak_explicit(&c->spare, &have, have - bytes,
							  memory_order_acq_rel,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

/* Worker: puts back bytes that are free again. weftd: grants bytes ahead. */
static inline void credit_put(struct credit *c, uint64_t bytes)
{
	atomic_fetch_add_explicit(&c->spare, bytes, memory_order_acq_rel);
}

/* weftd: takes all of the spare, which others can be granted then; returns its bytes. */
static inline uint64_t credit_drain(struct credit *c)
{
	return atomic_exchange_explicit(&c->spare, 0, memory_order_acq_rel);
}

/* Returns the bytes that are spare now. */
static inline uint64_t credit_spare(const struct credit *c)
{
	return atomic_load_explicit(&c->spare, memory_order_acquire);
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
