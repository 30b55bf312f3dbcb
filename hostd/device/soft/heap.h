/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of device-side malloc() and free(). Its book-keeping is kept in host memory,
 * where kernels cannot reach it. Any thread.
 */
#ifndef WEFT_DEVICE_SOFT_HEAP_H
#define WEFT_DEVICE_SOFT_HEAP_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct soft_memory;

#define SOFT_HEAP_DEFAULT (8u << 20)
#define SOFT_HEAP_MAX     (4ull << 30) /* what the tags can count */
#define SOFT_HEAP_BINS    32

struct soft_heap {
	pthread_mutex_t lock;
	struct soft_memory *mem;
	uint64_t limit; /* bytes; fixed once base is set */
	uint64_t base;  /* 0 until the first malloc() */
	uint32_t units;
	uint32_t *tags, *next, *prev; /* one per unit, see heap.c */
	uint32_t bins[SOFT_HEAP_BINS];
};

void soft_heap_init(struct soft_heap *h, struct soft_memory *mem);

/* Gives the memory back. */
void soft_heap_fini(struct soft_heap *h);

/*
 * Takes the heap's memory if it has none yet; without, every soft_heap_alloc() fails. Not
 * within a slice: memory that is being unmapped waits for slices, and this for memory.
 */
void soft_heap_open(struct soft_heap *h);

/* 16-byte aligned address, or 0. */
uint64_t soft_heap_alloc(struct soft_heap *h, uint64_t bytes);

/* Returns 0, or -EINVAL if nothing that is allocated begins at addr. */
int soft_heap_free(struct soft_heap *h, uint64_t addr);

#endif
