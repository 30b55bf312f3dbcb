/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: small pinned memory
 *
 * A region costs messages, a charge and a registration with the driver, and is at least a
 * slab long. So small allocations share slabs: regions in blocks, with a bit for each
 * block in use, in two sizes of blocks. A free block is the next one's at once: freeing
 * waits for the device, as it does for regions. An empty slab is kept if there is no
 * other.
 */
#include <pthread.h>
#include <stdlib.h>

#include "calls.h"
#include "object/hostmem.h"

#define BLOCKS     64u
#define BLOCKS_MAX 16u /* of one allocation */

struct slab {
	struct slab *next;
	struct hostmem_region region;
	uint64_t used; /* bit n: block n */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Blocks are more aligned than the driver's, which are to 512. */
static struct tier {
	unsigned block; /* bytes */
	struct slab *slabs;
} tiers[] = {{1u << 10, NULL}, {16u << 10, NULL}};
static_assert(HOSTMEM_SMALL == (16u << 10) * BLOCKS_MAX, "it fits the last one");

static struct tier *tier_of(size_t size)
{
	return &tiers[size > (size_t)tiers[0].block * BLOCKS_MAX];
}

static unsigned blocks_of(const struct tier *q, size_t size)
{
	return (unsigned)((size + q->block - 1) / q->block);
}

static uint64_t run_of(unsigned n, unsigned at)
{
	return (UINT64_MAX >> (BLOCKS - n)) << at;
}

/* The first block of n free ones in a row, or -1. */
static int find_run(uint64_t used, unsigned n)
{
	for (unsigned at = 0; at + n <= BLOCKS; at++) {
		if (!(used & run_of(n, at)))
			return (int)at;
	}
	return -1;
}

static bool take_locked(const struct tier *q, unsigned n, uint64_t *ret_addr)
{
	for (struct slab *s = q->slabs; s; s = s->next) {
		int at = find_run(s->used, n);

		if (at < 0)
			continue;
		s->used |= run_of(n, (unsigned)at);
		*ret_addr = s->region.addr + (unsigned)at * (uint64_t)q->block;
		return true;
	}
	return false;
}

static CUresult add_slab(struct guest_thread *t, struct tier *q)
{
	struct slab *s = calloc(1, sizeof(*s));
	CUresult r;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = hostmem_region_new(t, (size_t)q->block * BLOCKS, &s->region);
	if (r) {
		free(s);
		return r;
	}
	pthread_mutex_lock(&lock);
	s->next = q->slabs;
	q->slabs = s;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult hostmem_small_new(struct guest_thread *t, size_t size, uint64_t *ret_addr)
{
	struct tier *q = tier_of(size);
	unsigned n = blocks_of(q, size);

	for (;;) {
		bool found;
		CUresult r;

		pthread_mutex_lock(&lock);
		found = take_locked(q, n, ret_addr);
		pthread_mutex_unlock(&lock);
		if (found)
			return CUDA_SUCCESS;
		r = add_slab(t, q); /* of which another thread may be quicker to take */
		if (r)
			return r;
	}
}

/* A slab that is empty though another one has as much room; taken out. */
static struct slab *give_back_locked(struct tier *q, uint64_t addr, unsigned n)
{
	struct slab **p = &q->slabs, *s;
	bool room = false;

	for (s = q->slabs; s; s = s->next)
		room |= !s->used;
	for (; (s = *p); p = &s->next) {
		uint64_t at = addr - s->region.addr;

		if (at >= s->region.size)
			continue;
		s->used &= ~run_of(n, (unsigned)(at / q->block));
		if (s->used || !room)
			return NULL;
		*p = s->next;
		return s;
	}
	return NULL;
}

CUresult hostmem_small_free(struct guest_thread *t, uint64_t addr, size_t size)
{
	CUresult r = hostmem_wait_device(t), r2;
	struct tier *q = tier_of(size);
	struct slab *empty;

	pthread_mutex_lock(&lock);
	empty = give_back_locked(q, addr, blocks_of(q, size));
	pthread_mutex_unlock(&lock);
	if (!empty)
		return r;
	r2 = hostmem_region_free(t, &empty->region);
	free(empty);
	return r ? r : r2;
}
