/* SPDX-License-Identifier: Apache-2.0 */
/* The device's time that sessions are charged. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "base/macros.h"
#include "broker/compute/pace.h"
#include "pace.h"

/* Two with work have their parts, by slices; of one all. */
Test(pace, time_is_counted)
{
	works(0, true);
	works(1, true);
	workers[1].slice_us = 3000;
	pace_due(&b);
	for (unsigned i = 0; i < 41; i++)
		now = pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 500 * MS);
	cr_assert_eq(tenants[1].pace.used_ns, 1500 * MS);
	cr_assert_eq(workers[1].used_time_ns, 1500 * MS);
	cr_assert_eq(tenants[0].pace.stalled_ns, 1500 * MS);
	cr_assert_eq(workers[1].stalled_ns, 500 * MS);
	works(1, false);
	for (unsigned i = 0; i < 20; i++)
		now = pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 1500 * MS);
	cr_assert_eq(tenants[0].pace.stalled_ns, 1500 * MS);
	cr_assert_eq(tenants[1].pace.stalled_ns, 500 * MS);
	pages[0].computing = pages[1].computing = 0;
	cr_assert_eq(pace_tick(&b, now), UINT64_MAX);
	now += NSEC_PER_SEC;
	pace_due(&b);
	(void)pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 1500 * MS);
}

/* To go on to the next session costs the device time, which is nobody's. */
Test(pace, going_round_is_not_charged)
{
	b.pace.load_us = 24;
	b.pace.switch_us = 156;
	workers[0].slice_us = workers[1].slice_us = 2024;
	works(0, true);
	works(1, true);
	pace_due(&b);
	for (unsigned i = 0; i < 41; i++)
		now = pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 40 * (50 * MS * 2000 / 4360));
	works(1, false);
	for (unsigned i = 0; i < 20; i++)
		now = pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 40 * (50 * MS * 2000 / 4360) + 1000 * MS);
}

/* Where the device tells how long each had it, that is charged, whatever the slices: kernels
 * may end before them, be waited for, or not be seen at the moment of a look. */
Test(pace, what_the_device_tells_is_charged)
{
	works(0, true);
	works(1, true);
	works(2, false);
	pages[0].had_ns = pages[1].had_ns = pages[2].had_ns = 1;
	pace_due(&b);
	(void)pace_tick(&b, now);
	run_told(100, (uint64_t[N]){700, 200, 50});
	cr_assert_eq(tenants[0].pace.used_ns, 70 * MS);
	cr_assert_eq(tenants[1].pace.used_ns, 20 * MS);
	cr_assert_eq(tenants[2].pace.used_ns, 5 * MS);
	cr_assert_eq(workers[0].stalled_ns, 30 * MS);
	cr_assert_eq(workers[1].stalled_ns, 80 * MS);
	pages[1].had_ns += 700 * MS;
	run_told(1, (uint64_t[N]){0});
	cr_assert_leq(tenants[1].pace.used_ns, 220 * MS, "no more than can have been");
}

/* With nothing to do a session keeps the device while nobody else wants it. */
Test(pace, keeping_an_idle_device_is_not_charged)
{
	works(0, true);
	works(1, false);
	pages[0].had_ns = pages[1].had_ns = 1;
	pace_due(&b);
	(void)pace_tick(&b, now);
	works(0, false);
	run_told(1, (uint64_t[N]){1000});
	run_told(99, (uint64_t[N]){1000});
	cr_assert_leq(tenants[0].pace.used_ns, 1 * MS);
	works(0, true);
	run_told(100, (uint64_t[N]){1000});
	cr_assert(tenants[0].pace.used_ns >= 100 * MS &&
		  tenants[0].pace.used_ns <= 101 * MS);
}

/* Nobody is charged for what was before weftd looked, or for what a device says that begins
 * anew. */
Test(pace, a_device_begins_to_tell)
{
	works(0, true);
	works(1, true);
	pace_due(&b);
	(void)pace_tick(&b, now);
	pages[0].had_ns = 900 * MS;
	run_told(1, (uint64_t[N]){1000});
	cr_assert_eq(tenants[0].pace.used_ns, MS / 2, "by slices");
	run_told(10, (uint64_t[N]){100});
	cr_assert_eq(tenants[0].pace.used_ns, MS / 2 + MS);
	pages[0].had_ns = 5;
	run_told(1, (uint64_t[N]){0});
	cr_assert_eq(tenants[0].pace.used_ns, 2 * MS, "by slices again");
	run_told(1, (uint64_t[N]){100});
	cr_assert_eq(tenants[0].pace.used_ns, 2 * MS + MS / 10);
}

/* A worker that its driver keeps for long tells afterwards what it had meanwhile, of which the clock
 * was charged. */
Test(pace, what_is_told_late_is_charged_once)
{
	uint64_t begin = now;

	cap(0, 90000, 100000);
	works(0, true);
	pages[0].had_ns = 1;
	pace_due(&b);
	(void)pace_tick(&b, now);
	run_told(80, (uint64_t[N]){1000});
	run_told(15, (uint64_t[N]){0});
	cr_assert(tenants[0].pace.preempt, "what is exact is charged from now on");
	pages[0].had_ns += 15 * MS;
	run_told(1, (uint64_t[N]){1000});
	cr_assert_eq(tenants[0].pace.used_ns, now - begin);
	run_told(1, (uint64_t[N]){1000});
	cr_assert_eq(tenants[0].pace.used_ns, now - begin);
}

/* Copies have engines of their own. */
Test(pace, copies_do_not_share_with_kernels)
{
	works(0, true);
	works(1, true);
	works(2, true);
	pages[1].pending = pages[2].pending = PAGE_COPIES;
	pace_due(&b);
	for (unsigned i = 0; i < 21; i++)
		now = pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 1000 * MS);
	cr_assert_eq(tenants[1].pace.used_ns, 500 * MS);
	cr_assert_eq(tenants[2].pace.used_ns, 500 * MS);
}

/* A driver takes its time to take back what a program had, which does nothing any more. */
Test(pace, who_ends_is_not_charged)
{
	works(0, true);
	works(1, true);
	workers[1].ending_ns = now;
	pace_due(&b);
	for (unsigned i = 0; i < 21; i++)
		now = pace_tick(&b, now);
	cr_assert_eq(tenants[0].pace.used_ns, 1000 * MS);
	cr_assert_eq(tenants[1].pace.used_ns, 0);
}

static _Atomic bool stop;

static void *flicker(void *arg)
{
	while (!atomic_load(&stop)) {
		for (unsigned i = 0; i < N; i++)
			atomic_fetch_xor(&pages[i].pending, PAGE_KERNELS);
	}
	return arg;
}

/* Workers begin and end to have work while it is looked. */
Test(pace, nobody_has_more_time_than_went_by)
{
	uint64_t begin = now, sum = 0;
	pthread_t t;

	cap(0, 25000, 100000);
	for (unsigned i = 0; i < N; i++)
		works(i, false);
	pace_due(&b);
	cr_assert_eq(pthread_create(&t, NULL, flicker, NULL), 0);
	for (unsigned i = 0; i < 100000; i++) {
		now += MS;
		(void)pace_tick(&b, now);
		(void)told(i % N);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(tenants); i++)
		sum += tenants[i].pace.used_ns;
	cr_assert_leq(sum, now - begin);
}
