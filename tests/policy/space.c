/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of TPCs, on an H200's map: 66 TPCs in GPCs of 4, 8 and 9, and four by themselves. */
#include <criterion/criterion.h>
#include <string.h>

#include "policies/space.h"
#include "random.h"

#define MOST 4096u

static struct space_map map;
static struct space_tenant t[MOST];
static uint32_t n;

static void setup(void)
{
	static const uint8_t sizes[] = {4, 8, 8, 8, 8, 8, 9, 9};

	memset(t, 0, sizeof(t));
	memset(&map, 0, sizeof(map));
	n = 0;
	for (uint8_t g = 0; g < sizeof(sizes); g++) {
		for (unsigned i = 0; i < sizes[g]; i++)
			map.gpc[map.n++] = g;
	}
	for (uint8_t g = 0; g < 4; g++)
		map.gpc[map.n++] = (uint8_t)(11 + 3 * g);
}

static struct space_want *tenant(void)
{
	return &t[n++].want;
}

static void range(struct space_set *s, uint32_t from, uint32_t to)
{
	while (from < to)
		space_add(s, from++);
}

static enum space_error assign(void)
{
	enum space_error e = space_assign(&map, t, n).error;

	for (uint32_t i = 0; i < n && e == SPACE_OK; i++)
		t[i].has = t[i].gets;
	return e;
}

/* GPCs that a set has TPCs of. */
static uint32_t gpcs(const struct space_set *s)
{
	struct space_set of = {{0}};

	for (uint32_t i = 0; i < map.n; i++) {
		if (space_has(s, i))
			space_add(&of, map.gpc[i]);
	}
	return space_count(&of);
}

TestSuite(space, .init = setup);

Test(space, who_asks_for_nothing_has_all)
{
	tenant();
	tenant();
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert_eq(space_count(&t[0].gets), 66);
	cr_assert(space_same(&t[0].gets, &t[1].gets));
}

Test(space, certain_ones_may_be_anothers_too)
{
	range(&tenant()->tpcs, 0, 20);
	range(&tenant()->tpcs, 10, 30);
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert(space_same(&t[0].gets, &t[0].want.tpcs));
	cr_assert(space_same(&t[1].gets, &t[1].want.tpcs));
}

Test(space, what_is_one_tenants_alone_is_no_others)
{
	struct space_want *w = tenant();

	tenant();
	range(&w->tpcs, 0, 20);
	w->exclusive = true;
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert_eq(space_count(&t[1].gets), 46);
	cr_assert_not(space_has(&t[1].gets, 0));
}

Test(space, two_cannot_have_the_same_if_one_is_alone)
{
	struct space_why why;

	range(&tenant()->tpcs, 0, 20);
	tenant();
	range(&tenant()->tpcs, 19, 30);
	for (unsigned i = 0; i < 3; i += 2) {
		t[0].want.exclusive = i == 0;
		t[2].want.exclusive = i == 2;
		why = space_assign(&map, t, n);
		cr_assert_eq(why.error, SPACE_TAKEN);
		cr_assert_eq(why.tenant, 2);
		cr_assert_eq(why.other, 0);
		cr_assert_eq(why.what, 19);
	}
}

Test(space, all_of_some_gpcs)
{
	struct space_why why;

	range(&tenant()->gpcs, 1, 3);
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert_eq(space_count(&t[0].gets), 16);
	space_add(&t[0].want.gpcs, 9);
	why = space_assign(&map, t, n);
	cr_assert_eq(why.error, SPACE_NO_GPC);
	cr_assert_eq(why.what, 9);
}

Test(space, what_is_not_there)
{
	struct space_why why;

	tenant();
	range(&tenant()->tpcs, 60, 70);
	why = space_assign(&map, t, n);
	cr_assert_eq(why.error, SPACE_NO_TPC);
	cr_assert_eq(why.tenant, 1);
	cr_assert_eq(why.what, 66);
}

Test(space, two_things_at_once)
{
	struct space_want *w = tenant();

	w->count = 5;
	range(&w->gpcs, 0, 1);
	cr_assert_eq(assign(), SPACE_CONTRADICTS);
	*w = (struct space_want){.exclusive = true};
	cr_assert_eq(assign(), SPACE_ALL_ALONE);
}

