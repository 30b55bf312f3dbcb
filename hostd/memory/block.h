/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a pool's memory is divided: an arena is one stretch of device memory, cut into
 * blocks that cover it without a gap. A block is in use, free, or waiting for the stream
 * in which it was freed; blocks of the last two kinds are in trees by size, where they
 * are looked for. Only bookkeeping: no device, no locks.
 */
#ifndef WEFT_MEM_BLOCK_H
#define WEFT_MEM_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "base/list.h"
#include "base/tree.h"

#define BLOCK_UNIT 512u /* sizes and addresses are multiples of it */

enum block_state {
	BLOCK_FREE,
	BLOCK_USED,
	BLOCK_WAITING,
};

struct arena;
struct pool_queue;

struct block {
	struct list in_arena; /* by address */
	struct list link;     /* waiting: of the queue */
	/* Used: of pools.used, by address; else of what is free or waits in one stream,
	 * by size. */
	struct tree_node node;
	struct arena *arena;
	CUdeviceptr addr;
	uint64_t size;  /* multiple of BLOCK_UNIT */
	uint64_t bytes; /* used: what was asked for */
	uint64_t id;    /* used: never reused */
	enum block_state state;
	struct pool_queue *queue; /* waiting: for this one */
	uint64_t mark;            /* waiting: ready when the queue is done with it */
	uint64_t freed;           /* waiting: pools.clock of its (latest) freeing */
};

struct arena {
	struct list link;   /* of the pool, the newest first */
	struct list blocks; /* by address */
	struct pool *pool;
	uint64_t *count; /* of blocks, its own among others' */
	CUdeviceptr addr;
	uint64_t size;
};

/* Enter a free or waiting block, and take it out before anything of it changes. */
void sizes_add(struct tree *sizes, struct block *k);
void sizes_remove(struct tree *sizes, struct block *k);
/* The smallest block of at least that size; it stays where it is. NULL: none. */
struct block *sizes_find(const struct tree *sizes, uint64_t size);

/* Makes one free block of all of an arena, in no tree. NULL: out of memory. *count
 * is kept up to date. */
struct block *arena_init(struct arena *a, CUdeviceptr addr, uint64_t size,
			 uint64_t *count);
/* Frees the blocks. */
void arena_fini(struct arena *a);
/* True if all of it is one free block. */
bool arena_is_free(const struct arena *a);

/*
 * Cuts k, which is in no tree, down to size and returns the rest as a block of the same
 * state, queue and mark, in no tree; NULL if there is no rest (or no memory for it: then
 * k stays larger).
 */
struct block *block_split(struct block *k, uint64_t size);

/* Makes a block that nobody uses free, as one with its free neighbours, and enters it into
 * the tree of what is free, by size. */
void block_make_free(struct tree *sizes, struct block *k);
/* Takes size bytes out of the smallest free block that has them, or more if there is no
 * memory for the rest. In no tree. NULL: none is as large. */
struct block *block_take_free(struct tree *sizes, uint64_t size);

/* The neighbour by address if it can become one with k: same state and queue. */
struct block *block_next(const struct block *k);
struct block *block_prev(const struct block *k);
/* Makes two neighbours one; both in no tree and no list; b is freed. */
void block_merge(struct block *a, struct block *b);

#endif
