/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of policies, on a simulated device. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "policies/time.h"
#include "random.h"

/* After seconds in which the policy has seen who takes what. */
static void run(const struct time_policy *p, uint64_t us)
{
	go(p, SECOND);
	go(p, SECOND);
	go(p, us);
	cr_assert(!sim.nothing_runs);
}

/* Each has its part of what ran, within a hundredth of it, in each of ten seconds. */
static void shares(const struct time_policy *p, const double *part)
{
	for (unsigned second = 0; second < 10; second++) {
		double all = 0;

		run(p, SECOND);
		for (uint32_t i = 0; i < sim.n; i++)
			all += (double)ran(i);
		for (uint32_t i = 0; i < sim.n; i++)
			cr_expect_float_eq((double)ran(i) / all, part[i], 0.01,
					   "tenant %u: %.4f", i, (double)ran(i) / all);
	}
}

TestSuite(time, .init = setup);

Test(time, three_to_one)
{
	looping(tenant(300, 0), 1);
	looping(tenant(100, 0), 1);
	shares(&time_fair, (double[]){.75, .25});
}

Test(time, nine_to_one)
{
	looping(tenant(900, 0), 1);
	looping(tenant(100, 0), 1);
	shares(&time_fair, (double[]){.9, .1});
}

Test(time, six_to_three_to_one)
{
	looping(tenant(6, 0), 1);
	looping(tenant(3, 0), 1);
	looping(tenant(1, 0), 1);
	shares(&time_fair, (double[]){.6, .3, .1});
}

Test(time, a_session_beside_eight)
{
	looping(tenant(100, 0), 1);
	looping(tenant(100, 0), 8);
	shares(&time_fair, (double[]){.5, .5});
}

Test(time, equal_knows_no_weights)
{
	looping(tenant(900, 0), 3);
	looping(tenant(100, 7), 1);
	shares(&time_equal, (double[]){.5, .5});
}

Test(time, best_effort_goes_by_sessions)
{
	looping(tenant(900, 0), 3);
	looping(tenant(100, 7), 1);
	shares(&time_best_effort, (double[]){.75, .25});
}

Test(time, who_has_no_work_leaves_it_to_the_others)
{
	uint32_t idle = tenant(10000, 0);

	looping(tenant(300, 0), 1);
	looping(tenant(100, 0), 1);
	shares(&time_fair, (double[]){0, .75, .25});
	cr_assert_eq(ran(idle), 0);
}

/* Nobody in a hurry: what going round costs is less than three hundredths. */
Test(time, going_round_costs_little)
{
	for (uint32_t n = 2; n <= 8; n *= 2) {
		uint64_t sum = 0;

		setup();
		for (uint32_t i = 0; i < n; i++)
			looping(tenant(100, 0), 1);
		run(&time_fair, 10 * SECOND);
		for (uint32_t i = 0; i < n; i++)
			sum += ran(i);
		cr_expect_geq(sum, 10 * SECOND / 100 * 97, "%u: %lu us", n,
			      (unsigned long)sum);
	}
}

/* A work of 1 ms every 6 ms beside a loop takes 1.2 ms; the loop has nine tenths of what
 * is left. */
Test(time, who_is_in_a_hurry_waits_little)
{
	looping(tenant(100, 0), 1);
	periodic(tenant(100, 1), 1000, 6000);
	run(&time_fair, 10 * SECOND);
	cr_expect_leq(sim.slowest, 1240);
	cr_expect_geq(ran(0), 10 * SECOND / 6 * 5 / 10 * 9);
	setup();
	looping(tenant(100, 0), 1);
	periodic(tenant(100, 0), 1000, 6000);
	run(&time_fair, 10 * SECOND);
	cr_expect_gt(sim.slowest, 2000, "in no hurry");
	cr_expect_leq(sim.slowest, 3500, "and does not wait for long slices");
}

/* Two below one in a hurry have what it leaves by weight. */
Test(time, those_below_have_their_weights)
{
	looping(tenant(300, 0), 1);
	looping(tenant(100, 0), 1);
	periodic(tenant(100, 1), 1000, 6000);
	run(&time_fair, 10 * SECOND);
	cr_expect_float_eq((double)ran(0) / (double)(ran(0) + ran(1)), 0.75, 0.02);
	cr_expect_leq(sim.slowest, 4000);
}

/* Slices do not change for what is known roughly only. */
Test(time, measurements_are_rough)
{
	const uint32_t busy[] = {440, 340, 620, 190, 260, 880};
	const uint32_t pending[] = {1000, 950, 880, 1000, 700, 600};
	uint32_t slice[2];

	looping(tenant(100, 0), 1);
	looping(tenant(100, 0), 1);
	run(&time_fair, SECOND);
	cr_assert(sim.eager);
	memcpy(slice, sim.slice, sizeof(slice));
	for (unsigned i = 0; i < sizeof(busy) / sizeof(busy[0]); i++) {
		sim.t[i % 2].busy = busy[i];
		sim.t[i % 2].pending = pending[i];
		time_fair.slices(&sim.device, sim.t, sim.n, &sim.eager, sim.slice);
		cr_assert_eq(memcmp(slice, sim.slice, sizeof(slice)), 0, "%u", i);
	}
	sim.t[0].pending = 300;
	time_fair.slices(&sim.device, sim.t, sim.n, &sim.eager, sim.slice);
	cr_assert_eq(sim.eager, false);
	sim.t[0].pending = 700;
	time_fair.slices(&sim.device, sim.t, sim.n, &sim.eager, sim.slice);
	cr_assert_eq(sim.eager, false, "nor for that");
}

