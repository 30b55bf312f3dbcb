/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted set of disjoint ranges [start, start + size) of 64-bit numbers, each with a
 * pointer of the owner's. Keeps what is reserved, what is mapped, and which parts of the
 * memory file are in use. Not thread-safe.
 */
#ifndef WEFT_DEVICE_RANGE_H
#define WEFT_DEVICE_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start, size;
	void *data;
};

struct range_set {
	struct range *v; /* ascending */
	size_t n, cap;
	size_t hint; /* where range_gap() looks first */
};

void range_fini(struct range_set *s);

/* Index of the first range that ends above pos; s->n if there is none. */
size_t range_above(const struct range_set *s, uint64_t pos);

/* The range that contains pos, or NULL. Valid until the next insertion or removal. */
struct range *range_at(const struct range_set *s, uint64_t pos);

/* Returns 0, -EEXIST if it overlaps another one, -EINVAL (empty, wraps) or -ENOMEM. */
int range_insert(struct range_set *s, uint64_t start, uint64_t size, void *data);

/* Removes the n ranges from index i on. */
void range_remove(struct range_set *s, size_t i, size_t n);

/*
 * Finds a free place of size bytes, a multiple of align (a power of two), within
 * [lo, hi). Returns 0 or -ENOSPC. Searches on from the last find before it starts over.
 */
int range_gap(struct range_set *s, uint64_t lo, uint64_t hi, uint64_t size,
	      uint64_t align, uint64_t *ret_start);

#endif
