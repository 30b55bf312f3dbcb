/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant that takes what it can get of a simulated device, under a cap. */
#include <criterion/criterion.h>
#include <string.h>

#include "policies/cap.h"
#include "random.h"

#define US     1000ull
#define MS     (1000 * US)
#define SECOND (1000 * MS)
#define LOOK   MS /* how often time is charged */

static struct cap_state state;
static uint64_t now, ran;

static void setup(void)
{
	memset(&state, 0, sizeof(state));
	now = 77 * SECOND;
	ran = 0;
}

TestSuite(cap, .init = setup);

/* Runs kernels, each to its end, whenever it may; for so long. */
static void run(const struct cap *c, uint64_t kernel_ns, uint64_t for_ns)
{
	uint64_t end = now + for_ns, left = 0, used, until = 0;

	while (now < end) {
		used = 0;
		if (left || now >= until) {
			left = left ? left : kernel_ns;
			used = LOOK;
			left = left > LOOK ? left - LOOK : 0;
		}
		now += LOOK;
		ran += used;
		until = cap_charge(&state, c, now, used);
	}
}

static void near(double is, double wanted, double within)
{
	cr_assert(is > wanted - within && is < wanted + within, "%.4f, not %.4f", is,
		  wanted);
}

Test(cap, none_holds_nobody)
{
	const struct cap none = {.period_us = CAP_PERIOD_US};
	const struct cap whole = {CAP_PERIOD_US, CAP_PERIOD_US};

	run(&none, MS, SECOND);
	cr_assert_eq(ran, SECOND);
	run(&whole, MS, SECOND);
	cr_assert_eq(ran, 2 * SECOND);
}

/* Short kernels: right in each second, and in each period. */
Test(cap, each_period_has_its_quota)
{
	static const struct cap caps[] = {
		{25000, 100000}, {50000, 100000}, {90000, 100000},
		{2000, 20000},   {1000, 1000000}, {250000, 1000000},
	};

	for (unsigned i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		const struct cap *c = &caps[i];
		double part = (double)c->quota_us / c->period_us;

		setup();
		for (unsigned n = 0; n < 20; n++) {
			ran = 0;
			run(c, MS, c->period_us * US);
			cr_assert_leq(ran, c->quota_us * US + LOOK);
		}
		ran = 0;
		run(c, MS, 10 * SECOND);
		near((double)ran / (double)(10 * SECOND), part, 0.001);
	}
}

/* Kernels that are longer than the quota, or than the period: right in the long run. */
Test(cap, what_is_owed_is_paid)
{
	const struct cap c = {25000, 100000};
	static const uint64_t kernels[] = {30 * MS, 99 * MS, 100 * MS, 101 * MS,
					   5 * SECOND};

	for (unsigned i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		setup();
		run(&c, kernels[i], 400 * SECOND);
		near((double)ran / (double)(400 * SECOND), 0.25, 0.015);
	}
}

/* A whole quota may be had at once, but not that of periods that have gone by. */
Test(cap, what_is_left_is_lost)
{
	const struct cap c = {25000, 100000};

	run(&c, MS, SECOND);
	now += 10 * SECOND;
	ran = 0;
	run(&c, MS, 100 * MS);
	cr_assert_leq(ran, 2 * 25 * MS + LOOK);
}

Test(cap, says_when_it_may_go_on)
{
	const struct cap c = {25000, 100000};
	uint64_t begin = now;

	cr_assert_eq(cap_charge(&state, &c, now, 0), 0);
	cr_assert_eq(cap_charge(&state, &c, now + MS, 24 * MS), 0);
	cr_assert_eq(cap_charge(&state, &c, now + 2 * MS, 1 * MS), begin + 100 * MS);
	cr_assert_eq(cap_charge(&state, &c, now + 3 * MS, 24 * MS), begin + 100 * MS);
	cr_assert_eq(cap_charge(&state, &c, now + 4 * MS, 1 * MS), begin + 200 * MS);
	cr_assert_eq(cap_charge(&state, &c, now + 200 * MS - 1, 0), begin + 200 * MS);
	cr_assert_eq(cap_charge(&state, &c, now + 200 * MS, 0), 0);
	cr_assert_eq(state.left_ns, (int64_t)(25 * MS));
}

Test(cap, any_numbers_are_safe)
{
	uint64_t x = 1;

	for (unsigned i = 0; i < 1000000; i++) {
		struct cap c = {(uint32_t)random_next(&x), (uint32_t)random_next(&x)};
		uint64_t until;

		if (i % 16 == 0)
			state = (struct cap_state){random_next(&x),
						   (int64_t)random_next(&x), 0};
		until = cap_charge(&state, &c, random_next(&x) >> i % 64,
				   random_next(&x) >> i % 61);
		cr_assert(!until || until >= state.period_ns);
	}
}
