/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of a kernel: the one that is used, by how long launches took. */
#include <criterion/criterion.h>

#include "device/rewrite/cost.h"

/* Times all that is to be timed, the kernel in plain ns a block and its copy in those for each
 * number of parts; every second time something else ran, too. Returns how many launches. */
static unsigned time_all(struct cost *c, double plain, const double copy[COST_PARTS])
{
	unsigned n = 0, form;

	while ((form = cost_next(c)) != COST_FORMS && n < 100) {
		double each = form == COST_PLAIN ? plain : copy[form - 1];
		uint64_t blocks = 1000 + 10 * (uint64_t)n;

		cost_note(c, form, blocks,
			  each * (double)blocks * (n++ % 4 < 2 ? 1.7 : 1));
	}
	return n;
}

Test(cost, a_copy_is_used_while_it_costs_little)
{
	struct cost c = {0};

	cr_assert_eq(cost_verdict(&c), COST_OPEN);
	cr_assert_eq(time_all(&c, 100, (double[]){400, 200, 133, 104}),
		     COST_FORMS * COST_SAMPLES);
	cr_assert_eq(cost_verdict(&c), COST_COPY);
	cr_assert_eq(cost_speed(&c, 1), 260);
	cr_assert_eq(cost_speed(&c, 2), 520);
	cr_assert_eq(cost_speed(&c, 4), 1000);
}

Test(cost, a_copy_that_costs_more_is_left)
{
	struct cost c = {0};

	cr_assert_eq(time_all(&c, 100, (double[]){400, 200, 133, 106}), 2 * COST_SAMPLES);
	cr_assert_eq(cost_verdict(&c), COST_LEAVE);
	cr_assert_eq(cost_next(&c), COST_FORMS);
	cr_assert_eq(cost_speed(&c, 1), 0, "not timed");
}

Test(cost, the_two_are_timed_in_turn)
{
	struct cost c = {0};

	for (unsigned i = 0; i < 2 * COST_SAMPLES; i++) {
		cr_assert_eq(cost_verdict(&c), COST_OPEN);
		cr_assert_eq(cost_next(&c), i % 2 ? COST_PLAIN : COST_PARTS);
		cost_note(&c, cost_next(&c), 1, 1);
	}
	cr_assert_eq(cost_next(&c), COST_PARTS - 1);
}

/* binomialOptions in the paper: some fewer blocks are quicker than more. */
Test(cost, speeds_never_fall_with_more_blocks)
{
	struct cost c = {0};

	time_all(&c, 100, (double[]){110, 150, 90, 100});
	cr_assert_eq(cost_speed(&c, 1), 909);
	cr_assert_eq(cost_speed(&c, 2), 909);
	cr_assert_eq(cost_speed(&c, 3), 1000);
	cr_assert_eq(cost_speed(&c, 4), 1000);
}

Test(cost, no_time_and_no_blocks_are_no_harm)
{
	struct cost c = {0};

	for (unsigned i = 0; i < 40; i++)
		cost_note(&c, i % COST_FORMS, 0, 0);
	cr_assert_eq(cost_verdict(&c), COST_COPY);
	cr_assert_eq(cost_speed(&c, 1), 1000);
}
