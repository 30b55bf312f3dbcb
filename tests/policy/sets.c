/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated device whose tenants need more memory than it has, as weftd asks about them once a
 * millisecond: who goes by `sets`, what leaves and comes back by placement, along a link that
 * carries so much each way. A tenant whose memory is not all there computes at a thirtieth of
 * its speed, as measured where a program reads the rest over PCIe; and if its steps are long,
 * nothing of it moves meanwhile.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "line.h"
#include "policies/sets.h"

#define MOST   64u
#define SECOND 1000u /* looks */
#define MIB    (1ull << 20)
#define GIB    (1ull << 30)
#define PIECE  (8 * MIB)
#define LINK   (5 * PIECE) /* in a look, each way: 42 GB/s */
#define REMOTE 30

static struct {
	struct time_device device;
	struct time_tenant t[MOST];
	struct placement_tenant p[MOST];
	struct time_turn turn[MOST];
	uint32_t n;
	uint32_t work[MOST], every[MOST],
		left[MOST];  /* looks; every 0: it always has work */
	uint32_t busy[MOST]; /* per mille of the device that it takes at most */
	double ran[MOST];    /* looks */
	uint32_t waits[MOST], longest[MOST];
	uint64_t moved; /* bytes, both ways */
	uint32_t step;  /* looks that one takes from host memory; 0: next to none */
	uint32_t until[MOST];
	uint32_t now;
} sim;

static void setup(void)
{
	memset(&sim, 0, sizeof(sim));
}

TestSuite(sets, .init = setup, .timeout = 60);

static uint32_t tenant(uint64_t set, uint32_t weight, uint32_t priority)
{
	sim.busy[sim.n] = 1000;
	sim.t[sim.n] = (struct time_tenant){.weight = weight,
					    .priority = priority,
					    .sessions = 1,
					    .set = set,
					    .out = set,
					    .goes = true,
					    .for_us = UINT32_MAX};
	sim.p[sim.n] = (struct placement_tenant){.weight = 100,
						 .evicted = set,
						 .evicted_room = UINT64_MAX,
						 .high = UINT64_MAX,
						 .max = UINT64_MAX};
	return sim.n++;
}

static uint32_t decoder(void)
{
	return tenant(8 * GIB, 100, 0);
}

static void memory(uint64_t bytes)
{
	sim.device.memory = bytes;
}

/* ---- a look ---- */

static bool has_work(uint32_t i)
{
	if (!sim.every[i])
		return true;
	if (sim.now % sim.every[i] == 0)
		sim.left[i] = sim.work[i];
	return sim.left[i];
}

static void see(uint32_t i)
{
	struct time_tenant *t = &sim.t[i];

	line_see(t, has_work(i), sim.p[i].evicted);
	t->pending = sim.busy[i];
}

static bool take_turns(void)
{
	return line_take_turns(&sim.device, sim.t, sim.n, sim.turn);
}

/* Has a step under way that it began in host memory. */
static bool is_stuck(uint32_t i)
{
	return sim.now < sim.until[i];
}

static struct placement_device on_device(void)
{
	struct placement_device d = {.total = sim.device.memory,
				     .free = sim.device.memory,
				     .host_room = UINT64_MAX,
				     .piece = PIECE};

	for (uint32_t i = 0; i < sim.n; i++) {
		sim.p[i].busy = is_stuck(i);
		sim.p[i].movable = is_stuck(i) ? 0 : sim.p[i].resident;
		d.free -= sim.p[i].resident;
	}
	return d;
}

/* Returns those whose memory can come. */
static int returns(const struct placement_device *d, struct placement_step *ret)
{
	struct placement_tenant p[MOST];

	memcpy(p, sim.p, sizeof(p));
	for (uint32_t i = 0; i < sim.n; i++)
		p[i].evicted = is_stuck(i) ? 0 : p[i].evicted;
	return placement_lru.returns(d, p, sim.n, ret);
}

static void move(void)
{
	struct placement_device d = on_device();
	uint64_t out = LINK, in = LINK;
	struct placement_step s;

	while (out && placement_lru.relieve(&d, sim.p, sim.n, &s) == 0) {
		s.bytes = s.bytes < out ? s.bytes : out;
		sim.p[s.tenant].resident -= s.bytes;
		sim.p[s.tenant].evicted += s.bytes;
		out -= s.bytes;
		d = on_device();
	}
	while (in && returns(&d, &s) == 0) {
		s.bytes = s.bytes < in ? s.bytes : in;
		sim.p[s.tenant].resident += s.bytes;
		sim.p[s.tenant].evicted -= s.bytes;
		in -= s.bytes;
		d = on_device();
	}
	sim.moved += 2 * LINK - out - in;
}

