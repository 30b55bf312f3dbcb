/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of chunks: against a sort of all of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "policies/placement.h"
#include "random.h"

#define MOST 300

static const struct placement *const tables[] = {&placement_random, &placement_lru,
						 &placement_largest};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static size_t fill(struct placement_chunk *c, uint64_t *rng, bool nonsense)
{
	size_t n = random_below(rng, MOST);

	for (size_t i = 0; i < n; i++) {
		c[i] = (struct placement_chunk){
			.id = i,
			.size = nonsense ? random_any(rng) : 1 + random_below(rng, 30),
			.age = nonsense ? random_any(rng) : random_below(rng, 40),
			.allocation_bytes = random_any(rng),
			.allocation_age = random_below(rng, 128),
		};
	}
	return n;
}

static uint64_t sum_of(const struct placement_chunk *c, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		cr_assert_leq(c[i].size, UINT64_MAX - sum);
		sum += c[i].size;
	}
	return sum;
}

/* Each is there once, as it was. */
static void check_all_there(const struct placement_chunk *c,
			    const struct placement_chunk *was, size_t n)
{
	bool seen[MOST] = {false};

	for (size_t i = 0; i < n; i++) {
		cr_assert_lt(c[i].id, n);
		cr_assert(!seen[c[i].id]);
		seen[c[i].id] = true;
		cr_assert_arr_eq(&c[i], &was[c[i].id], sizeof(*c));
	}
}

Test(chunks, any_numbers)
{
	static struct placement_chunk was[MOST], c[MOST];
	uint64_t rng = 2;

	for (unsigned round = 0; round < 3000; round++) {
		const struct placement *p = tables[round % TABLES];
		size_t n = fill(was, &rng, round & 1), k;
		uint64_t bytes = random_any(&rng), room = random_any(&rng);
		uint64_t seed = random_next(&rng), smallest = UINT64_MAX, left;

		memcpy(c, was, sizeof(c));
		k = p->chunks_leave(c, n, bytes, room, seed);
		check_all_there(c, was, n);
		cr_assert_leq(k, n);
		cr_assert_leq(sum_of(c, k), room);
		/* Not one too many; and all that fit, if that was not enough. */
		if (k)
			cr_assert_lt(sum_of(c, k - 1), bytes);
		left = room - sum_of(c, k);
		for (size_t i = k; i < n; i++) {
			if (c[i].size && c[i].size < smallest)
				smallest = c[i].size;
		}
		cr_assert(sum_of(c, k) >= bytes || smallest > left || k == n);

		memcpy(c, was, sizeof(c));
		k = p->chunks_come(c, n, bytes, seed);
		check_all_there(c, was, n);
		cr_assert_leq(sum_of(c, k), bytes);
	}
}

static int oldest(const void *a, const void *b)
{
	const struct placement_chunk *x = a, *y = b;

	if (x->age != y->age)
		return x->age > y->age ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int youngest(const void *a, const void *b)
{
	const struct placement_chunk *x = a, *y = b;

	if (x->age != y->age)
		return x->age < y->age ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int largest(const void *a, const void *b)
{
	const struct placement_chunk *x = a, *y = b;
	bool idle = x->allocation_age >= 64;

	if (idle != (y->allocation_age >= 64))
		return idle ? -1 : 1;
	if (idle && x->allocation_bytes != y->allocation_bytes)
		return x->allocation_bytes > y->allocation_bytes ? -1 : 1;
	return oldest(a, b);
}

Test(chunks, chunks_go_in_the_order_of_the_policy)
{
	static struct placement_chunk sorted[MOST], c[MOST];
	uint64_t rng = 3;

	for (unsigned round = 0; round < 900; round++) {
		static int (*const orders[])(const void *,
					     const void *) = {oldest, largest, youngest};
		unsigned order = round % 3;
		const struct placement *p =
			order == 1 ? &placement_largest : &placement_lru;
		size_t n = fill(c, &rng, false), k, expected = 0;
		uint64_t bytes = random_below(&rng, 2000), sum = 0;

		memcpy(sorted, c, sizeof(c));
		qsort(sorted, n, sizeof(*sorted), orders[order]);
		if (order == 2)
			k = p->chunks_come(c, n, bytes, 0);
		else
			k = p->chunks_leave(c, n, bytes, UINT64_MAX, 0);
		for (size_t i = 0; i < n && sum < bytes; i++) {
			if (order == 2 && sorted[i].size > bytes - sum)
				continue;
			cr_assert_lt(expected, k);
			cr_assert_eq(c[expected].id, sorted[i].id);
			expected++;
			sum += sorted[i].size;
		}
		cr_assert_eq(k, expected);
	}
}

/* Each chunk is as likely as another, and the seed decides. */
Test(chunks, random_picks_all_chunks_alike_and_follows_its_seed)
{
	enum {
		N = 100,
		PICKED = 10,
		ROUNDS = 10000
	};
	static unsigned count[N];
	struct placement_chunk c[N], again[N];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < N; i++)
			c[i] = (struct placement_chunk){.id = i, .size = 1};
		memcpy(again, c, sizeof(c));
		cr_assert_eq(placement_random.chunks_leave(c, N, PICKED, N, round),
			     PICKED);
		placement_random.chunks_leave(again, N, PICKED, N, round);
		cr_assert_arr_eq(c, again, sizeof(c));
		for (size_t i = 0; i < PICKED; i++)
			count[c[i].id]++;
	}
	/* 1000 each; six standard deviations are 180. */
	for (size_t i = 0; i < N; i++)
		cr_assert(count[i] > 820 && count[i] < 1180, "chunk %zu: %u", i,
			  count[i]);
}
