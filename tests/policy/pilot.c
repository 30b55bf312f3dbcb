/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of PILOT, asked once a millisecond: who goes where not all fit, and for how long the
 * others wait. */
#include <criterion/criterion.h>
#include <string.h>

#include "policies/time.h"

#define MOST 16u
#define GIB  (1ull << 30)
#define MS   1000u

static struct {
	struct time_device device;
	struct time_tenant t[MOST];
	struct time_turn turn[MOST];
	uint32_t n;
	uint32_t went[MOST], waited[MOST], longest[MOST]; /* ms */
	uint32_t over; /* ms in which those that go have more than there is */
} sim;

static void setup(void)
{
	memset(&sim, 0, sizeof(sim));
	sim.device.memory = 16 * GIB;
}

TestSuite(pilot, .init = setup, .timeout = 60);

static uint32_t tenant(uint64_t all, uint64_t set)
{
	sim.t[sim.n] = (struct time_tenant){.weight = 100,
					    .sessions = 1,
					    .all = all * GIB,
					    .set = set * GIB,
					    .goes = true,
					    .works = true,
					    .for_us = UINT32_MAX};
	return sim.n++;
}

static void look(const struct time_policy *p)
{
	uint64_t bytes = 0;

	memset(sim.turn, 0, sizeof(sim.turn));
	p->turns(&sim.device, sim.t, sim.n, sim.turn);
	for (uint32_t i = 0; i < sim.n; i++) {
		struct time_tenant *t = &sim.t[i];
		bool go = sim.turn[i].go;

		cr_assert(!go || !t->sessions || !sim.turn[i].begins_us);
		t->for_us = go != t->goes                 ? 0
			    : t->for_us > UINT32_MAX - MS ? UINT32_MAX
							  : t->for_us + MS;
		t->goes = go;
		t->still_us += MS;
		t->first_us = go || sim.turn[i].begins_us ? 0 : t->first_us + MS;
		t->idle_us = t->works ? 0 : t->idle_us + MS;
		sim.went[i] += go && t->works;
		sim.waited[i] = go || !t->works ? 0 : sim.waited[i] + 1;
		if (sim.waited[i] > sim.longest[i])
			sim.longest[i] = sim.waited[i];
		if (go && t->works)
			bytes += p == &time_mfit ? t->all : t->set;
	}
	sim.over += bytes > sim.device.memory;
}

static void run(const struct time_policy *p, uint32_t ms)
{
	while (ms--)
		look(p);
}

Test(pilot, all_go_that_fit)
{
	for (unsigned i = 0; i < 4; i++)
		tenant(4, 4);
	run(&time_mfit, 100);
	run(&time_amfit, 100);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(sim.went[i], 200);
}

Test(pilot, by_mfit_one_waits_until_all_it_has_fits)
{
	uint32_t a = tenant(10, 1), b = tenant(10, 1), c = tenant(6, 6);

	run(&time_mfit, 8000);
	cr_assert_eq(sim.over, 0);
	cr_assert_eq(sim.went[c], 8000, "the smallest is never in the way");
	cr_assert_geq(sim.went[a], 3000);
	cr_assert_geq(sim.went[b], 3000);
	cr_assert_geq(sim.went[a] + sim.went[b], 7900, "one of them always goes");
	cr_assert_leq(sim.longest[a], 1010);
	cr_assert_leq(sim.longest[b], 1010);
}

Test(pilot, by_mfit_who_has_nothing_to_do_makes_room)
{
	uint32_t a = tenant(10, 10), b = tenant(10, 10);

	run(&time_mfit, 10);
	sim.t[a].works = sim.t[b].works = false;
	run(&time_mfit, 100);
	sim.t[b].works = true;
	run(&time_mfit, 1);
	cr_assert(sim.t[b].goes, "at once");
	sim.t[a].works = true;
	run(&time_mfit, 500);
	cr_assert(!sim.t[a].goes);
	sim.t[b].works = false;
	run(&time_mfit, 30);
	cr_assert(sim.t[a].goes);
}

Test(pilot, by_mfit_the_longest_wait_is_the_operators)
{
	uint32_t a = tenant(10, 10), b = tenant(10, 10);

	sim.t[a].latency_us = sim.t[b].latency_us = 100 * MS;
	run(&time_mfit, 2000);
	cr_assert_leq(sim.longest[a], 102);
	cr_assert_leq(sim.longest[b], 102);
	cr_assert_eq(sim.over, 0);
}

