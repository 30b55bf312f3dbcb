/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated device whose tenants take turns, as weftd asks about them: once a millisecond.
 * Those that go and have work share it; who comes waits until those that went before have
 * ended what they had, which takes them a millisecond.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "policies/cap.h"
#include "policies/time.h"
#include "random.h"

#define MOST   2048u
#define US     1000u /* in a look */
#define SECOND 1000u /* looks */

static struct {
	struct time_tenant t[MOST];
	uint32_t n;
	/* Looks of work every so many; 0: it always has some. */
	uint32_t work[MOST], every[MOST], left[MOST];
	struct cap cap[MOST];
	struct cap_state state[MOST];
	double ran[MOST];       /* looks */
	uint32_t waits[MOST];   /* looks since it had work and did not run */
	uint32_t slowest[MOST]; /* most looks that a work took */
	uint32_t since[MOST];
	struct time_device device;
	uint32_t now, missed; /* missed: periods that ended before a quota was had */
} sim;

static void setup(void)
{
	memset(&sim, 0, sizeof(sim));
}

TestSuite(turns, .init = setup, .timeout = 120);

static uint32_t looping(uint32_t weight, uint32_t priority)
{
	sim.t[sim.n] = (struct time_tenant){
		.weight = weight, .priority = priority, .sessions = 1, .goes = true};
	return sim.n++;
}

static uint32_t periodic(uint32_t work, uint32_t every, uint32_t priority)
{
	uint32_t i = looping(100, priority);

	sim.work[i] = work;
	sim.every[i] = every;
	return i;
}

/* Has a cap as well. */
static uint32_t capped(uint32_t quota_ms, uint32_t period_ms, uint32_t i)
{
	sim.cap[i] = (struct cap){quota_ms * US, period_ms * US};
	return i;
}

static void arrive(uint32_t i)
{
	if (!sim.every[i]) {
		sim.left[i] = 1;
	} else if (sim.now % sim.every[i] == 0) {
		sim.missed += sim.left[i] != 0;
		sim.left[i] = sim.work[i];
		sim.since[i] = sim.now;
	}
}

static void see(uint32_t i, uint64_t now_ns)
{
	struct time_tenant *t = &sim.t[i];
	bool held = sim.state[i].until_ns > now_ns;

	t->works = sim.left[i] && !held;
	t->idle_us = t->works ? 0 : t->idle_us + US;
	t->for_us += US;
	t->quota_us = sim.cap[i].quota_us;
	if (!t->quota_us)
		return;
	t->left_us = held ? 0 : (uint32_t)(sim.state[i].left_ns / 1000);
	t->ends_us = (uint32_t)((sim.state[i].period_ns + sim.cap[i].period_us * 1000ull -
				 now_ns) /
				1000);
}

static void step(const struct time_policy *p)
{
	static struct time_turn turn[MOST];
	static bool runs[MOST];
	uint64_t now_ns = (uint64_t)(sim.now + 1000) * US * 1000;
	uint32_t n = 0;

	for (uint32_t i = 0; i < sim.n; i++) {
		arrive(i);
		see(i, now_ns);
	}
	memset(turn, 0, sizeof(turn));
	p->turns(&sim.device, sim.t, sim.n, turn);
	for (uint32_t i = 0; i < sim.n; i++) {
		bool worked = sim.t[i].works, go = turn[i].go;

		runs[i] = worked && go;
		n += runs[i];
		if (go != sim.t[i].goes)
			sim.t[i].for_us = 0;
		sim.t[i].goes = go;
		sim.waits[i] = worked && !go ? sim.waits[i] + 1 : 0;
		if (sim.waits[i] > sim.slowest[i])
			sim.slowest[i] = sim.waits[i];
	}
	for (uint32_t i = 0; i < sim.n; i++) {
		uint64_t used = runs[i] ? US * 1000ull / n : 0;

		sim.ran[i] += runs[i] ? 1.0 / n : 0;
		if (runs[i] && sim.every[i])
			sim.left[i]--;
		cap_charge(&sim.state[i], &sim.cap[i], now_ns + US * 1000, used);
	}
	sim.now++;
}

