/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: small host memory
 *
 * A region costs messages, a charge and a registration with the driver, and is at least a
 * slab long. So small allocations share slabs: regions in blocks, with a bit for each
 * block in use; pinned memory in two sizes of blocks, managed memory in slabs that move as
 * a whole (managed.c). A free block is the next one's at once: freeing waits for the
 * device, as it does for regions. An empty slab is kept if there is no other.
 */
#include <pthread.h>
#include <stdlib.h>

#include "calls.h"
#include "object/hostmem.h"
#include "object/managed.h"

#define BLOCKS     64u
#define BLOCKS_MAX 16u /* of one allocation that does not move */

struct slab {
	struct slab *next;
	uint64_t base;
	struct hostmem_region region; /* or */
	struct managed_mem *moves;
	uint64_t used; /* bit n: block n */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Blocks are more aligned than the driver's, which are to 512. */
static struct tier {
	unsigned block; /* bytes */
	struct slab *slabs;
} tiers[] = {{1u << 10, NULL}, {16u << 10, NULL}}, moving = {32u << 10, NULL};
static unsigned n_tiny; /* in slabs that move */
static_assert(HOSTMEM_SMALL == ((size_t)16 << 10) * BLOCKS_MAX, "it fits the last one");
static_assert(MANAGED_MOVES_MIN == ((size_t)32 << 10) * BLOCKS, "slabs are what moves");

/* NULL: it is too large for any. */
static struct tier *tier_of(const struct hostmem *h)
{
	if (h->moves)
		return &moving;
	if (h->size > HOSTMEM_SMALL)
		return NULL;
	return &tiers[h->size > (size_t)tiers[0].block * BLOCKS_MAX];
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

static bool take_locked(const struct tier *q, unsigned n, struct hostmem *h)
{
	for (struct slab *s = q->slabs; s; s = s->next) {
		int at = find_run(s->used, n);

		if (at < 0)
			continue;
		s->used |= run_of(n, (unsigned)at);
		h->base = h->dev = h->host = s->base + (unsigned)at * (uint64_t)q->block;
		h->moves = s->moves;
		return true;
	}
	return false;
}

static CUresult make_region(struct guest_thread *t, const struct tier *q, struct slab *s)
{
	struct hostmem h = {.size = (size_t)q->block * BLOCKS};
	CUresult r;

	if (q != &moving) {
		r = hostmem_region_new(t, h.size, &s->region);
		s->base = s->region.addr;
		return r;
	}
	r = managed_new(t, &h, true);
	s->base = h.base;
	s->moves = h.moves;
	return r;
}

static CUresult free_region(struct guest_thread *t, const struct slab *s)
{
	return s->moves ? managed_end(t, s->moves) : hostmem_region_free(t, &s->region);
}

static CUresult add_slab(struct guest_thread *t, struct tier *q)
{
	struct slab *s = calloc(1, sizeof(*s));
	CUresult r;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = make_region(t, q, s);
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

static CUresult new_of(struct guest_thread *t, struct tier *q, struct hostmem *h)
{
	unsigned n;

	if (!q)
		return CUDA_ERROR_NOT_SUPPORTED;
	n = blocks_of(q, h->size);
	for (;;) {
		bool found;
		CUresult r;

		pthread_mutex_lock(&lock);
		found = take_locked(q, n, h);
		pthread_mutex_unlock(&lock);
		if (found)
			return CUDA_SUCCESS;
		r = add_slab(t, q); /* of which another thread may be quicker to take */
		if (r)
			return r;
	}
}

/* Counts one that moves, if there may be one more of its kind. */
static bool count(const struct hostmem *h)
{
	bool tiny = h->size <= MANAGED_TINY_MAX, may;

	pthread_mutex_lock(&lock);
	may = !tiny || n_tiny < MANAGED_TINY_N;
	n_tiny += tiny && may;
	pthread_mutex_unlock(&lock);
	return may;
}

static void uncount(const struct hostmem *h)
{
	pthread_mutex_lock(&lock);
	n_tiny -= h->size <= MANAGED_TINY_MAX;
	pthread_mutex_unlock(&lock);
}

static CUresult new_moving(struct guest_thread *t, struct hostmem *h)
{
	CUresult r;

	if (!h->managed || h->size >= MANAGED_MOVES_MIN || !count(h))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = new_of(t, &moving, h);
	if (r)
		uncount(h);
	return r;
}

CUresult hostmem_small_new(struct guest_thread *t, struct hostmem *h)
{
	CUresult r = new_moving(t, h);

	return r ? new_of(t, tier_of(h), h) : r;
}

/* A slab that is empty though another one has as much room; taken out. */
static struct slab *give_back_locked(struct tier *q, uint64_t addr, unsigned n)
{
	struct slab **p = &q->slabs, *s;
	bool room = false;

	for (s = q->slabs; s; s = s->next)
		room |= !s->used;
	for (; (s = *p); p = &s->next) {
		uint64_t at = addr - s->base;

		if (at >= (uint64_t)q->block * BLOCKS)
			continue;
		s->used &= ~run_of(n, (unsigned)(at / q->block));
		if (s->used || !room)
			return NULL;
		*p = s->next;
		return s;
	}
	return NULL;
}

CUresult hostmem_small_free(struct guest_thread *t, const struct hostmem *h)
{
	CUresult r = hostmem_wait_device(t), r2;
	struct tier *q = tier_of(h);
	struct slab *empty;

	if (h->moves && hostmem_is_host(h->where.preferred))
		managed_stay(h->moves, false);
	if (h->moves)
		uncount(h);
	pthread_mutex_lock(&lock);
	empty = give_back_locked(q, h->base, blocks_of(q, h->size));
	pthread_mutex_unlock(&lock);
	if (!empty)
		return r;
	r2 = free_region(t, empty);
	free(empty);
	return r ? r : r2;
}