/* One in a hurry does not wait for as long as others are content to. */
static void one_in_a_hurry(const struct time_policy *p)
{
	uint32_t a = tenant(10, 10), b = tenant(10, 10);

	sim.t[a].latency_us = 100 * MS;
	run(p, 6000);
	cr_assert_leq(sim.longest[a], 102);
	cr_assert_leq(sim.longest[b], 1010);
	cr_assert_geq(sim.went[a], 5000);
	cr_assert_geq(sim.went[b], 400);
	cr_assert_eq(sim.over, 0);
}

Test(pilot, each_has_a_longest_wait_of_its_own)
{
	one_in_a_hurry(&time_mfit);
	setup();
	one_in_a_hurry(&time_amfit);
}

Test(pilot, one_larger_than_the_device_goes_alone)
{
	uint32_t a = tenant(20, 20), b = tenant(2, 2);

	run(&time_mfit, 6000);
	run(&time_amfit, 6000);
	cr_assert_geq(sim.went[a], 4000);
	cr_assert_geq(sim.went[b], 4000);
	cr_assert_leq(sim.longest[a], 1010);
	cr_assert_leq(sim.longest[b], 1010);
}

Test(pilot, by_amfit_only_what_is_used_counts)
{
	uint32_t a = tenant(10, 5), b = tenant(10, 5), c = tenant(10, 5);

	run(&time_amfit, 1000);
	cr_assert_eq(sim.went[a] + sim.went[b] + sim.went[c], 3000);
	run(&time_mfit, 1000);
	cr_assert_lt(sim.went[a] + sim.went[b] + sim.went[c], 4100);
}

Test(pilot, by_amfit_those_that_use_most_wait)
{
	uint32_t a = tenant(4, 4), b = tenant(12, 10), c = tenant(6, 5);

	run(&time_amfit, 900);
	cr_assert_eq(sim.went[a], 900);
	cr_assert_eq(sim.went[c], 900);
	cr_assert_leq(sim.went[b], 1);
	run(&time_amfit, 9100);
	cr_assert_eq(sim.over, 0);
	cr_assert_geq(sim.went[b], 3000, "but not for ever");
	cr_assert_leq(sim.longest[b], 1010);
	cr_assert_leq(sim.longest[c], 2020);
}

/* Two that do not fit; the second one waits until it is to go, with some of its memory out. */
static void until_it_is_to_go(const struct time_policy *p, uint32_t *ret_a,
			      uint32_t *ret_b)
{
	uint32_t a = *ret_a = tenant(10, 10), b = *ret_b = tenant(10, 10);

	sim.t[b].goes = false;
	sim.t[b].out = 8 * GIB;
	for (unsigned ms = 0; sim.t[a].goes; ms++) {
		cr_assert_lt(ms, 1010);
		look(p);
	}
	cr_assert(!sim.t[b].goes, "its memory is not there yet");
	cr_assert_eq(sim.turn[b].begins_us, 0, "it is what comes in first");
	cr_assert_gt(sim.turn[a].begins_us, 0);
}

static void memory_comes(const struct time_policy *p)
{
	uint32_t a, b;

	until_it_is_to_go(p, &a, &b);
	for (unsigned i = 0; i < 7; i++) {
		run(p, 300);
		cr_assert(!sim.t[b].goes && !sim.t[a].goes);
		sim.t[b].out -= GIB;
		sim.t[b].still_us = 0;
	}
	sim.t[b].out = 0;
	run(p, 1);
	cr_assert(sim.t[b].goes && !sim.t[a].goes);
	run(p, 990);
	cr_assert(sim.t[b].goes && !sim.t[a].goes, "a turn is as long as ever");
}

Test(pilot, one_that_is_let_go_goes_when_its_memory_is_there)
{
	memory_comes(&time_mfit);
	setup();
	memory_comes(&time_amfit);
}

static void memory_does_not_come(const struct time_policy *p)
{
	uint32_t a, b;

	until_it_is_to_go(p, &a, &b);
	run(p, 990);
	cr_assert(!sim.t[b].goes && !sim.t[a].goes);
	run(p, 20);
	cr_assert(sim.t[b].goes && !sim.t[a].goes);
}

