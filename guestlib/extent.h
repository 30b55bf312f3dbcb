/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the device's memory is there that a copy names: a copy that is only posted
 * could say so too late. What the worker has said is remembered per thread until somebody
 * frees something.
 */
#ifndef WEFT_GUEST_EXTENT_H
#define WEFT_GUEST_EXTENT_H

#include <stdatomic.h>

#include "guest.h"
#include "thread.h"

extern _Atomic uint64_t extent_generation;

/* Asks the worker. CUDA_SUCCESS, or what the call is to return. */
CUresult extent_ask(struct guest_thread *t, uint64_t addr, uint64_t bytes);

/* After the memory at addr has been freed. */
void extent_forget(struct guest_thread *t, uint64_t addr);

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
