/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges: what overlaps, what contains, and gaps between them. */
#include <criterion/criterion.h>
#include <errno.h>

#include "util/range.h"

Test(device_range, overlaps_and_looking_up, .timeout = 60)
{
	struct range_set s = {0};

	cr_assert_eq(range_insert(&s, 100, 10, &s), 0);
	cr_assert_eq(range_insert(&s, 120, 10, NULL), 0);
	cr_expect_eq(range_insert(&s, 109, 1, NULL), -EEXIST);
	cr_expect_eq(range_insert(&s, 90, 11, NULL), -EEXIST);
	cr_expect_eq(range_insert(&s, 90, 100, NULL), -EEXIST);
	cr_expect_eq(range_insert(&s, 5, 0, NULL), -EINVAL);
	cr_expect_eq(range_insert(&s, UINT64_MAX, 2, NULL), -EINVAL);
	cr_assert_eq(range_insert(&s, 110, 10, NULL), 0, "between them");
	cr_expect_eq(range_at(&s, 109)->start, 100);
	cr_expect_eq(range_at(&s, 109)->data, &s);
	cr_expect_eq(range_at(&s, 110)->start, 110);
	cr_expect_null(range_at(&s, 99));
	cr_expect_null(range_at(&s, 130));
	cr_expect_eq(range_above(&s, 0)->start, 100);
	cr_expect_eq(range_above(&s, 115)->start, 110);
	cr_expect_null(range_above(&s, 130));
	cr_expect_eq(range_next(&s, range_at(&s, 100))->start, 110);
	range_remove(&s, range_at(&s, 115));
	cr_expect_eq(range_next(&s, range_at(&s, 100))->start, 120);
	cr_expect_null(range_next(&s, range_at(&s, 120)));
	range_fini(&s);
	cr_expect_null(range_above(&s, 0));
}

Test(device_range, gaps_are_searched_from_where_the_last_one_was, .timeout = 60)
{
	struct range_set s = {0};
	uint64_t at;

	for (unsigned i = 0; i < 10; i++) {
		cr_assert_eq(range_gap(&s, 64, 64 + 10 * 16, 12, 16, &at), 0);
		cr_expect_eq(at, 64 + 16 * i);
		cr_assert_eq(range_insert(&s, at, 12, NULL), 0);
	}
	cr_expect_eq(range_gap(&s, 64, 64 + 10 * 16, 12, 16, &at), -ENOSPC);
	cr_expect_eq(range_gap(&s, 64, 64 + 10 * 16, 4, 16, &at), -ENOSPC);
	cr_assert_eq(range_gap(&s, 64, 64 + 10 * 16, 4, 4, &at), 0);
	cr_expect_eq(at, 64 + 9 * 16 + 12, "where the last one was found");
	range_remove(&s, range_at(&s, 64 + 16 * 3));
	cr_assert_eq(range_gap(&s, 64, 64 + 10 * 16, 12, 16, &at), 0, "it starts over");
	cr_expect_eq(at, 64 + 16 * 3);
	cr_expect_eq(range_gap(&s, 0, 64, 65, 1, &at), -ENOSPC);
	cr_assert_eq(range_gap(&s, 0, 64, 64, 1, &at), 0);
	cr_expect_eq(at, 0);
	range_fini(&s);
}