Test(pilot, memory_that_does_not_come_is_not_waited_for)
{
	memory_does_not_come(&time_mfit);
	setup();
	memory_does_not_come(&time_amfit);
}

/* All fits once the other one has ended. */
static void the_other_ends(const struct time_policy *p)
{
	uint32_t a, b;

	until_it_is_to_go(p, &a, &b);
	sim.t[a].sessions = 0;
	sim.t[a].works = false;
	sim.t[a].set = sim.t[a].all = 0;
	run(p, 300);
	cr_assert(!sim.t[b].goes, "its memory is still to come");
	sim.t[b].out = 0;
	run(p, 1);
	cr_assert(sim.t[b].goes);
}

Test(pilot, memory_comes_first_where_all_fits_again)
{
	the_other_ends(&time_mfit);
	setup();
	the_other_ends(&time_amfit);
}

/* Nothing else leaves for more than there is. */
Test(pilot, one_larger_than_the_device_does_not_wait_for_its_memory)
{
	uint32_t a = tenant(20, 20), b = tenant(2, 2);

	sim.t[a].goes = false;
	sim.t[a].out = 20 * GIB;
	run(&time_mfit, 1);
	cr_assert(sim.t[a].goes && !sim.t[b].goes);
}

/* Contexts of others, which stay when those do not go, are in its way as well. */
Test(pilot, one_larger_than_what_others_leave_does_not_wait_for_its_memory)
{
	uint32_t a = tenant(15, 15), b = tenant(6, 6);

	sim.t[a].goes = false;
	sim.t[a].out = 10 * GIB;
	run(&time_mfit, 1);
	cr_assert(!sim.t[a].goes, "it would fit alone");
	sim.t[b].fixed = 2 * GIB;
	run(&time_mfit, 1);
	cr_assert(sim.t[a].goes && !sim.t[b].goes);
}

Test(pilot, what_those_keep_that_do_not_go_counts)
{
	uint32_t a = tenant(8, 8), b = tenant(7, 7), c = tenant(9, 9);

	run(&time_mfit, 10);
	cr_assert(sim.t[a].goes + sim.t[b].goes + sim.t[c].goes == 2);
	sim.t[a].fixed = sim.t[b].fixed = sim.t[c].fixed = 2 * GIB;
	run(&time_mfit, 5000);
	cr_assert(sim.t[a].goes + sim.t[b].goes + sim.t[c].goes == 1);
}

/* Memory is given by one that does not compute meanwhile. */
Test(pilot, who_allocates_is_not_held_back)
{
	uint32_t a = tenant(3, 3), b = tenant(2, 2);

	run(&time_mfit, 10);
	sim.t[b].asks = 13 * GIB;
	run(&time_mfit, 1);
	cr_assert(!sim.t[a].goes && sim.t[b].goes);
	sim.t[b].asks = 0;
	sim.t[b].all = sim.t[b].set = 15 * GIB;
	sim.t[a].out = 3 * GIB;
	run(&time_mfit, 900);
	cr_assert(!sim.t[a].goes && sim.t[b].goes);
	sim.t[a].out = 0;
	run(&time_mfit, 200);
	cr_assert(sim.t[a].goes && !sim.t[b].goes);
	sim.t[b].asks = GIB;
	run(&time_mfit, 100);
	cr_assert(sim.t[a].goes, "who has waited goes for as long");
}

/* Nor while others still give. */
Test(pilot, who_allocates_needs_its_turn_without_a_launch)
{
	uint32_t a = tenant(3, 3), b = tenant(2, 2);

	run(&time_mfit, 1100);
	sim.t[b].asks = 13 * GIB;
	sim.t[b].works = false;
	run(&time_mfit, 100);
	cr_assert(!sim.t[a].goes && sim.t[b].goes);
}

/* And waits for it as who computes does. */
Test(pilot, who_allocates_has_a_place_in_the_line)
{
	uint32_t a = tenant(3, 3), b = tenant(14, 14);

	sim.t[b].works = sim.t[b].goes = false;
	sim.t[b].for_us = 0;
	sim.t[b].asks = GIB;
	run(&time_mfit, 100);
	cr_assert(sim.t[a].goes && !sim.t[b].goes);
	cr_assert_eq(sim.turn[b].begins_us, 1);
	run(&time_mfit, 1000);
	cr_assert(!sim.t[a].goes && sim.t[b].goes);
}

