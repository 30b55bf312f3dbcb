/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of portions, by a device that is a number. */
#include <criterion/criterion.h>

#include "base/macros.h"
#include "session/portion.h"

#define US NSEC_PER_USEC

static struct portion b;

static void setup(void)
{
	portion_init(&b);
}

TestSuite(portion, .init = setup, .timeout = 60);

/* Portions of commands of so long, during one in `of` of which others have the device; 0: none. */
static void run(unsigned portions, uint64_t each_ns, unsigned of)
{
	for (unsigned i = 1; i <= portions; i++)
		portion_done(&b, b.n, b.n * each_ns + (of && !(i % of) ? 2200 * US : 0));
}

Test(portion, is_what_the_device_does_in_the_time)
{
	run(200, 10 * US, 0);
	cr_assert_eq(b.n, 150);
	run(200, 20000 * US, 0);
	cr_assert_eq(b.n, 1);
	run(1000, 1, 0);
	cr_assert_eq(b.n, PORTION_MAX);
	run(200, 100 * US, 0);
	cr_assert_eq(b.n, 15);
}

Test(portion, is_the_same_beside_neighbours)
{
	run(200, 10 * US, 0);
	for (unsigned of = 2; of < 6; of++) {
		run(200, 10 * US, of);
		cr_assert_eq(b.n, 150, "%u", b.n);
	}
}

/* A kernel of 1 ms and an event, by turns: some four are a portion. */
Test(portion, does_not_go_by_commands_that_cost_nothing)
{
	unsigned kinds = 0, sum = 0;
	uint64_t took;

	for (unsigned i = 0; i < 1000; i++) {
		took = 0;
		for (unsigned n = 0; n < b.n; n++)
			took += kinds++ % 2 ? 5 * US : 1000 * US;
		portion_done(&b, b.n, took);
		sum += b.n;
	}
	cr_assert_leq(sum, 6 * 1000);
}

/* Two that lie before the device are done before a lane has brought more, and a neighbour has
 * it then; of 16 some are always there. */
Test(portion, gets_out_of_being_too_small)
{
	b.n = 1;
	for (unsigned i = 0; i < 1000; i++)
		portion_done(&b, b.n, b.n * 50 * US + (b.n < 4 || i % 3 == 0 ? 2200 * US : 0));
	cr_assert_eq(b.n, 30);
}
