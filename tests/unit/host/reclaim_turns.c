/* SPDX-License-Identifier: Apache-2.0 */
/* More memory promised than the device has, where tenants take turns. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "fakes.h"
#include "policies/time.h"

/* One that asked for its memory and lost its turn gives more for the one that has it now, and
 * gets all of it back in its next. */
Test(reclaim, who_waits_for_its_turn_gives_what_it_has)
{
	begin(256 * MIB, 1024 * MIB);
	b.time = &time_sets;
	b.pace.turns = true;
	ask_in_pieces(&fakes[0], 150 * MIB);
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], 20 * MIB, now, moved_manually, NULL),
		     0);
	pass(NSEC_PER_SEC);
	ask_in_pieces(&fakes[1], 126 * MIB);
	tenants[0].pace.place = 1;
	need(&fakes[0]);
	pass(100 * NSEC_PER_MSEC);
	cr_assert_neq(fakes[0].need, 0);
	ask_in_pieces(&fakes[1], 60 * MIB);
	pass(100 * NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 186 * MIB);
	cr_assert_eq(fakes[0].evicted, 80 * MIB);
	cr_assert_neq(fakes[0].need, 0, "and it waits on");
	tenants[0].pace.place = 0;
	tenants[1].pace.place = 1;
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].need, 0);
	cr_assert_eq(fakes[0].evicted, 0);
	check_sums();
	check_truth();
}

/* The link is of the one whose turn it is, until it has what it asked for. */
Test(reclaim, who_is_next_waits_for_what_comes_to_the_one_that_goes)
{
	begin(256 * MIB, 1024 * MIB);
	b.time = &time_sets;
	b.pace.turns = true;
	for (unsigned i = 0; i < 2; i++) {
		ask_in_pieces(&fakes[i], 100 * MIB);
		manual_open = 1;
		cr_assert_eq(waiters_operator(&tenants[i], 60 * MIB, now, moved_manually,
					      NULL),
			     0);
		pass(NSEC_PER_SEC);
		cr_assert_eq(fakes[i].evicted, 60 * MIB);
		tenants[i].pace.place = i;
	}
	need(&fakes[0]);
	atomic_store(&fakes[1].page.last_submit_ns, now);
	for (unsigned i = 0; i < 4; i++) {
		now += 5 * NSEC_PER_MSEC;
		reclaim_tick(&b, now);
		hear_all();
	}
	cr_assert_eq(fakes[0].in_bytes, 60 * MIB);
	cr_assert_eq(fakes[1].in_id, 0);
	move_in(&fakes[0]);
	reclaim_tick(&b, now);
	hear_all();
	cr_assert_neq(fakes[1].in_id, 0);
	move_in(&fakes[1]);
	check_sums();
	check_truth();
}

/* Turns do without most of it; where all fits nobody takes turns. */
Test(reclaim, what_is_cold_comes_back_where_all_fits)
{
	begin(256 * MIB, 1024 * MIB);
	b.time = &time_sets;
	ask_in_pieces(&fakes[0], 150 * MIB);
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], 20 * MIB, now, moved_manually, NULL),
		     0);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 20 * MIB);
	atomic_store(&fakes[0].page.cold_bytes, 80 * MIB);
	atomic_store(&fakes[0].page.cold_out_bytes, 20 * MIB);
	atomic_store(&fakes[0].page.last_submit_ns, now);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 0);
	check_sums();
	check_truth();
}

static bool only_copies(uint32_t version, uint32_t priority, uint32_t sessions)
{
	fakes[0].w.version = version;
	tenants[1].compute.priority = priority;
	tenants[1].pace.sessions = sessions;
	manual_open = 1;
	cr_assert_eq(waiters_operator(&tenants[0], MIB, now, moved_manually, NULL), 0);
	pass(NSEC_PER_SEC);
	cr_assert_geq(fakes[0].evicted, MIB);
	return fakes[0].out.only_copies;
}

/* Digests are kernels: whoever is more urgent would wait for the end of their slices. */
Test(reclaim, nothing_is_computed_for_it_below_somebody_in_a_hurry)
{
	begin(256 * MIB, 1024 * MIB);
	tenants[0].compute.priority = 1;
	ask_in_pieces(&fakes[0], 150 * MIB);
	cr_assert(!only_copies(4, 0, 0));
	cr_assert(!only_copies(4, 1, 1), "no more urgent");
	cr_assert(!only_copies(4, 2, 0), "computes nothing");
	cr_assert(only_copies(4, 2, 1));
	tenants[1].pace.stopped = true;
	cr_assert(!only_copies(4, 2, 1), "waits for its turn");
	tenants[1].pace.stopped = false;
	cr_assert(!only_copies(3, 2, 1), "would not know");
	check_sums();
	check_truth();
}
