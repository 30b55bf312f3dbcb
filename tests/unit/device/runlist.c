/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share the software device: who has it when, by a clock of the test's. */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "device/soft/runlist.h"

#define PROCESSES 4
#define US        NSEC_PER_USEC
#define MS        NSEC_PER_MSEC

static struct soft_turn turns[PROCESSES];
static struct runlist *list;
static uint64_t now_ns;

static void setup(void)
{
	int fd = fd_memfd("runlist", sizeof(struct runlist));

	cr_assert_geq(fd, 0);
	for (unsigned i = 0; i < PROCESSES; i++)
		cr_assert_eq(soft_turn_init(&turns[i], fd, false), 0);
	list = turns[0].list;
	close(fd);
	now_ns = 1000 * NSEC_PER_SEC;
}

static void teardown(void)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		soft_turn_fini(&turns[i]);
}

TestSuite(runlist, .init = setup, .fini = teardown, .timeout = 60);

/* The first n have work all the time, and run blocks of step_ns; for so long. */
static void run(unsigned n, uint64_t step_ns, uint64_t for_ns)
{
	uint64_t end = now_ns + for_ns;

	while (now_ns < end) {
		bool any = false;

		for (unsigned i = 0; i < n; i++) {
			if (!soft_turn_take(&turns[i], now_ns))
				continue;
			any = true;
			now_ns += step_ns;
		}
		now_ns += any ? 0 : US; /* it has passed on to one asked before */
	}
}

static double share(unsigned i, uint64_t begin_ns)
{
	return (double)soft_turn_had_ns(&turns[i], now_ns) / (double)(now_ns - begin_ns);
}

static void near(double is, double wanted)
{
	cr_assert(is > wanted - 0.01 && is < wanted + 0.01, "%.3f, not %.3f", is, wanted);
}

Test(runlist, alone_it_has_the_device_all_the_time)
{
	uint64_t begin = now_ns;

	run(1, 100 * US, NSEC_PER_SEC);
	near(share(0, begin), 1);
	soft_turn_leave(&turns[0], now_ns);
	now_ns += NSEC_PER_SEC;
	near(share(0, begin), 0.5);
}

Test(runlist, slices_divide_it)
{
	uint64_t begin = now_ns;

	soft_turn_slice(&turns[0], 6000);
	soft_turn_slice(&turns[1], 3000);
	soft_turn_slice(&turns[2], 1000);
	run(3, 100 * US, 2 * NSEC_PER_SEC);
	near(share(0, begin), 0.6);
	near(share(1, begin), 0.3);
	near(share(2, begin), 0.1);
}

/* Blocks last longer than slices: what is too much is made up for. */
Test(runlist, long_blocks_change_nothing)
{
	uint64_t begin = now_ns;

	soft_turn_slice(&turns[0], 2000);
	soft_turn_slice(&turns[1], 50);
	run(2, 700 * US, 20 * NSEC_PER_SEC);
	near(share(1, begin), 50.0 / 2050);
}

Test(runlist, who_has_no_work_is_passed_over)
{
	cr_assert(soft_turn_take(&turns[0], now_ns));
	cr_assert(!soft_turn_take(&turns[1], now_ns));
	cr_assert(!soft_turn_take(&turns[2], now_ns));
	soft_turn_leave(&turns[1], now_ns);
	now_ns += 3 * MS;
	cr_assert(!soft_turn_take(&turns[0], now_ns));
	cr_assert(!soft_turn_take(&turns[1], now_ns));
	cr_assert(soft_turn_take(&turns[2], now_ns));
}

Test(runlist, who_leaves_lets_the_next_go_at_once)
{
	cr_assert(soft_turn_take(&turns[0], now_ns));
	cr_assert(!soft_turn_take(&turns[1], now_ns));
	soft_turn_leave(&turns[0], now_ns);
	cr_assert(soft_turn_take(&turns[1], now_ns));
	cr_assert(!soft_turn_take(&turns[0], now_ns));
	soft_turn_yield(&turns[1], now_ns);
	cr_assert(soft_turn_take(&turns[0], now_ns));
}

Test(runlist, who_died_with_the_device_loses_it)
{
	cr_assert(soft_turn_take(&turns[0], now_ns));
	now_ns += RUNLIST_SLICE_US * US + RUNLIST_GRACE_NS / 2;
	cr_assert(!soft_turn_take(&turns[1], now_ns));
	now_ns += RUNLIST_GRACE_NS;
	cr_assert(soft_turn_take(&turns[1], now_ns));
	/* Waits its turn if it comes back. */
	cr_assert(!soft_turn_take(&turns[0], now_ns));
}

