/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the device's memory is there that a copy names: a copy that is only posted
 * could say so too late. What the worker has said of allocations is kept for the process
 * (core/extent_table.h); of all else, such as ranges that the program maps, each thread
 * remembers a few until somebody frees something.
 */
#ifndef WEFT_GUEST_EXTENT_H
#define WEFT_GUEST_EXTENT_H

#include <stdatomic.h>

#include "core/guest.h"
#include "core/thread.h"

extern _Atomic uint64_t extent_generation;

struct pointer_info_rep;

/* From the process's table, or the worker. CUDA_SUCCESS, or what the call is to return.
 */
CUresult extent_ask(struct guest_thread *t, uint64_t addr, uint64_t bytes);

/* Asks the worker what is at addr, and keeps it. The answer is good until the thread's
 * next command. */
CUresult extent_look(struct guest_thread *t, uint64_t addr,
		     const struct pointer_info_rep **ret_rep);

/* Before and after the memory at addr is freed, or a context ends: before, since somebody
 * else may be given the addresses at once; after, since somebody may have asked in
 * between. */
void extent_forget(struct guest_thread *t, uint64_t addr);
void extent_forget_all(void);

/* addr is one of guest_is_device(); INVALID_VALUE if not all bytes from there are memory.
 */
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
