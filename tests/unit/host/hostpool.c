/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that is kept ready for what will leave. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "items.h"

static void wait_for_host(uint64_t bytes)
{
	while (counted.in_host != bytes)
		sched_yield();
}

/* The last piece has been counted a moment before it is in the pool. */
static void wait_for_pool(uint64_t bytes)
{
	const struct timespec moment = {.tv_nsec = 50000000};

	wait_for_host(bytes);
	nanosleep(&moment, NULL);
}

Test(hostpool, is_made_ahead, .timeout = 60)
{
	struct session *s = start();
	struct item it = new_item(s, LARGE, 2 * PAGE, 1);
	struct space_moved moved;

	space_host_pool_set(s->space, 3 * MIB);
	wait_for_host(3 * MIB);
	space_host_pool_set(s->space, TOTAL);
	wait_for_pool(2 * PAGE); /* no more than what could move */
	counted.no_host = true;
	cr_assert_eq(space_move_out(s->space, 1, UINT64_MAX, PLACE_MAPPED, &moved), 0);
	check_item(s, &it);
	counted.no_host = false;
	struct item more = new_item(s, LARGE, PAGE, 2);

	wait_for_host(3 * PAGE);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	space_host_pool_set(s->space, MIB);
	wait_for_host(MIB);
	check_item(s, &it);
	check_item(s, &more);
	counted_end(s);
}

/* Memory on its way out finds host memory, in the sizes that it takes. */
Test(hostpool, is_prepared, .timeout = 60)
{
	struct session *s = start();
	struct item it[3];
	struct space_moved moved;

	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		it[i] = new_item(s, LARGE, PAGE, i);
	space_move_prepare(s->space, PAGE + 1, UINT64_MAX);
	cr_assert_eq(counted.in_host, 2 * PAGE);
	counted.no_host = true;
	space_move_prepare(s->space, 3 * PAGE, UINT64_MAX); /* there is no more */
	cr_assert_eq(space_move_out(s->space, PAGE + 1, UINT64_MAX, PLACE_MAPPED, &moved),
		     0);
	cr_assert_eq(moved.bytes, 2 * PAGE);
	cr_assert_eq(counted.in_host, 2 * PAGE);
	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		check_item(s, &it[i]);
	counted_end(s);
}

/* Some of each size, not all that is wanted of one. */
Test(hostpool, in_proportion, .timeout = 60)
{
	struct session *s = start();
	struct item it[4];
	struct space_moved moved;

	cr_assert_eq(space_set_piece(s->space, 2 * PAGE), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		it[i] = new_item(s, LARGE, 3 * PAGE, i);
	space_host_pool_set(s->space, 6 * PAGE);
	wait_for_pool(6 * PAGE);
	counted.no_host = true;
	cr_assert_eq(space_move_out(s->space, 6 * PAGE, UINT64_MAX, PLACE_MAPPED, &moved),
		     0);
	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		check_item(s, &it[i]);
	counted_end(s);
}

/* While others need the driver, nothing is made ahead; nor for a move at once, while
 * somebody maps what it was granted. */
Test(hostpool, waits_for_others, .timeout = 60)
{
	struct session *s = start();
	const struct timespec pause = {.tv_nsec = 5000000};
	struct item it = new_item(s, LARGE, 2 * PAGE, 1);
	uint64_t until = clock_now_ns() + 5 * NSEC_PER_MSEC;

	atomic_store(&s->count->mapping_until_ns, until);
	space_move_prepare(s->space, 2 * PAGE, UINT64_MAX);
	cr_assert_geq(clock_now_ns(), until);
	cr_assert_eq(counted.in_host, 2 * PAGE);
	atomic_store(&s->count->mapping_until_ns, UINT64_MAX); /* not for ever */
	space_move_prepare(s->space, 3 * PAGE, UINT64_MAX);
	atomic_store(&s->count->host_pause_ns, UINT64_MAX);
	space_host_pool_set(s->space, 3 * MIB);
	nanosleep(&pause, NULL);
	cr_assert_leq(counted.in_host, 2 * PAGE + PIECE);
	atomic_store(&s->count->host_pause_ns, 0);
	wait_for_host(3 * MIB);
	check_item(s, &it);
	counted_end(s);
}

/* A session may end while the pool waits, whatever it waits for. */
Test(hostpool, ends_in_a_pause, .timeout = 20)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	for (unsigned i = 0; i < 2; i++) {
		struct session *s = start();
		struct item it = new_item(s, LARGE, 2 * PAGE, 1);

		space_host_pool_set(s->space, 2 * PAGE);
		if (i)
			wait_for_host(2 * PAGE);
		atomic_store(&s->count->host_pause_ns, UINT64_MAX);
		space_host_pool_set(s->space, PAGE);
		nanosleep(&pause, NULL);
		check_item(s, &it);
		counted_end(s);
	}
}

/* Contents of what has come back stay in host memory, as much of them as weftd says. */
Test(hostpool, keeps_as_much_as_it_may, .timeout = 60)
{
	struct session *s = start();
	struct space_moved moved;
	struct item it;

	cr_assert_eq(space_set_piece(s->space, MIB), 0);
	space_set_turns(s->space);
	it = new_item(s, ARENA, 8 * MIB, 4);
	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(atomic_load(&s->count->kept_bytes), 0);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	cr_assert_eq(atomic_load(&s->count->kept_bytes), 8 * MIB);
	cr_assert_eq(counted.in_host, 8 * MIB);
	atomic_store(&s->count->host_keep_bytes, 3 * MIB);
	wait_for_pool(3 * MIB); /* long before it would give all of it back */
	cr_assert_eq(atomic_load(&s->count->kept_bytes), 3 * MIB);
	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(moved.unchanged, 3 * MIB);
	cr_assert_eq(atomic_load(&s->count->kept_bytes), 0);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	wait_for_pool(3 * MIB);
	check_item(s, &it);
	counted_end(s);
}