/* A turn comes for one that has died meanwhile. */
Test(runlist, who_died_waiting_is_forgotten)
{
	uint64_t begin;

	cr_assert(soft_turn_take(&turns[0], now_ns));
	cr_assert(!soft_turn_take(&turns[1], now_ns));
	run(1, 100 * US, 90 * MS + RUNLIST_FRESH_NS);
	begin = now_ns - soft_turn_had_ns(&turns[0], now_ns);
	run(1, 100 * US, NSEC_PER_SEC);
	near(share(0, begin), 1);
}

/* Two that are shared have it at the same time, and one that is not in turns with them. */
Test(runlist, shared_ones_are_one)
{
	uint64_t begin = now_ns;

	turns[0].shared = turns[2].shared = true;
	run(3, 20 * US, NSEC_PER_SEC);
	for (unsigned i = 0; i < 3; i++)
		near(share(i, begin), 0.5);
	/* The first of them in the list has nothing to do any more. */
	soft_turn_leave(&turns[0], now_ns);
	for (unsigned i = 0; i < 3; i++)
		turns[i].had_ns = 0;
	begin = now_ns;
	while (now_ns < begin + NSEC_PER_SEC) {
		for (unsigned i = 1; i < 3; i++)
			now_ns += soft_turn_take(&turns[i], now_ns) ? 20 * US : US;
	}
	near(share(1, begin), 0.5);
	near(share(2, begin), 0.5);
}

Test(runlist, a_fault_is_of_all_that_are_shared)
{
	turns[0].shared = turns[1].shared = true;
	soft_turn_fault(&turns[2], 700);
	cr_assert_eq(soft_turn_faulted(&turns[0]), 0, "that is its own");
	soft_turn_fault(&turns[0], 700);
	cr_assert_eq(soft_turn_faulted(&turns[1]), 700);
	cr_assert_eq(soft_turn_faulted(&turns[2]), 0);
}

Test(runlist, entries_of_the_dead_are_used_again)
{
	static struct soft_turn many[RUNLIST_ENTRIES];
	int fd = fd_memfd("runlist", sizeof(struct runlist));
	struct soft_turn late;

	for (unsigned i = 0; i < RUNLIST_ENTRIES; i++) {
		cr_assert_eq(soft_turn_init(&many[i], fd, false), 0);
		(void)soft_turn_take(&many[i], now_ns);
	}
	cr_assert_eq(soft_turn_init(&late, fd, false), 0);
	cr_assert(soft_turn_take(&late, now_ns), "runs beside the others");
	cr_assert_eq(late.index, RUNLIST_ENTRIES);
	now_ns += RUNLIST_UNUSED_NS;
	cr_assert(soft_turn_take(&late, now_ns));
	cr_assert_lt(late.index, RUNLIST_ENTRIES);
	for (unsigned i = 0; i < RUNLIST_ENTRIES; i++)
		munmap(many[i].list, sizeof(struct runlist));
	soft_turn_fini(&late);
	close(fd);
}

/* Two look at the clock, and the one that looked first finds the other's time ahead. */
Test(runlist, entries_of_a_later_clock_are_no_ones_else)
{
	cr_assert(soft_turn_take(&turns[0], now_ns + US));
	cr_assert(!soft_turn_take(&turns[1], now_ns));
	cr_assert_neq(turns[0].index, turns[1].index);
	cr_assert_eq(list->entries[turns[0].index].owner, turns[0].number);
}

/* One of them writes what it likes. */
Test(runlist, wrong_numbers_cost_the_others_a_moment)
{
	uint64_t had[2];

	run(2, 100 * US, 100 * MS);
	for (unsigned n = 0; n < 4; n++) {
		list->current = n & 1 ? UINT32_MAX : 3;
		list->n = n & 2 ? UINT32_MAX : 0;
		list->until_ns = UINT64_MAX;
		list->entries[2].owner = 1;
		list->entries[2].has_work = 1;
		list->entries[2].seen_ns = UINT64_MAX;
		list->entries[2].slice_us = UINT32_MAX;
		list->entries[0].debt_ns = UINT64_MAX;
		for (unsigned j = 0; j < 2; j++)
			had[j] = soft_turn_had_ns(&turns[j], now_ns);
		run(2, 100 * US, NSEC_PER_SEC);
		for (unsigned j = 0; j < 2; j++)
			cr_assert_gt(soft_turn_had_ns(&turns[j], now_ns),
				     had[j] + NSEC_PER_SEC / 5, "%u: %u goes on", n, j);
	}
}

Test(runlist, none_is_all_the_time)
{
	struct soft_turn alone;

	cr_assert_eq(soft_turn_init(&alone, -1, false), 0);
	cr_assert(soft_turn_take(&alone, now_ns));
	now_ns += MS;
	soft_turn_leave(&alone, now_ns);
	cr_assert_eq(soft_turn_had_ns(&alone, now_ns), MS);
	soft_turn_fini(&alone);
}
