/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's list of refusals in weftd, whatever the worker wrote there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "broker/refused.h"
#include "ipc/page.h"

static struct worker_page c;
static struct refused_list l;

static void put(uint32_t kind, const char *what, uint64_t count)
{
	struct page_refusal *r = &c.refusals[c.n_refusals++];

	snprintf(r->what, sizeof(r->what), "%s", what);
	r->kind = kind;
	r->count = count;
}

Test(refused, what_a_worker_counted_is_read)
{
	put(REFUSAL_FUNCTION, "cuOne", 3);
	put(REFUSAL_SLOT, "table[2]", 4);
	c.other_refusals = 9;
	cr_assert_eq(refused_read(&c, &l), 0);
	cr_assert_eq(l.n, 2);
	cr_expect_eq(l.others, 9);
	cr_expect_str_eq(l.of[1].what, "table[2]");
	cr_expect_eq(l.of[1].count, 4);
	refused_fini(&l);
	cr_expect_eq(l.n, 0);
}

Test(refused, garbage_in_the_page_gives_printable_text_within_bounds)
{
	struct json_object *a;

	srand(5);
	for (unsigned n = 0; n < 2000; n++) {
		for (size_t i = 0; i < sizeof(c); i++)
			((uint8_t *)&c)[i] = (uint8_t)rand();
		if (n % 2)
			for (unsigned i = 0; i < REFUSAL_MAX; i++)
				c.refusals[i].kind %= 2 * REFUSAL_NUM;
		cr_assert_eq(refused_read(&c, &l), 0);
		cr_assert_leq(l.n, REFUSAL_MAX);
		for (unsigned i = 0; i < l.n; i++) {
			cr_assert_lt((unsigned)l.of[i].kind, REFUSAL_NUM);
			cr_assert_not_null(memchr(l.of[i].what, 0, REFUSAL_TEXT));
			for (const char *p = l.of[i].what; *p; p++)
				cr_assert(*p >= ' ' && *p <= '~');
		}
		a = refused_describe(&l);
		cr_assert_eq(json_object_array_length(a), l.n);
		json_object_put(a);
		refused_fini(&l);
	}
}

/* Sums of many sessions have an end too. */
Test(refused, sums_of_many_sessions_end_too)
{
	struct refused_list sum = {0};
	struct json_object *a, *first;
	char text[32];

	for (unsigned k = 0; k < 10; k++) {
		c.n_refusals = 0;
		put(REFUSAL_TABLE, "everybody's", 2);
		for (unsigned i = 1; i < REFUSAL_MAX; i++) {
			snprintf(text, sizeof(text), "%u.%u", k, i);
			put(REFUSAL_FEATURE, text, 1);
		}
		cr_assert_eq(refused_read(&c, &l), 0);
		refused_add(&sum, &l);
		refused_fini(&l);
	}
	cr_expect_eq(sum.n, 256);
	cr_expect_eq(sum.others, 10 * (REFUSAL_MAX - 1) - 255);
	a = refused_describe(&sum);
	first = json_object_array_get_idx(a, 0);
	cr_expect_str_eq(json_object_get_string(json_object_object_get(first, "what")),
			 "everybody's");
	cr_expect_eq(json_object_get_uint64(json_object_object_get(first, "count")), 20);
	json_object_put(a);
	refused_fini(&sum);
}