Test(space, numbers_lie_along_gpcs)
{
	static const uint32_t counts[] = {9, 8, 4, 16, 1, 8};
	static const uint32_t in[] = {1, 1, 1, 2, 1, 1};

	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct space_want *w = tenant();

		w->count = counts[i];
		w->exclusive = true;
	}
	cr_assert_eq(assign(), SPACE_OK);
	for (uint32_t i = 0; i < n; i++) {
		cr_expect_eq(space_count(&t[i].gets), counts[i]);
		cr_expect_eq(gpcs(&t[i].gets), in[i], "tenant %u", i);
		for (uint32_t k = 0; k < i; k++)
			cr_expect_eq((t[i].gets.bits[0] & t[k].gets.bits[0]) |
					     (t[i].gets.bits[1] & t[k].gets.bits[1]),
				     0, "%u and %u", i, k);
	}
}

Test(space, too_many)
{
	struct space_why why;

	tenant()->count = 40;
	t[0].want.exclusive = true;
	tenant()->count = 27;
	why = space_assign(&map, t, n);
	cr_assert_eq(why.error, SPACE_TOO_MANY);
	cr_assert_eq(why.tenant, 1);
	cr_assert_eq(why.what, 26);
	t[0].want.exclusive = false;
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert_eq(space_count(&t[1].gets), 27);
}

/* Tenants that come and go do not move the others. */
Test(space, numbers_stay_where_they_are)
{
	struct space_set third;

	for (unsigned i = 0; i < 3; i++) {
		tenant()->count = 8;
		t[i].want.exclusive = true;
	}
	cr_assert_eq(assign(), SPACE_OK);
	third = t[2].gets;
	memmove(&t[0], &t[1], 2 * sizeof(t[0]));
	t[2] = (struct space_tenant){.want = {.count = 8}};
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert(space_same(&third, &t[1].gets));
	memmove(&t[1], &t[0], 2 * sizeof(t[0]));
	t[0] = (struct space_tenant){.want = {.count = 9, .exclusive = true}};
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert(space_same(&third, &t[2].gets));
}

/* Nothing is known of the device yet: whatever is asked for, nobody has a set. */
Test(space, before_the_device_is_known)
{
	map.n = 0;
	tenant();
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert(space_is_empty(&t[0].gets));
}

/* Sets are as the header says, whatever is asked for. */
static void check_all(void)
{
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_not(space_is_empty(&t[i].gets));
		if (t[i].want.count)
			cr_assert_eq(space_count(&t[i].gets), t[i].want.count);
		for (uint32_t k = 0; k < n; k++) {
			if (k != i && t[k].want.exclusive)
				cr_assert_eq(
					(t[i].gets.bits[0] & t[k].gets.bits[0]) |
						(t[i].gets.bits[1] & t[k].gets.bits[1]),
					0);
		}
	}
}

Test(space, any_numbers_are_safe)
{
	uint64_t rng = 3;
	unsigned good = 0;

	for (unsigned round = 0; round < 20000; round++) {
		n = (uint32_t)random_below(&rng, 6);
		map.n = (uint32_t)(round % 100 ? 66 : random_any(&rng));
		for (uint32_t i = 0; i < n; i++) {
			struct space_want *w = &t[i].want;

			t[i] = (struct space_tenant){
				.has = {{random_any(&rng), random_any(&rng)}}};
			w->exclusive = random_below(&rng, 3) == 0;
			switch (random_below(&rng, 5)) {
			case 0:
				range(&w->tpcs, (uint32_t)random_below(&rng, 60),
				      (uint32_t)random_below(&rng, 67));
				break;
			case 1:
				w->gpcs.bits[0] = 1ull << random_below(&rng, 9);
				break;
			case 2:
				w->count = (uint32_t)random_any(&rng);
				break;
			default:
				w->count = 1 + (uint32_t)random_below(&rng, 30);
			}
		}
		if (space_assign(&map, t, n).error == SPACE_OK && map.n == 66) {
			check_all();
			good++;
		}
	}
	cr_assert_gt(good, 1000, "%u", good);
}

Test(space, thousands_of_tenants)
{
	for (unsigned i = 0; i < MOST; i++)
		tenant()->count = 1 + i % 66;
	cr_assert_eq(assign(), SPACE_OK);
	cr_assert_eq(assign(), SPACE_OK);
	for (unsigned i = 0; i < MOST; i++)
		cr_assert_eq(space_count(&t[i].gets), 1 + i % 66);
}