static void compute(bool drains)
{
	double weights = 0;

	for (uint32_t i = 0; i < sim.n; i++)
		weights += sim.t[i].goes && sim.t[i].works ? sim.t[i].weight : 0;
	for (uint32_t i = 0; i < sim.n; i++) {
		bool runs = sim.t[i].goes && sim.t[i].works && !drains;
		double part = runs ? sim.t[i].weight / weights : 0;

		part = part < sim.busy[i] / 1000. ? part : sim.busy[i] / 1000.;
		sim.ran[i] += sim.p[i].evicted ? part / REMOTE : part;
		if (part > 0 && sim.p[i].evicted && !is_stuck(i))
			sim.until[i] = sim.now + sim.step;
		sim.left[i] -= runs && sim.every[i];
		sim.waits[i] = sim.t[i].works && !runs ? sim.waits[i] + 1 : 0;
		if (sim.waits[i] > sim.longest[i])
			sim.longest[i] = sim.waits[i];
	}
}

static void look(void)
{
	bool drains;

	for (uint32_t i = 0; i < sim.n; i++)
		see(i);
	drains = take_turns();
	line_up(sim.turn, sim.p, sim.n);
	move();
	compute(drains);
	sim.now++;
}

static double run(uint32_t looks)
{
	double sum = 0;

	for (uint32_t i = 0; i < 5 * SECOND; i++)
		look();
	memset(sim.ran, 0, sizeof(sim.ran));
	memset(sim.longest, 0, sizeof(sim.longest));
	sim.moved = 0;
	for (uint32_t i = 0; i < looks; i++)
		look();
	for (uint32_t i = 0; i < sim.n; i++)
		sum += sim.ran[i];
	return sum / looks;
}

/* ---- what is to hold ---- */

/* Memory promised one and a half times, twice, three times: two decoders fit, that take so much
 * of the device each, per mille. All together have about so much of it, evenly. */
static void check_decoders(uint32_t busy, const double about[3])
{
	static const uint32_t ns[] = {3, 4, 6};

	for (unsigned k = 0; k < 3; k++) {
		setup();
		memory(17 * GIB);
		for (uint32_t i = 0; i < ns[k]; i++)
			sim.busy[decoder()] = busy;
		cr_expect_float_eq(run(60 * SECOND), about[k], 0.01, "%u", ns[k]);
		for (uint32_t i = 0; i < ns[k]; i++) {
			cr_expect_float_eq(sim.ran[i] / (60 * SECOND), about[k] / ns[k],
					   0.01);
			cr_expect_leq(sim.longest[i], (ns[k] - 1) * 500 + 50, "%u: %u ms",
				      ns[k], sim.longest[i]);
		}
	}
}

Test(sets, decoders_lose_next_to_nothing)
{
	check_decoders(1000, (double[]){1, 1, 1});
}

/* Two that fit have all of the device, together; while memory comes in, one has two thirds. Turns
 * are as long as others may wait, of whom there is one less. */
Test(sets, those_that_leave_the_device_idle_go_beside_each_other)
{
	check_decoders(667, (double[]){0.925, 0.91, 0.895});
}

/* Nobody begins before its memory is there, so all have theirs after a turn of each. */
Test(sets, those_that_begin_in_host_memory_come_out_of_it)
{
	memory(17 * GIB);
	sim.step = 15 * SECOND;
	for (uint32_t i = 0; i < 6; i++)
		decoder();
	cr_expect_geq(run(30 * SECOND), 0.97);
	for (uint32_t i = 0; i < 6; i++)
		cr_expect_float_eq(sim.ran[i] / (30 * SECOND), 1. / 6, 0.02);
}

/* While the next one's memory comes in another goes whose own is there, but not the one whose turn
 * was last: what that has is in the way. */
Test(sets, who_had_the_last_turn_makes_room)
{
	memory(17 * GIB);
	for (uint32_t i = 0; i < 3; i++) {
		sim.t[decoder()].works = true;
		sim.t[i].goes = false;
		sim.t[i].out = i == 1 ? GIB : 0;
	}
	sim.t[0].for_us = 10000;
	sim.t[1].for_us = 3000000;
	sim.t[2].for_us = 2000000;
	(void)take_turns();
	cr_expect(sim.turn[2].go && !sim.turn[0].go && !sim.turn[1].go);
	sim.t[2].goes = false;
	sim.t[2].for_us = 2000000;
	sim.t[2].works = false;
	(void)take_turns();
	cr_expect(!sim.turn[0].go && !sim.turn[1].go && !sim.turn[2].go);
	cr_expect_eq(sim.turn[1].begins_us, 0);
	cr_expect_gt(sim.turn[0].begins_us, 0);
	/* Nothing has come for a second. */
	sim.t[0].for_us = sim.t[1].still_us = 1100000;
	(void)take_turns();
	cr_expect(!sim.turn[0].go && sim.turn[1].go);
}

