/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks of a function fit on an SM: the device knows. */

#include "calls.h"
#include "code/module.h"

/*
 * Libraries ask the same before every launch, so a function remembers answers. One word
 * holds question and answer: bit 0 set, bit 1 the flag, 16 bits of block size, 32 of
 * shared memory, 14 of blocks.
 */
#define CACHE_QUESTION ((UINT64_C(1) << 50) - 1)
#define CACHE_BLOCKS   ((1 << 14) - 1)

static uint64_t question(int block_size, size_t shared, unsigned flags)
{
	if (block_size <= 0 || block_size > UINT16_MAX || shared > UINT32_MAX)
		return 0; /* not to be remembered */
	return 1 | (uint64_t)flags << 1 | (uint64_t)block_size << 2 |
	       (uint64_t)shared << 18;
}

static _Atomic uint64_t *cached(struct guest_func *f, uint64_t q)
{
	return &f->occupancy[(q * 0x9e3779b97f4a7c15u) >> 61];
}

static CUresult ask(struct guest_func *f, int block_size, size_t shared, unsigned flags,
		    int *ret_blocks)
{
	struct guest_thread *t;
	struct occupancy_rep rep;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	r = call_occupancy(t, f->handle, block_size, flags, shared, &rep);
	if (r == CUDA_SUCCESS)
		*ret_blocks = rep.blocks;
	return r;
}

CUresult func_blocks_per_sm(struct guest_func *f, int block_size, size_t shared,
			    unsigned flags, int *ret_blocks)
{
	uint64_t q = question(block_size, shared, flags);
	uint64_t known = q ? atomic_load_explicit(cached(f, q), memory_order_relaxed) : 0;
	CUresult r;

	if (q && (known & CACHE_QUESTION) == q) {
		*ret_blocks = (int)(known >> 50);
		return CUDA_SUCCESS;
	}
	r = ask(f, block_size, shared, flags, ret_blocks);
	if (r == CUDA_SUCCESS && q && *ret_blocks >= 0 && *ret_blocks <= CACHE_BLOCKS)
		atomic_store_explicit(cached(f, q), q | (uint64_t)*ret_blocks << 50,
				      memory_order_relaxed);
	return r;
}
