/* SPDX-License-Identifier: Apache-2.0 */
/* Credit: what a worker's threads take while weftd gives and takes back. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "base/macros.h"
#include "ipc/credit.h"

#define THREADS 3u
#define ROUNDS  200000u
#define BYTES   64u
#define HOLDS   40u /* looks for which a thread keeps what it has */

static struct credit credit;
static _Atomic uint64_t held; /* by all threads */
static _Atomic bool ends;

Test(credit, the_spare_is_given_less_taken)
{
	struct credit c = {0};

	cr_assert(!credit_take(&c, 1));
	credit_give(&c, 100);
	cr_assert_eq(credit_spare(&c), 100);
	cr_assert(!credit_take(&c, 101));
	cr_assert(credit_take(&c, 60));
	cr_assert_eq(credit_spare(&c), 40);
	credit_put(&c, 10);
	cr_assert_eq(credit_drain(&c), 50);
	cr_assert_eq(credit_drain(&c), 0);
	cr_assert_eq(atomic_load(&c.given), atomic_load(&c.taken));
	cr_assert_eq(atomic_load(&c.taken), 50, "stands there by itself");
}

/* Memory that was granted by message is put back, too: more than was ever taken. */
Test(credit, more_is_put_back_than_was_taken)
{
	struct credit c = {0};

	credit_put(&c, 30);
	cr_assert_eq(credit_spare(&c), 30);
	cr_assert(credit_take(&c, 20));
	cr_assert_eq(credit_drain(&c), 10);
	cr_assert_eq(atomic_load(&c.given), atomic_load(&c.taken));
	cr_assert(!credit_take(&c, 1));
}

Test(credit, nothing_is_taken_where_weftd_is_to_be_asked)
{
	struct credit c = {.ask = 1};

	credit_give(&c, 100);
	cr_assert(!credit_take(&c, 1));
	cr_assert_eq(credit_spare(&c), 100);
}

static void *take_and_put(void *arg)
{
	while (!atomic_load(&ends)) {
		if (!credit_take(&credit, BYTES))
			continue;
		atomic_fetch_add(&held, BYTES);
		for (unsigned i = 0; i < HOLDS; i++)
			atomic_load(&held);
		atomic_fetch_sub(&held, BYTES);
		credit_put(&credit, BYTES);
	}
	return NULL;
}

/* Gives what one thread may have, and drains it: who has it then was first. */
static void give_and_drain(uint64_t *granted)
{
	*granted += BYTES;
	credit_give(&credit, BYTES);
	*granted -= credit_drain(&credit);
	for (unsigned i = 0; i < HOLDS / 2; i++)
		cr_assert_leq(atomic_load(&held), *granted);
	*granted -= credit_drain(&credit);
}

/* However takes and drains meet, no more is held than is granted, and in the end the books
 * are even. */
Test(credit, threads_hold_no_more_than_was_granted)
{
	pthread_t t[THREADS];
	uint64_t granted = 0;

	for (unsigned i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, take_and_put,
					    (void *)(uintptr_t)(i + 1)),
			     0);
	for (unsigned i = 0; i < ROUNDS; i++)
		give_and_drain(&granted);
	atomic_store(&ends, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	granted -= credit_drain(&credit);
	cr_assert_eq(granted, 0, "all was put back");
	cr_assert_eq(atomic_load(&credit.given), 0);
	cr_assert_eq(atomic_load(&credit.taken), 0);
}
