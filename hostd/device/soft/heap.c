/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boundary tags, kept apart from the memory they describe: tags[u] is nonzero if unit u
 * (16 bytes) is the first or the last of a block, and says its size, whether it is in
 * use, and which end it is. Free blocks hang in lists by the logarithm of their size.
 * Units are numbered from 1, so that 0 ends a list; 0 and units + 1 are sentinels in use.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/macros.h"
#include "device/soft/heap.h"
#include "device/soft/memory.h"

#define UNIT       16u
#define TAG_USED   1u
#define TAG_FIRST  2u
#define TAG_LAST   4u
#define TAG_SHIFT  3
#define MAX_LOOKED 16 /* candidates of the block's own bin */

void soft_heap_init(struct soft_heap *h, struct soft_memory *mem)
{
	*h = (struct soft_heap){.mem = mem, .limit = SOFT_HEAP_DEFAULT};
	pthread_mutex_init(&h->lock, NULL);
}

static size_t table_bytes(uint32_t units)
{
	return 3 * ((size_t)units + 2) * sizeof(uint32_t);
}

void soft_heap_fini(struct soft_heap *h)
{
	if (h->base) {
		munmap(h->tags, table_bytes(h->units));
		soft_memory_free(h->mem, h->base, (uint64_t)h->units * UNIT);
	}
	pthread_mutex_destroy(&h->lock);
}

static uint32_t size_of(const struct soft_heap *h, uint32_t u)
{
	return h->tags[u] >> TAG_SHIFT;
}

static unsigned bin_of(uint32_t units)
{
	return 31 - (unsigned)__builtin_clz(units);
}

static void tag_block(struct soft_heap *h, uint32_t u, uint32_t n, uint32_t used)
{
	uint32_t tag = n << TAG_SHIFT | used;

	h->tags[u] = tag | TAG_FIRST;
	if (n > 1)
		h->tags[u + n - 1] = tag | TAG_LAST;
	else
		h->tags[u] |= TAG_LAST;
}

/* Takes a free block out of its list and out of the tags. */
static void block_take(struct soft_heap *h, uint32_t u)
{
	uint32_t n = size_of(h, u);

	if (h->prev[u])
		h->next[h->prev[u]] = h->next[u];
	else
		h->bins[bin_of(n)] = h->next[u];
	if (h->next[u])
		h->prev[h->next[u]] = h->prev[u];
	h->tags[u] = h->tags[u + n - 1] = 0;
}

static void block_give(struct soft_heap *h, uint32_t u, uint32_t n)
{
	uint32_t *head = &h->bins[bin_of(n)];

	tag_block(h, u, n, 0);
	h->prev[u] = 0;
	h->next[u] = *head;
	if (*head)
		h->prev[*head] = u;
	*head = u;
}

static bool install_locked(struct soft_heap *h, uint64_t base, uint32_t units,
			   uint32_t *tables)
{
	if (h->base)
		return false;
	h->base = base;
	h->units = units;
	h->tags = tables;
	h->next = tables + units + 2;
	h->prev = h->next + units + 2;
	h->tags[0] = h->tags[units + 1] = 1u << TAG_SHIFT | TAG_USED;
	block_give(h, 1, units);
	return true;
}

/*
 * The memory is taken without the lock: kernels in a slice wait for the lock, and whoever
 * unmaps memory waits for slices and keeps others from taking any.
 */
void soft_heap_open(struct soft_heap *h)
{
	uint64_t bytes, base;
	uint32_t *tables;
	uint32_t units;
	bool open;

	pthread_mutex_lock(&h->lock);
	bytes = ALIGN_UP(h->limit, SOFT_PAGE_BYTES);
	open = h->base != 0;
	pthread_mutex_unlock(&h->lock);
	if (open)
		return;
	units = (uint32_t)(bytes / UNIT);
	tables = mmap(NULL, table_bytes(units), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tables == MAP_FAILED)
		return;
	base = soft_memory_alloc(h->mem, bytes);
	pthread_mutex_lock(&h->lock);
	open = base && install_locked(h, base, units, tables);
	pthread_mutex_unlock(&h->lock);
	if (open)
		return;
	munmap(tables, table_bytes(units));
	soft_memory_free(h->mem, base, bytes);
}

/* A free block of at least n units, or 0. */
static uint32_t block_find(const struct soft_heap *h, uint32_t n)
{
	unsigned bin = bin_of(n), looked = 0;

	for (uint32_t u = h->bins[bin]; u && looked < MAX_LOOKED; u = h->next[u]) {
		if (size_of(h, u) >= n)
			return u;
		looked++;
	}
	while (++bin < SOFT_HEAP_BINS) {
		if (h->bins[bin])
			return h->bins[bin];
	}
	return 0;
}

uint64_t soft_heap_alloc(struct soft_heap *h, uint64_t bytes)
{
	uint64_t addr = 0;
	uint32_t n, u, size;

	if (!bytes || bytes > SOFT_HEAP_MAX)
		return 0;
	n = (uint32_t)((bytes + UNIT - 1) / UNIT);
	pthread_mutex_lock(&h->lock);
	u = block_find(h, n); /* nothing before the heap is open: the bins are empty */
	if (u) {
		size = size_of(h, u);
		block_take(h, u);
		if (size > n)
			block_give(h, u + n, size - n);
		tag_block(h, u, n, TAG_USED);
		addr = h->base + (uint64_t)(u - 1) * UNIT;
	}
	pthread_mutex_unlock(&h->lock);
	return addr;
}

static int free_locked(struct soft_heap *h, uint64_t addr)
{
	uint32_t u, n, prev, next;

	if (!h->base || addr < h->base || addr - h->base >= (uint64_t)h->units * UNIT ||
	    addr % UNIT)
		return -EINVAL;
	u = (uint32_t)((addr - h->base) / UNIT) + 1;
	if (!(h->tags[u] & TAG_FIRST) || !(h->tags[u] & TAG_USED))
		return -EINVAL;
	n = size_of(h, u);
	h->tags[u] = h->tags[u + n - 1] = 0;
	next = h->tags[u + n];
	if (!(next & TAG_USED)) {
		block_take(h, u + n);
		n += next >> TAG_SHIFT;
	}
	prev = h->tags[u - 1];
	if (!(prev & TAG_USED)) {
		u -= prev >> TAG_SHIFT;
		block_take(h, u);
		n += prev >> TAG_SHIFT;
	}
	block_give(h, u, n);
	return 0;
}

int soft_heap_free(struct soft_heap *h, uint64_t addr)
{
	int r;

	pthread_mutex_lock(&h->lock);
	r = free_locked(h, addr);
	pthread_mutex_unlock(&h->lock);
	return r;
}