static void run(const struct time_policy *p, uint32_t looks)
{
	memset(sim.ran, 0, sizeof(sim.ran));
	memset(sim.slowest, 0, sizeof(sim.slowest));
	for (uint32_t end = sim.now + looks; sim.now < end;)
		step(p);
}

static void shares(const struct time_policy *p, const double *part, double within)
{
	run(p, SECOND);
	run(p, 10 * SECOND);
	for (uint32_t i = 0; i < sim.n; i++)
		cr_expect_float_eq(sim.ran[i] / (10 * SECOND), part[i], within,
				   "tenant %u: %.4f", i, sim.ran[i] / (10 * SECOND));
}

Test(turns, exclusive_is_by_weight)
{
	looping(300, 0);
	looping(100, 0);
	shares(&time_exclusive, (double[]){.75, .25}, 0.01);
}

Test(turns, exclusive_is_one_at_a_time)
{
	looping(100, 0);
	looping(100, 0);
	looping(100, 0);
	run(&time_exclusive, SECOND);
	for (unsigned k = 0; k < 1000; k++) {
		step(&time_exclusive);
		cr_assert_eq(sim.t[0].goes + sim.t[1].goes + sim.t[2].goes, 1);
	}
}

/* One that comes between two others leaves them their weights. */
Test(turns, exclusive_is_by_who_has_waited)
{
	looping(300, 0);
	looping(100, 0);
	periodic(1, 6, 1);
	run(&time_exclusive, SECOND);
	run(&time_exclusive, 10 * SECOND);
	cr_expect_float_eq(sim.ran[0] / (sim.ran[0] + sim.ran[1]), 0.75, 0.02);
}

Test(turns, exclusive_leaves_nothing_idle)
{
	looping(100, 0);
	periodic(1, 100, 0);
	shares(&time_exclusive, (double[]){.96, .01}, 0.03);
	cr_assert_leq(sim.slowest[1], TIME_TURN_US / US + 1);
}

Test(turns, exclusive_goes_by_priority)
{
	looping(100, 0);
	periodic(20, 100, 1);
	run(&time_exclusive, 10 * SECOND);
	cr_assert_leq(sim.slowest[1], TIME_TURN_US / US + 1);
	cr_assert_geq(sim.ran[1], 10 * SECOND / 5 - 20);
	setup();
	looping(100, 0);
	looping(100, 1);
	run(&time_exclusive, 10 * SECOND);
	cr_assert_leq(sim.slowest[0], (TIME_STARVED_US + TIME_TURN_US) / US + 1,
		      "nobody starves");
	cr_assert_geq(sim.ran[1], 10 * SECOND * 0.97);
}

Test(turns, priority_lets_the_most_urgent_go_at_once)
{
	looping(100, 0);
	looping(100, 0);
	periodic(1, 6, 1);
	periodic(1, 6, 1);
	shares(&time_priority, (double[]){1. / 3, 1. / 3, 1. / 6, 1. / 6}, 0.18);
	cr_assert_eq(sim.slowest[2], 0);
	setup();
	looping(100, 0);
	looping(100, 1);
	run(&time_priority, 10 * SECOND);
	cr_assert_leq(sim.slowest[0], TIME_STARVED_US / US + 1);
	cr_assert_geq(sim.ran[1], 10 * SECOND * 0.99);
	cr_assert_gt(sim.ran[0], 0);
}

/* Turns that one leaves are nobody else's. */
Test(turns, fixed_is_a_part_of_its_own)
{
	looping(100, 0);
	periodic(1, 1000, 0);
	shares(&time_fixed, (double[]){.5, .001}, 0.01);
	setup();
	looping(300, 0);
	looping(100, 0);
	shares(&time_fixed, (double[]){.75, .25}, 0.01);
}

