/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of pieces: against a sort of all of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "policies/placement.h"
#include "random.h"

#define MOST 300

static const struct placement *const tables[] = {&placement_random, &placement_lru,
						 &placement_largest};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static size_t fill(struct placement_piece *c, uint64_t *rng, bool nonsense)
{
	size_t n = random_below(rng, MOST);

	for (size_t i = 0; i < n; i++) {
		c[i] = (struct placement_piece){
			.id = i,
			.size = nonsense ? random_any(rng) : 1 + random_below(rng, 30),
			.age = nonsense ? random_any(rng) : random_below(rng, 40),
			.allocation_bytes = random_any(rng),
			.allocation_age = random_below(rng, 128),
		};
	}
	return n;
}

static uint64_t sum_of(const struct placement_piece *c, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		cr_assert_leq(c[i].size, UINT64_MAX - sum);
		sum += c[i].size;
	}
	return sum;
}

/* Each is there once, as it was. */
static void check_all_there(const struct placement_piece *c,
			    const struct placement_piece *was, size_t n)
{
	bool seen[MOST] = {false};

	for (size_t i = 0; i < n; i++) {
		cr_assert_lt(c[i].id, n);
		cr_assert(!seen[c[i].id]);
		seen[c[i].id] = true;
		cr_assert_arr_eq(&c[i], &was[c[i].id], sizeof(*c));
	}
}

Test(pieces, any_numbers)
{
	static struct placement_piece was[MOST], c[MOST];
	uint64_t rng = 2;

	for (unsigned round = 0; round < 3000; round++) {
		const struct placement *p = tables[round % TABLES];
		size_t n = fill(was, &rng, round & 1), k;
		uint64_t bytes = random_any(&rng), room = random_any(&rng);
		uint64_t seed = random_next(&rng), smallest = UINT64_MAX, left;

		memcpy(c, was, sizeof(c));
		k = p->pieces_leave(c, n, bytes, room, seed);
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
		k = p->pieces_come(c, n, bytes, seed);
		check_all_there(c, was, n);
		cr_assert_leq(sum_of(c, k), bytes);
	}
}

static int oldest(const void *a, const void *b)
{
	const struct placement_piece *x = a, *y = b;

	if (x->age != y->age)
		return x->age > y->age ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int youngest(const void *a, const void *b)
{
	const struct placement_piece *x = a, *y = b;

	if (x->age != y->age)
		return x->age < y->age ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int largest(const void *a, const void *b)
{
	const struct placement_piece *x = a, *y = b;
	bool idle = x->allocation_age >= 64;

	if (idle != (y->allocation_age >= 64))
		return idle ? -1 : 1;
	if (idle && x->allocation_bytes != y->allocation_bytes)
		return x->allocation_bytes > y->allocation_bytes ? -1 : 1;
	return oldest(a, b);
}

Test(pieces, pieces_go_in_the_order_of_the_policy)
{
	static struct placement_piece sorted[MOST], c[MOST];
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
			k = p->pieces_come(c, n, bytes, 0);
		else
			k = p->pieces_leave(c, n, bytes, UINT64_MAX, 0);
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

/* Each piece is as likely as another, and the seed decides. */
Test(pieces, random_picks_all_pieces_alike_and_follows_its_seed)
{
	enum {
		N = 100,
		PICKED = 10,
		ROUNDS = 10000
	};
	static unsigned count[N];
	struct placement_piece c[N], again[N];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < N; i++)
			c[i] = (struct placement_piece){.id = i, .size = 1};
		memcpy(again, c, sizeof(c));
		cr_assert_eq(placement_random.pieces_leave(c, N, PICKED, N, round),
			     PICKED);
		placement_random.pieces_leave(again, N, PICKED, N, round);
		cr_assert_arr_eq(c, again, sizeof(c));
		for (size_t i = 0; i < PICKED; i++)
			count[c[i].id]++;
	}
	/* 1000 each; six standard deviations are 180. */
	for (size_t i = 0; i < N; i++)
		cr_assert(count[i] > 820 && count[i] < 1180, "piece %zu: %u", i,
			  count[i]);
}
