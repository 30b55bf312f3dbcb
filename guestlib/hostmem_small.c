// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: small pinned memory
 *
 * A region costs messages, a charge and a registration with the driver, and is at least a
 * slab long. So small allocations share slabs: regions in blocks, with a bit for each
 * block in use. A free block is the next one's at once: freeing waits for the device, as
 * it does for regions. An empty slab is kept if there is no other with room.
 */
#include <pthread.h>
#include <stdlib.h>

#include "calls.h"
#include "hostmem.h"

/* What the driver aligns to is 512. */
#define BLOCK_BYTES 1024u
#define BLOCKS      64u

struct slab {
	struct slab *next;
	struct hostmem_region region;
	uint64_t used; /* bit n: block n */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slab *slabs;

static unsigned blocks_of(size_t size)
{
	return (unsigned)((size + BLOCK_BYTES - 1) / BLOCK_BYTES);
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

static bool take_locked(unsigned n, uint64_t *ret_addr)
{
	for (struct slab *s = slabs; s; s = s->next) {
		int at = find_run(s->used, n);

		if (at < 0)
			continue;
		s->used |= run_of(n, (unsigned)at);
		*ret_addr = s->region.addr + (unsigned)at * (uint64_t)BLOCK_BYTES;
		return true;
	}
	return false;
}

static CUresult add_slab(struct guest_thread *t)
{
	struct slab *s = calloc(1, sizeof(*s));
	CUresult r;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = hostmem_region_new(t, (size_t)BLOCK_BYTES * BLOCKS, &s->region);
	if (r) {
		free(s);
		return r;
	}
	pthread_mutex_lock(&lock);
	s->next = slabs;
	slabs = s;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult hostmem_small_new(struct guest_thread *t, size_t size, uint64_t *ret_addr)
{
	unsigned n = blocks_of(size);

	for (;;) {
		bool found;
		CUresult r;

		pthread_mutex_lock(&lock);
		found = take_locked(n, ret_addr);
		pthread_mutex_unlock(&lock);
		if (found)
			return CUDA_SUCCESS;
		r = add_slab(t); /* of which another thread may be quicker to take */
		if (r)
			return r;
	}
}

/* Waits for the device. */
static CUresult wait_device(struct guest_thread *t)
{
	struct host_free_cmd *cmd = begin_host_free(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->addr = 0;
	return guest_call(t, sizeof(struct host_free_rep), &reply);
}

/* A slab that is empty though another one has as much room; taken out. */
static struct slab *give_back_locked(uint64_t addr, unsigned n)
{
	struct slab **p = &slabs, *s;
	bool room = false;

	for (s = slabs; s; s = s->next)
		room |= !s->used;
	for (; (s = *p); p = &s->next) {
		uint64_t at = addr - s->region.addr;

		if (at >= s->region.size)
			continue;
		s->used &= ~run_of(n, (unsigned)(at / BLOCK_BYTES));
		if (s->used || !room)
			return NULL;
		*p = s->next;
		return s;
	}
	return NULL;
}

CUresult hostmem_small_free(struct guest_thread *t, uint64_t addr, size_t size)
{
	CUresult r = wait_device(t), r2;
	struct slab *empty;

	pthread_mutex_lock(&lock);
	empty = give_back_locked(addr, blocks_of(size));
	pthread_mutex_unlock(&lock);
	if (!empty)
		return r;
	r2 = hostmem_region_free(t, &empty->region);
	free(empty);
	return r ? r : r2;
}
