/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of disjoint ranges [start, start + size) of 64-bit numbers in order, each with a
 * pointer of the owner's. Keeps what is reserved, what is mapped, and which parts of the
 * memory file are in use. Not thread-safe.
 */
#ifndef WEFT_DEVICE_RANGE_H
#define WEFT_DEVICE_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/tree.h"

struct range {
	struct tree_node node; /* by start */
	uint64_t start, size;
	void *data;
};

/* All zero: empty. */
struct range_set {
	struct tree tree;
	uint64_t hint; /* where range_gap() looks first */
};

/* Removes all of them. */
void range_fini(struct range_set *s);

/* The first range that ends above pos, or NULL. */
struct range *range_above(const struct range_set *s, uint64_t pos);

/* The one after r, or NULL. */
struct range *range_next(const struct range_set *s, const struct range *r);

/* The range that contains pos, or NULL. */
struct range *range_at(const struct range_set *s, uint64_t pos);

/* Returns 0, -EEXIST if it overlaps another one, -EINVAL (empty, wraps) or -ENOMEM. */
int range_insert(struct range_set *s, uint64_t start, uint64_t size, void *data);

void range_remove(struct range_set *s, struct range *r);

/*
 * Finds a free place of size bytes, a multiple of align (a power of two), within
 * [lo, hi). Returns 0 or -ENOSPC. Searches on from the last find before it starts over.
 */
int range_gap(struct range_set *s, uint64_t lo, uint64_t hi, uint64_t size,
	      uint64_t align, uint64_t *ret_start);

#endif
