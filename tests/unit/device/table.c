/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what is known of addresses: found while others are added and removed. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>

#include "device/rewrite/table.h"

#define N 5000

static struct table t;
static char keys[N], values[N];

Test(device_table, what_was_added_is_found)
{
	const void *key;
	size_t n = 0;

	cr_assert_null(table_find(&t, &keys[0]));
	cr_assert_null(table_remove(&t, &keys[0]));
	for (unsigned i = 0; i < N; i++)
		cr_assert_eq(table_add(&t, &keys[i], &values[i]), 0);
	for (unsigned i = 0; i < N; i += 3)
		cr_assert_eq(table_remove(&t, &keys[i]), &values[i]);
	for (unsigned i = 0; i < N; i++)
		cr_assert_eq(table_find(&t, &keys[i]), i % 3 ? &values[i] : NULL);
	for (size_t at = 0; table_next(&t, &at, &key);)
		n++;
	cr_assert_eq(n, N - (N + 2) / 3);
	cr_assert_eq(table_add(&t, &keys[1], &values[7]), 0);
	cr_assert_eq(table_find(&t, &keys[1]), &values[7]);
	table_fini(&t);
	cr_assert_null(table_find(&t, &keys[1]));
}

/* Keys that come and go do not make it larger without end. */
Test(device_table, removed_keys_leave_room)
{
	for (unsigned i = 0; i < 100 * N; i++) {
		const void *key = (const void *)(uintptr_t)(i + 1);

		cr_assert_eq(table_add(&t, key, &values[0]), 0);
		cr_assert_eq(table_remove(&t, key), &values[0]);
	}
	cr_assert_lt(t.used, 64);
	table_fini(&t);
}

static void *look(void *arg)
{
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < N; i++) {
			void *v = table_find(&t, &keys[i]);

			cr_assert(!v || v == &values[i]);
			cr_assert(v || i >= N / 2);
		}
	}
	return NULL;
}

Test(device_table, others_may_look_at_any_time)
{
	pthread_t thread[3];

	for (unsigned i = 0; i < N / 2; i++)
		cr_assert_eq(table_add(&t, &keys[i], &values[i]), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, look, NULL), 0);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = N / 2; i < N; i++)
			cr_assert_eq(table_add(&t, &keys[i], &values[i]), 0);
		for (unsigned i = N / 2; i < N; i++)
			cr_assert_eq(table_remove(&t, &keys[i]), &values[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	table_fini(&t);
}
