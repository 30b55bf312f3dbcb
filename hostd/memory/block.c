/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/macros.h"
#include "memory/block.h"

/* Within a bin the best of so many is taken. */
#define LOOK_AT 16

/* One bin per unit up to 16 units, then four for each power of two. */
static unsigned bin_of(uint64_t size)
{
	uint64_t units = size / BLOCK_UNIT;
	unsigned log;

	if (units < 16)
		return (unsigned)units;
	log = 63 - (unsigned)__builtin_clzll(units);
	return MIN(16 + (log - 4) * 4 + (unsigned)(units >> (log - 2) & 3), BINS - 1);
}

void bins_init(struct bins *b)
{
	for (unsigned i = 0; i < BINS; i++)
		list_init(&b->bin[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(b->some); i++)
		b->some[i] = 0;
}

void bins_add(struct bins *b, struct block *k)
{
	k->bin = bin_of(k->size);
	list_insert_after(&b->bin[k->bin], &k->in_bin);
	b->some[k->bin / 64] |= 1ull << k->bin % 64;
}

void bins_remove(struct bins *b, struct block *k)
{
	list_remove(&k->in_bin);
	if (list_empty(&b->bin[k->bin]))
		b->some[k->bin / 64] &= ~(1ull << k->bin % 64);
}

static unsigned next_bin(const struct bins *b, unsigned from)
{
	while (from < BINS) {
		uint64_t w = b->some[from / 64] & ~0ull << from % 64;

		if (w)
			return from / 64 * 64 + (unsigned)__builtin_ctzll(w);
		from = (from / 64 + 1) * 64;
	}
	return BINS;
}

static struct block *best_in(struct list *bin, uint64_t size)
{
	struct block *k, *best = NULL;
	unsigned n = 0;

	list_for_each (k, bin, in_bin) {
		if (k->size >= size && (!best || k->size < best->size))
			best = k;
		if ((best && best->size == size) || (++n >= LOOK_AT && best))
			break;
	}
	return best;
}

struct block *bins_find(struct bins *b, uint64_t size)
{
	for (unsigned i = next_bin(b, bin_of(size)); i < BINS; i = next_bin(b, i + 1)) {
		struct block *k = best_in(&b->bin[i], size);

		if (k)
			return k;
	}
	return NULL;
}

static struct block *block_new(struct arena *a, CUdeviceptr addr, uint64_t size)
{
	struct block *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	list_init(&k->in_arena);
	list_init(&k->in_bin);
	list_init(&k->link);
	k->arena = a;
	k->addr = addr;
	k->size = size;
	++*a->count;
	return k;
}

struct block *arena_init(struct arena *a, CUdeviceptr addr, uint64_t size,
			 uint64_t *count)
{
	struct block *k;

	a->count = count;
	k = block_new(a, addr, size);
	if (!k)
		return NULL;
	list_init(&a->link);
	list_init(&a->blocks);
	a->addr = addr;
	a->size = size;
	list_append(&a->blocks, &k->in_arena);
	return k;
}

void arena_fini(struct arena *a)
{
	struct block *k, *tmp;

	list_for_each_safe (k, tmp, &a->blocks, in_arena) {
		list_remove(&k->link);
		free(k);
		--*a->count;
	}
}

bool arena_is_free(const struct arena *a)
{
	const struct block *k = list_entry(a->blocks.next, struct block, in_arena);

	return k->state == BLOCK_FREE && k->size == a->size;
}

struct block *block_split(struct block *k, uint64_t size)
{
	struct block *rest;

	if (k->size == size)
		return NULL;
	rest = block_new(k->arena, k->addr + size, k->size - size);
	if (!rest)
		return NULL;
	rest->state = k->state;
	rest->queue = k->queue;
	rest->mark = k->mark;
	rest->freed = k->freed;
	k->size = size;
	list_insert_after(&k->in_arena, &rest->in_arena);
	return rest;
}

static bool alike(const struct block *a, const struct block *b)
{
	return a->state == b->state && a->state != BLOCK_USED && a->queue == b->queue;
}

struct block *block_next(const struct block *k)
{
	struct block *n;

	if (k->in_arena.next == &k->arena->blocks)
		return NULL;
	n = list_entry(k->in_arena.next, struct block, in_arena);
	return alike(k, n) ? n : NULL;
}

struct block *block_prev(const struct block *k)
{
	struct block *p;

	if (k->in_arena.prev == &k->arena->blocks)
		return NULL;
	p = list_entry(k->in_arena.prev, struct block, in_arena);
	return alike(k, p) ? p : NULL;
}

void block_merge(struct block *a, struct block *b)
{
	a->size += b->size;
	a->mark = MAX(a->mark, b->mark);
	a->freed = MAX(a->freed, b->freed);
	list_remove(&b->in_arena);
	--*b->arena->count;
	free(b);
}

struct block *arena_block_at(const struct arena *a, CUdeviceptr addr)
{
	struct block *k;

	list_for_each (k, &a->blocks, in_arena) {
		if (addr - k->addr < k->size)
			return k;
	}
	return NULL;
}