/* Quotas of 0.3, 0.25 and 0.4 of the time, and two that take what is left. */
Test(turns, deadlines_are_met)
{
	capped(3, 10, periodic(3, 10, 0));
	capped(5, 20, periodic(5, 20, 0));
	capped(40, 100, periodic(40, 100, 0));
	looping(100, 0);
	looping(100, 0);
	run(&time_deadline, 10 * SECOND);
	cr_expect_eq(sim.missed, 0, "%u", sim.missed);
	cr_expect_float_eq(sim.ran[2] / (10 * SECOND), .4, 0.01);
	cr_expect_geq(sim.ran[3] + sim.ran[4], 10 * SECOND * 0.04);
}

/* Thousands of tenants: somebody with work goes, at the latest when the one that has had its
 * turn is seen to have none, and nobody waits for ever. */
Test(turns, nobody_starves)
{
	static const struct time_policy *const of[] = {&time_exclusive, &time_priority,
						       &time_deadline};
	uint64_t rng = 3;
	uint32_t idle = 0;

	for (unsigned k = 0; k < 3; k++) {
		setup();
		while (sim.n < MOST) {
			if (random_below(&rng, 2))
				looping(1 + (uint32_t)random_below(&rng, 200),
					(uint32_t)random_below(&rng, 3));
			else
				periodic(1 + (uint32_t)random_below(&rng, 5),
					 50 + (uint32_t)random_below(&rng, 500), 0);
		}
		for (unsigned look = 0; look < 3000; look++) {
			bool works = false, runs = false;

			step(of[k]);
			for (uint32_t i = 0; i < sim.n; i++) {
				works |= sim.t[i].works;
				runs |= sim.t[i].works && sim.t[i].goes;
			}
			idle = runs || !works ? 0 : idle + 1;
			cr_assert_leq(idle, TIME_IDLE_US / US,
				      "%s leaves the device idle", of[k]->name);
		}
	}
	/* A hundred loops have their turns in as many. */
	setup();
	for (uint32_t i = 0; i < 100; i++)
		looping(100, 0);
	run(&time_exclusive, 10 * SECOND);
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_leq(sim.slowest[i], 100 * TIME_TURN_US / US);
}

Test(turns, any_numbers_are_safe)
{
	static struct time_tenant t[16];
	static struct time_turn turn[17];
	uint64_t rng = 11;

	for (unsigned round = 0; round < 200000; round++) {
		uint32_t n = (uint32_t)random_below(&rng, 17);
		struct time_device d = {random_any(&rng)};

		for (uint32_t i = 0; i < n; i++)
			t[i] = (struct time_tenant){
				.weight = (uint32_t)random_any(&rng),
				.priority = (uint32_t)random_any(&rng),
				.sessions = (uint32_t)random_below(&rng, 3),
				.works = random_below(&rng, 2),
				.goes = random_below(&rng, 2),
				.idle_us = (uint32_t)random_any(&rng),
				.for_us = (uint32_t)random_any(&rng),
				.quota_us = (uint32_t)random_any(&rng),
				.left_us = (uint32_t)random_any(&rng),
				.ends_us = (uint32_t)random_any(&rng),
				.set = random_any(&rng),
				.out = random_any(&rng),
			};
		for (unsigned k = 0; time_policy_at(k); k++) {
			if (!time_policy_at(k)->turns)
				continue;
			memset(turn, 0, sizeof(turn));
			turn[n].lasts_us = 0x55;
			time_policy_at(k)->turns(&d, t, n, turn);
			for (uint32_t i = 0; i < n; i++)
				cr_assert(*(char *)&turn[i].go == 0 ||
					  *(char *)&turn[i].go == 1);
			cr_assert_eq(turn[n].lasts_us, 0x55, "writes beyond");
		}
	}
}