Test(sets, nothing_moves_while_all_fits)
{
	memory(33 * GIB);
	for (uint32_t i = 0; i < 4; i++)
		decoder();
	cr_expect_float_eq(run(SECOND), 1, 1e-6);
	cr_expect_eq(sim.moved, 0);
	for (uint32_t i = 0; i < 4; i++) {
		cr_expect(sim.turn[i].go);
		cr_expect_eq(sim.longest[i], 0);
	}
}

/* Nothing leaves for what is not needed soon either: of eight tenants, five of which
 * fit, two thirds of a set come in a turn. */
Test(sets, what_is_far_from_its_turn_stays_where_it_is)
{
	memory(43 * GIB);
	for (uint32_t i = 0; i < 8; i++)
		decoder();
	cr_expect_geq(run(60 * SECOND), 0.99);
	cr_expect_leq(sim.moved / 2, 60 * 2 * 8 * GIB * 7 / 10);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect_leq(sim.longest[i], 7 * 500 + 50);
}

Test(sets, by_weight)
{
	memory(17 * GIB);
	tenant(8 * GIB, 300, 0);
	tenant(8 * GIB, 100, 0);
	tenant(8 * GIB, 100, 0);
	cr_expect_geq(run(60 * SECOND), 0.99);
	cr_expect_float_eq(sim.ran[0] / (60 * SECOND), 0.6, 0.02);
	cr_expect_float_eq(sim.ran[1] / (60 * SECOND), 0.2, 0.01);
}

/* Where two do not fit, most of the next one's memory comes in when a turn has ended. */
Test(sets, turns_are_longer_where_memory_does_not_come_in_behind_them)
{
	memory(11 * GIB);
	for (uint32_t i = 0; i < 4; i++)
		decoder();
	cr_expect_geq(run(60 * SECOND), 0.93);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_float_eq(sim.ran[i] / (60 * SECOND), 0.235, 0.01);
	sim.t[0].latency_us = 1500000;
	(void)run(30 * SECOND);
	cr_expect_leq(sim.longest[0], 2200, "%u ms", sim.longest[0]);
	sim.t[0].latency_us = 0;
	sim.t[0].weight = 300;
	(void)run(60 * SECOND);
	cr_expect_float_eq(sim.ran[0] / (sim.ran[1] + sim.ran[2] + sim.ran[3]), 1, 0.05);
}

/* One in a hurry goes beside all others, and is never moved out. */
Test(sets, who_fits_beside_the_others_stays)
{
	uint32_t quick;

	memory(18 * GIB);
	decoder();
	decoder();
	decoder();
	quick = tenant(GIB / 2, 100, 1);
	sim.work[quick] = 1;
	sim.every[quick] = 6;
	cr_expect_geq(run(30 * SECOND), 0.97);
	cr_expect_eq(sim.p[quick].evicted, 0);
	cr_expect_leq(sim.longest[quick], 1);
	/* Nor is one that is large and in a hurry, if the others still can go by turns. */
	setup();
	memory(26 * GIB);
	decoder();
	decoder();
	decoder();
	quick = tenant(9 * GIB, 100, 1);
	run(5 * SECOND);
	cr_expect_eq(sim.p[quick].evicted, 0);
	cr_expect(sim.turn[quick].go);
}

/* In slices, those that take turns have what all of them are due, together. */
Test(sets, who_stays_has_its_weight)
{
	uint32_t us[4];
	bool eager = false;

	memory(18 * GIB);
	decoder();
	decoder();
	decoder();
	tenant(GIB / 2, 100, 0);
	time_sets.slices(&sim.device, sim.t, sim.n, &eager, us);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_float_eq(
			(double)(us[i] - TIME_LOAD_US) / (us[3] - TIME_LOAD_US), 3, 0.01);
}

