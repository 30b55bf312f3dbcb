/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/macros.h"
#include "memory/block.h"

void sizes_add(struct tree *sizes, struct block *k)
{
	k->node.key = k->size;
	tree_insert(sizes, &k->node);
}

void sizes_remove(struct tree *sizes, struct block *k)
{
	tree_remove(sizes, &k->node);
}

struct block *sizes_find(const struct tree *sizes, uint64_t size)
{
	struct tree_node *n = tree_at_least(sizes, size);

	return n ? container_of(n, struct block, node) : NULL;
}

static struct block *block_new(struct arena *a, CUdeviceptr addr, uint64_t size)
{
	struct block *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	list_init(&k->in_arena);
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

/* ---- what is free ---- */

void block_make_free(struct tree *sizes, struct block *k)
{
	struct block *other;

	k->state = BLOCK_FREE;
	k->queue = NULL;
	k->mark = 0;
	while ((other = block_next(k))) {
		sizes_remove(sizes, other);
		block_merge(k, other);
	}
	while ((other = block_prev(k))) {
		sizes_remove(sizes, other);
		block_merge(other, k);
		k = other;
	}
	sizes_add(sizes, k);
}

struct block *block_take_free(struct tree *sizes, uint64_t size)
{
	struct block *k = sizes_find(sizes, size), *rest;

	if (!k)
		return NULL;
	sizes_remove(sizes, k);
	rest = block_split(k, size);
	if (rest)
		sizes_add(sizes, rest);
	return k;
}