/* One that begins to wait for results in long slices has work all the time, and gets little
 * of it done. */
Test(time, one_that_comes_to_be_in_a_hurry)
{
	looping(tenant(100, 0), 1);
	looping(tenant(100, 0), 1);
	run(&time_fair, SECOND);
	cr_assert(sim.eager);
	sim.s[1].loops = false;
	sim.s[1].work = 1000;
	sim.s[1].next = sim.now + 6000;
	sim.s[1].period = 6000;
	go(&time_fair, 10 * SECOND);
	cr_assert_gt(sim.slowest, 9000, "it waits for long slices");
	sim.s[1].left = 0;
	sim.s[1].next = sim.now; /* not what it has fallen behind with */
	go(&time_fair, 10 * SECOND);
	cr_assert_leq(sim.slowest, 3500, "and does not any more");
}

/* Everybody runs, whoever else is there, and nobody waits for ever. */
Test(time, nobody_starves)
{
	uint64_t rng = 7;

	for (unsigned round = 0; round < 40; round++) {
		uint32_t n = 2 + (uint32_t)random_below(&rng, round < 39 ? 30 : 2000);
		uint64_t one_round = 0;

		setup();
		for (uint32_t i = 0; i < n; i++)
			looping(tenant(1 + (uint32_t)random_below(&rng, TIME_WEIGHT_MAX),
				       (uint32_t)random_below(&rng, 3)),
				1 + (uint32_t)random_below(&rng, 2));
		for (uint32_t i = 0; i < sim.n; i++)
			sim.t[i].busy = sim.t[i].pending = 1000;
		time_fair.slices(&sim.device, sim.t, sim.n, &sim.eager, sim.slice);
		cr_assert(sim.eager);
		for (uint32_t i = 0; i < sim.n_sessions; i++)
			one_round += sim.slice[sim.s[i].tenant] + TIME_SWITCH_US;
		go(&time_fair, 2 * one_round);
		for (uint32_t i = 0; i < sim.n_sessions; i++)
			cr_expect_gt(sim.s[i].ran, 0, "session %u of %u", i,
				     sim.n_sessions);
	}
}

Test(time, the_least_urgent_that_have_work)
{
	const struct time_tenant t[] = {{.priority = 3, .sessions = 1, .goes = true},
					{.priority = 0, .sessions = 0, .goes = true},
					{.priority = 1, .sessions = 1, .goes = false},
					{.priority = 2, .sessions = 2, .goes = true},
					{.priority = 2, .sessions = 1, .goes = true}};

	cr_assert_eq(time_least_urgent(t, 5), 3);
	cr_assert_eq(time_least_urgent(t, 1), 0);
	cr_assert_eq(time_least_urgent(t + 1, 2), 2, "nobody");
	cr_assert_eq(time_least_urgent(t, 0), 0, "nobody");
}

Test(time, any_numbers_are_safe)
{
	uint64_t rng = 1;

	for (unsigned round = 0; round < 20000; round++) {
		uint32_t n = (uint32_t)random_below(&rng, 9);

		for (uint32_t i = 0; i < n; i++)
			sim.t[i] = (struct time_tenant){
				(uint32_t)random_any(&rng), (uint32_t)random_any(&rng),
				(uint32_t)random_any(&rng), (uint32_t)random_any(&rng),
				(uint32_t)random_any(&rng)};
		for (unsigned k = 0; time_policy_at(k); k++) {
			memset(sim.slice, 0xff, sizeof(sim.slice[0]) * 16);
			sim.eager = random_below(&rng, 2);
			time_policy_at(k)->slices(&sim.device, sim.t, n, &sim.eager,
						  sim.slice);
			for (uint32_t i = 0; i < n; i++)
				cr_assert_leq(sim.slice[i],
					      TIME_LONGEST_US + TIME_LOAD_US);
			cr_assert_eq(sim.slice[n], UINT32_MAX, "nobody asked");
		}
	}
}

Test(time, by_name)
{
	cr_assert_eq(time_policy_find("sets"), time_policy_at(0));
	cr_assert_null(time_policy_find("unfair"));
	cr_assert_null(time_policy_find(NULL));
	for (unsigned i = 0; time_policy_at(i); i++) {
		cr_assert_eq(time_policy_find(time_policy_at(i)->name),
			     time_policy_at(i));
		cr_assert_eq(time_policy_at(i)->abi, TIME_ABI);
	}
}