/* Memory that it asks for may never be there. */
Test(pilot, who_allocates_all_the_time_is_held_back_all_the_same)
{
	uint32_t a = tenant(3, 3), b = tenant(15, 15);

	sim.t[b].asks = GIB;
	run(&time_mfit, 6000);
	cr_assert_geq(sim.went[a], 2500);
	cr_assert_leq(sim.longest[a], 1010);
}

/* All that another one allocates may be what one computes with that goes. */
static void memory_is_taken(const struct time_policy *p)
{
	uint32_t a = tenant(3, 3), b = tenant(15, 15);

	sim.t[b].goes = sim.t[b].works = false;
	sim.t[b].idle_us = UINT32_MAX - 10000 * MS;
	sim.t[a].fixed = GIB;
	sim.t[a].out = 1;
	run(p, 10);
	cr_assert(sim.t[a].goes, "hardly any of it is out");
	sim.t[a].out = 2 * GIB;
	sim.t[a].still_us = 0;
	run(p, 500);
	cr_assert(!sim.t[a].goes && !sim.turn[a].begins_us);
	sim.t[a].out = 0;
	run(p, 1);
	cr_assert(sim.t[a].goes);
	sim.t[a].out = 2 * GIB;
	sim.t[a].still_us = 2000 * MS;
	run(p, 100);
	cr_assert(sim.t[a].goes, "none comes in");
	sim.t[a].still_us = 0;
	sim.t[b].works = true;
	run(p, 1);
	cr_assert(!sim.t[a].goes);
	run(p, 400);
	cr_assert(!sim.t[a].goes && sim.t[b].goes, "this one, meanwhile");
	sim.t[a].out = 0;
	run(p, 700);
	cr_assert(sim.t[a].goes && !sim.t[b].goes);
}

Test(pilot, one_whose_memory_is_taken_waits_until_it_is_back)
{
	memory_is_taken(&time_mfit);
	setup();
	memory_is_taken(&time_amfit);
}

Test(pilot, any_numbers_are_safe)
{
	unsigned seed = 5;

	for (unsigned round = 0; round < 20000; round++) {
		sim.n = (uint32_t)rand_r(&seed) % MOST;
		sim.device.memory = rand_r(&seed) % 5 ? (uint64_t)rand_r(&seed) << 8 : 0;
		for (unsigned i = 0; i < sim.n; i++) {
			sim.t[i] = (struct time_tenant){
				.sessions = (uint32_t)rand_r(&seed) % 3,
				.set = rand_r(&seed) % 7 ? (uint64_t)rand_r(&seed) << 6
							 : UINT64_MAX,
				.all = rand_r(&seed) % 7 ? (uint64_t)rand_r(&seed) << 7
							 : UINT64_MAX,
				.goes = rand_r(&seed) % 2,
				.fixed = rand_r(&seed) % 2 ? rand_r(&seed) : 0,
				.asks = rand_r(&seed) % 3 ? 0
							  : (uint64_t)rand_r(&seed) << 5,
				.out = rand_r(&seed) % 2 ? rand_r(&seed) : 0,
				.still_us = (uint32_t)rand_r(&seed) % 3000000,
				.first_us = (uint32_t)rand_r(&seed) % 3000000,
				.works = rand_r(&seed) % 2,
				.idle_us = (uint32_t)rand_r(&seed) % 50000,
				.for_us = (uint32_t)rand_r(&seed) % 3000000,
				.latency_us = rand_r(&seed) % 2 ? 0 : UINT32_MAX};
		}
		bool any = false, goes = false;
		const struct time_policy *p = round % 2 ? &time_mfit : &time_amfit;

		memset(sim.turn, 0, sizeof(sim.turn));
		p->turns(&sim.device, sim.t, sim.n, sim.turn);
		for (unsigned i = 0; i < sim.n; i++) {
			any |= sim.t[i].works;
			goes |= sim.turn[i].go && (sim.t[i].works || sim.t[i].asks ||
						   sim.t[i].idle_us < 20 * MS);
			goes |= !sim.turn[i].begins_us && sim.t[i].works && sim.t[i].out;
		}
		cr_assert(!any || goes, "somebody goes that can, or is first: round %u",
			  round);
	}
}
