/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the device memory that a copy names is there: a copy that is only posted
 * could say so too late. Answers of the worker about allocations are kept for the process
 * (core/extent_table.h); of all else, such as ranges that the program maps, each thread
 * remembers a few until any memory is freed.
 */
#ifndef WEFT_GUEST_EXTENT_H
#define WEFT_GUEST_EXTENT_H

#include <stdatomic.h>

#include "core/guest.h"
#include "core/thread.h"

extern _Atomic uint64_t extent_generation;

struct pointer_info_rep;

/* Checks as extent_check() does, by the process's table or a question to the worker.
 * CUDA_SUCCESS, or what the call is to return. */
CUresult extent_ask(struct guest_thread *t, uint64_t addr, uint64_t bytes);

/* Asks the worker what is at addr, and keeps the answer. *ret_rep is valid until the
 * thread's next command. */
CUresult extent_look(struct guest_thread *t, uint64_t addr,
		     const struct pointer_info_rep **ret_rep);

/* Forget the memory at addr, and all memory. Called before and after memory is freed or a
 * context ends: before, since another thread may be given the addresses at once; after,
 * since one may have asked in between. */
void extent_forget(struct guest_thread *t, uint64_t addr);
void extent_forget_all(void);

/* Checks that there is memory at all of the bytes from addr on, an address of
 * guest_is_device(); INVALID_VALUE if not. */
static inline CUresult extent_check(struct guest_thread *t, uint64_t addr, uint64_t bytes)
{
	const struct extents *e = &t->extents;

	if (likely(e->generation ==
		   atomic_load_explicit(&extent_generation, memory_order_relaxed))) {
		for (unsigned i = 0; i < EXTENTS; i++) {
			if (addr - e->of[i].base < e->of[i].size &&
			    bytes <= e->of[i].size - (addr - e->of[i].base))
				return CUDA_SUCCESS;
		}
	}
	return extent_ask(t, addr, bytes);
}

#endif
