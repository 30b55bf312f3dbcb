/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first few in some order, without sorting all: a heap. What it yields gathers behind
 * it, last first.
 */
#include "policies/choose.h"

static void swap(struct placement_piece *a, struct placement_piece *b)
{
	struct placement_piece c = *a;

	*a = *b;
	*b = c;
}

static void sift(struct placement_piece *c, size_t n, size_t i, uint64_t seed,
		 choose_before *before)
{
	for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
		if (child + 1 < n && before(&c[child + 1], &c[child], seed))
			child++;
		if (!before(&c[child], &c[i], seed))
			return;
		swap(&c[child], &c[i]);
		i = child;
	}
}

static bool take(uint64_t size, uint64_t room, uint64_t *sum)
{
	if (!size || size > room - *sum)
		return false;
	*sum += size;
	return true;
}

size_t choose(struct placement_piece *c, size_t n, uint64_t bytes, uint64_t room,
	      uint64_t seed, choose_before *before)
{
	uint64_t smallest = UINT64_MAX, sum = 0;
	size_t left = n, chosen = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].size && c[i].size < smallest)
			smallest = c[i].size;
	}
	for (size_t i = n / 2; i-- > 0;)
		sift(c, n, i, seed, before);
	while (left && sum < bytes && smallest <= room - sum) {
		take(c[0].size, room, &sum);
		swap(&c[0], &c[--left]);
		sift(c, left, 0, seed, before);
	}
	for (size_t i = 0; i < n / 2; i++)
		swap(&c[i], &c[n - 1 - i]);
	sum = 0;
	for (size_t i = 0; i < n - left; i++) {
		if (take(c[i].size, room, &sum))
			swap(&c[i], &c[chosen++]);
	}
	return chosen;
}