/* Somebody in a hurry waits for the one slice of whose turn it is. */
Test(sets, who_is_alone_below_has_the_shortest_slices)
{
	uint32_t us[4];
	bool eager = false;

	memory(18 * GIB);
	for (unsigned i = 0; i < 3; i++)
		sim.t[decoder()].goes = i == 1;
	tenant(GIB / 2, 100, 1);
	time_sets.slices(&sim.device, sim.t, sim.n, &eager, us);
	cr_expect_eq(us[1], TIME_BELOW_US);
	/* Work that moves their memory ends in one of theirs. */
	cr_expect_eq(us[0], TIME_BELOW_MOVES_US);
	cr_expect_eq(us[2], TIME_BELOW_MOVES_US);
	/* Two that go beside each other. */
	sim.t[0].goes = true;
	time_sets.slices(&sim.device, sim.t, sim.n, &eager, us);
	cr_expect_eq(us[0], TIME_BELOW_ALL_US);
	cr_expect_eq(us[1], TIME_BELOW_ALL_US);
	cr_expect_eq(us[2], TIME_BELOW_MOVES_US);
}

/* Two that do not fit beside each other: all the other has moves when turns change. */
Test(sets, two_that_fit_one_at_a_time)
{
	memory(10 * GIB);
	decoder();
	decoder();
	cr_expect_geq(run(30 * SECOND), 0.6);
	cr_expect_float_eq(sim.ran[0], sim.ran[1], 0.1 * sim.ran[0]);
}

/* One that is larger than the device has what it can get. */
Test(sets, one_alone_has_all)
{
	memory(10 * GIB);
	tenant(15 * GIB, 100, 0);
	run(SECOND);
	cr_expect(sim.turn[0].go);
	cr_expect_eq(sim.p[0].resident, 10 * GIB);
	cr_expect_eq(sim.moved, 0);
}

/* A tenant with nothing to do for a moment keeps its turn, one with none for longer passes it on. */
Test(sets, nothing_stays_idle)
{
	memory(17 * GIB);
	decoder();
	decoder();
	decoder();
	sim.work[0] = 100;
	sim.every[0] = 1000;
	cr_expect_geq(run(60 * SECOND), 0.9);
	cr_expect_geq(sim.ran[0], 60 * 100 * 0.6);
}

/* Somebody's latency bounds everybody's turns. */
Test(sets, nobody_waits_longer_than_is_allowed)
{
	memory(17 * GIB);
	for (unsigned i = 0; i < 4; i++)
		decoder();
	cr_expect_geq(run(10 * SECOND), 0.99);
	cr_expect_geq(sim.longest[2], 700);
	sim.t[2].latency_us = 630000;
	cr_expect_geq(run(30 * SECOND), 0.99);
	cr_expect_leq(sim.longest[2], 635);
	/* Not shorter than the link takes, and 10 ms: then it is the link that they wait for. */
	sim.t[2].latency_us = 1;
	cr_expect_geq(run(30 * SECOND), 0.045);
	cr_expect_leq(sim.longest[2], 3 * (205 + 10) + 5);
}

/* Where a set takes longer to come in than a turn usually is, turns are as long as that. */
Test(sets, large_ones_have_long_turns)
{
	memory(70 * GIB);
	for (unsigned i = 0; i < 4; i++)
		tenant(32 * GIB, 100, 0);
	cr_expect_geq(run(120 * SECOND), 0.99);
	/* And where it takes longer than the longest turn they wait for the link, evenly. */
	setup();
	memory(270 * GIB);
	for (unsigned i = 0; i < 3; i++)
		tenant(130 * GIB, 100, 0);
	cr_expect_geq(run(200 * SECOND), 0.55);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_float_eq(sim.ran[i], sim.ran[0], 0.15 * sim.ran[0]);
}

/* A promise holds whatever the line. */
Test(sets, promises_hold)
{
	uint32_t one;

	memory(20 * GIB);
	decoder();
	decoder();
	one = decoder();
	sim.p[one].min = 2 * GIB;
	for (uint32_t i = 0; i < 20 * SECOND; i++) {
		look();
		cr_assert(i < SECOND || sim.p[one].resident >= 2 * GIB);
	}
}

Test(sets, any_division_leaves_room)
{
	struct time_tenant t[6] = {0};
	uint64_t x = 1;

	for (unsigned round = 0; round < 20000; round++) {
		struct time_device d = {.memory = 100};
		uint64_t stay = 0, all = 0;
		struct sets s;

		for (unsigned i = 0; i < 6; i++) {
			x = x * 6364136223846793005 + 1442695040888963407;
			t[i].set = x >> 58;
			t[i].priority = (uint32_t)(x >> 40) % 2;
			t[i].sessions = (uint32_t)(x >> 30) % 3;
			all += t[i].sessions ? t[i].set : 0;
		}
		s = sets_divide(&d, t, 6);
		for (unsigned i = 0; i < 6; i++)
			stay += t[i].sessions && !sets_rotates(&s, &t[i]) ? t[i].set : 0;
		cr_assert_eq(s.turns, all > d.memory);
		cr_assert_leq(stay, d.memory);
	}
}
