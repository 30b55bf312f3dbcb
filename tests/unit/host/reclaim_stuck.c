/* SPDX-License-Identifier: Apache-2.0 */
/* More memory promised than the device has, under work that does not end. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "broker/memory/ledger.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "fakes.h"

/* How long a charge waits, or no longer than a minute; in steps. */
static uint64_t waits(struct mate *m, uint64_t bytes, bool part)
{
	uint64_t at = now;

	ask_for(m, bytes, part);
	while (m->asked[0].id && now < at + 60 * NSEC_PER_SEC)
		pass(5 * NSEC_PER_MSEC);
	return now - at;
}

/* Memory under a kernel that does not end: the first one waits for it, and nobody after
 * that, also if a while goes by in which nobody asks, until it has been evicted. */
Test(reclaim, nobody_waits_twice_for_an_endless_kernel)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	fakes[0].endless = true;
	cr_assert_leq(waits(&fakes[1], 16 * MIB, true), 22 * NSEC_PER_SEC);
	cr_assert_eq(fakes[1].evicted, 16 * MIB, "spilled");
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_leq(waits(&fakes[1], 16 * MIB, true), 100 * NSEC_PER_MSEC);
		cr_assert_leq(waits(&fakes[2], 16 * MIB, false), 100 * NSEC_PER_MSEC);
		pass(i * 10 * NSEC_PER_SEC);
	}
	cr_assert_eq(fakes[1].evicted, 80 * MIB);
	cr_assert_eq(fakes[2].has + fakes[2].evicted, 0, "refused");
	cr_assert_eq(tenants[2].events.oom, 4);
	/* once it has ended all is as it was */
	fakes[0].endless = false;
	pass(5 * NSEC_PER_SEC);
	cr_assert_eq(fakes[1].evicted, 0);
	cr_assert_eq(b.n_stuck, 0);
	fakes[0].endless = fakes[1].endless = true;
	cr_assert_geq(waits(&fakes[2], 16 * MIB, true), 10 * NSEC_PER_SEC);
	stop(&fakes[0]);
	stop(&fakes[1]);
	cr_assert_eq(b.n_stuck, 0);
}

/* Kernels of a second, one after the other, are waited for however long that goes on. */
Test(reclaim, slow_is_not_stuck)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	for (unsigned i = 0; i < 30; i++) {
		fakes[0].endless = true;
		ask_for(&fakes[1], 4 * MIB, true);
		pass(NSEC_PER_SEC);
		fakes[0].endless = false;
		pass(2 * NSEC_PER_SEC);
		cr_assert_eq(b.n_stuck, 0);
		cr_assert_eq(fakes[1].evicted, 0);
	}
	cr_assert_eq(fakes[1].has, 120 * MIB);
}

/* Keeping another below memory.min that way ends a session; what is promised and has to be on
 * the device waits for that. */
Test(reclaim, ended_for_min)
{
	begin(256 * MIB, 1024 * MIB);
	b.kill_ns = 5 * NSEC_PER_SEC;
	tenants[1].memory.min = 64 * MIB;
	ask_in_pieces(&fakes[0], 256 * MIB);
	fakes[0].endless = true;
	ask(&fakes[3], 16 * MIB);
	pass(25 * NSEC_PER_SEC);
	cr_assert_eq(b.n_stuck, 1);
	pass(60 * NSEC_PER_SEC);
	cr_assert(!fakes[0].dead, "the others' shares are no promise");
	cr_assert_leq(waits(&fakes[1], 80 * MIB, false), 100 * NSEC_PER_MSEC);
	cr_assert_eq(tenants[1].events.oom, 1, "above what is promised");
	ask(&fakes[1], 16 * MIB);
	pass(4 * NSEC_PER_SEC);
	cr_assert(!fakes[0].dead);
	cr_assert_neq(fakes[1].asked[0].id, 0, "it waits");
	pass(2 * NSEC_PER_SEC);
	cr_assert(fakes[0].dead);
	cr_assert_not_null(fakes[0].w.why);
	stop(&fakes[0]);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(fakes[1].has, 16 * MIB);
	cr_assert_eq(tenants[1].events.oom, 1);
}

/* Memory that was spilled is missed as well; without the option nobody is ended. */
Test(reclaim, ended_for_min_of_what_is_evicted)
{
	begin(256 * MIB, 1024 * MIB);
	tenants[1].memory.min = 64 * MIB;
	ask_in_pieces(&fakes[0], 256 * MIB);
	fakes[0].endless = true;
	ask_for(&fakes[1], 32 * MIB, true);
	pass(120 * NSEC_PER_SEC);
	cr_assert_eq(fakes[1].evicted, 32 * MIB);
	cr_assert(!fakes[0].dead);
	b.kill_ns = 5 * NSEC_PER_SEC;
	pass(6 * NSEC_PER_SEC);
	cr_assert(fakes[0].dead);
	stop(&fakes[0]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(fakes[1].has, 32 * MIB);
}

/* Only what it has itself could move, under work of its own that waits for it. */
Test(reclaim, waits_for_itself)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&fakes[0], 256 * MIB);
	fakes[0].endless = true;
	cr_assert_leq(waits(&fakes[0], 64 * MIB, true), NSEC_PER_SEC);
	cr_assert_eq(fakes[0].evicted, 64 * MIB);
	/* what has to be on the device waits: the work may end */
	cr_assert_geq(waits(&fakes[0], 16 * MIB, false), 10 * NSEC_PER_SEC);
	cr_assert_eq(fakes[0].has, 256 * MIB);
}
