/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that compute are told their time slices, when these have changed. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/plugin.h"
#include "broker/compute/slices.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "peer.h"
#include "policies/time.h"

#define N 3

static struct broker b;
static struct tenant tenants[N];
static struct worker workers[N];
static struct worker_page pages[N];
static int theirs[N];
static uint64_t now;

static void begin(unsigned i)
{
	struct tenant *t = &tenants[i];

	*t = (struct tenant){.b = &b, .compute = {.weight = 100}};
	list_init(&t->workers);
	list_append(&b.tenants, &t->link);
	theirs[i] = peer_open(&workers[i], t, &pages[i]);
}

static void setup(void)
{
	memset(&b, 0, sizeof(b));
	memset(pages, 0, sizeof(pages));
	cr_assert_eq(loop_new(&b.loop), 0);
	list_init(&b.tenants);
	b.time = &time_fair;
	now = NSEC_PER_SEC;
	for (unsigned i = 0; i < N; i++)
		begin(i);
}

static void teardown(void)
{
	for (unsigned i = 0; i < N; i++)
		peer_close(&workers[i], theirs[i]);
	plugin_fini(&b);
	loop_free(b.loop);
}

/* Returns what a worker was told last, or -1: nothing. */
static int64_t told(unsigned i)
{
	struct msg m;

	return peer_hears(theirs[i], MSG_SLICE, &m) ? (int64_t)m.slice.us : -1;
}

/* As told(), for how long it gathers. */
static int64_t told_to_gather(unsigned i)
{
	struct msg m;

	return peer_hears(theirs[i], MSG_SLICE, &m) ? (int64_t)m.slice.gather_us : -1;
}

/* Decides, a moment later; nothing else is to be done. */
static void decide(void)
{
	slices_due(&b);
	now += NSEC_PER_MSEC;
	cr_assert_geq(slices_tick(&b, now), now + NSEC_PER_SEC);
}

/* Goes on until weftd looks who had work, each so many per mille of the time, and how much
 * of the device. */
static void later(const unsigned *pending, const unsigned *busy)
{
	uint64_t then = slices_tick(&b, now);

	cr_assert_lt(then, UINT64_MAX);
	for (unsigned i = 0; i < 2; i++) {
		pages[i].looks += 1000;
		pages[i].looks_pending += pending[i];
		pages[i].busy_ns += (then - now) * busy[i] / 1000;
	}
	now = then;
	cr_assert_geq(slices_tick(&b, now), now + NSEC_PER_SEC);
}

static const unsigned all[2] = {1000, 1000}, halves[2] = {450, 450};

TestSuite(slices, .init = setup, .fini = teardown);

Test(slices, nothing_is_decided_before_it_is_due)
{
	pages[0].computing = pages[1].computing = 1;
	cr_assert_eq(slices_tick(&b, now), UINT64_MAX);
	cr_assert_eq(told(0), -1);
}

Test(slices, those_that_compute_are_told_once)
{
	pages[0].computing = pages[1].computing = 1;
	decide();
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_QUICK_US);
	cr_assert_eq(told(1), TIME_LOAD_US + TIME_QUICK_US);
	cr_assert_eq(told(2), -1, "it does not compute");
	decide();
	cr_assert_eq(told(0), -1, "nothing has changed");
}

Test(slices, nobody_looks_who_takes_what_while_one_computes)
{
	pages[0].computing = 1;
	decide();
	cr_assert_eq(slices_tick(&b, now), UINT64_MAX);
	pages[1].computing = 1;
	decide();
	cr_assert_lt(slices_tick(&b, now), UINT64_MAX);
	pages[0].computing = 0;
	decide();
	cr_assert_eq(slices_tick(&b, now), UINT64_MAX);
}

Test(slices, those_who_have_work_all_the_time_have_long_ones)
{
	const unsigned waits[2] = {1000, 370};

	pages[0].computing = pages[1].computing = 1;
	decide();
	later(all, halves);
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_LONG_US);
	cr_assert_eq(told(1), TIME_LOAD_US + TIME_LONG_US);
	later(waits, halves);
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_QUICK_US, "the other waits for it");
	later(all, halves);
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_LONG_US);
}

/* In long slices it has work all the time. */
Test(slices, one_that_gets_little_done_waits_for_results)
{
	const unsigned little[2] = {900, 90};
	int64_t us = -1;

	pages[0].computing = pages[1].computing = 1;
	decide();
	later(all, little);
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_LONG_US);
	for (unsigned i = 0; i < 4 && us < 0; i++) {
		later(all, little);
		us = told(0);
	}
	cr_assert_eq(us, TIME_LOAD_US + TIME_QUICK_US);
}

Test(slices, a_worker_that_notes_nothing_has_short_ones)
{
	pages[0].computing = pages[1].computing = 1;
	decide();
	told(0);
	now = slices_tick(&b, now);
	cr_assert_geq(slices_tick(&b, now), now + NSEC_PER_SEC);
	cr_assert_eq(told(0), -1);
}

Test(slices, who_comes_finds_short_ones)
{
	pages[0].computing = pages[1].computing = 1;
	decide();
	later(all, halves);
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_LONG_US);
	pages[2].computing = 1;
	decide();
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_QUICK_US);
	cr_assert_eq(told(2), TIME_LOAD_US + TIME_QUICK_US);
}

Test(slices, weights_and_priorities_change_them)
{
	pages[0].computing = pages[1].computing = 1;
	tenants[0].compute.weight = 300;
	decide();
	cr_assert_eq(told(0) - TIME_LOAD_US, TIME_QUICK_US);
	cr_assert_float_eq((double)(told(1) - TIME_LOAD_US), TIME_QUICK_US / 3.0, 1);
	tenants[1].compute.priority = 1;
	decide();
	cr_assert_eq(told(0), TIME_BELOW_US);
	cr_assert_eq(told(1), TIME_LOAD_US + TIME_QUICK_US);
	pages[1].computing = 0;
	decide();
	cr_assert_eq(told(0), TIME_LOAD_US + TIME_QUICK_US, "nobody is above it now");
}

Test(slices, not_more_than_a_thousand_times_a_second)
{
	uint64_t next;

	pages[0].computing = 1;
	decide();
	slices_due(&b);
	next = slices_tick(&b, now + 1);
	cr_assert_eq(next, now + NSEC_PER_MSEC);
	cr_assert_eq(slices_tick(&b, next), UINT64_MAX);
}

Test(slices, one_that_does_not_read_hears_of_it_later)
{
	uint64_t next;

	pages[0].computing = pages[1].computing = 1;
	do {
		tenants[0].compute.weight = tenants[0].compute.weight % 1000 + 100;
		slices_due(&b);
		now += NSEC_PER_MSEC;
		next = slices_tick(&b, now);
	} while (next > now + NSEC_PER_SEC);
	cr_assert_geq(next, now + 10 * NSEC_PER_MSEC, "weftd goes on asking");
	while (!outbox_is_read(&workers[0].out) || !outbox_is_read(&workers[1].out)) {
		told(0);
		told(1);
		cr_assert_eq(outbox_write(&workers[0].out), 0);
		cr_assert_eq(outbox_write(&workers[1].out), 0);
	}
	told(0);
	told(1);
	workers[0].slice_us = 0;
	now = next;
	cr_assert_geq(slices_tick(&b, now), now + NSEC_PER_SEC);
	cr_assert_gt(told(0), 0);
}

Test(slices, a_worker_of_the_version_before_is_left_alone)
{
	pages[0].computing = pages[1].computing = 1;
	workers[0].version = 1;
	decide();
	cr_assert_eq(told(0), -1);
	cr_assert_gt(told(1), 0);
}

Test(slices, best_effort_leaves_it_to_the_driver)
{
	pages[0].computing = 1;
	decide();
	cr_assert_gt(told(0), 0);
	b.time = &time_best_effort;
	decide();
	cr_assert_eq(told(0), 0);
}

Test(slices, who_is_in_a_hurry_gathers_while_others_compute)
{
	tenants[0].compute.priority = 1;
	pages[0].computing = 1;
	decide();
	cr_assert_eq(told_to_gather(0), 0);
	pages[1].computing = 1;
	decide();
	cr_assert_eq(told_to_gather(0), TIME_GATHER_US);
	cr_assert_eq(told_to_gather(1), 0);
	pages[1].computing = 0;
	decide();
	cr_assert_eq(told_to_gather(0), 0);
}

Test(slices, nobody_gathers_where_priorities_do_not_count)
{
	b.time = &time_equal;
	tenants[0].compute.priority = 1;
	pages[0].computing = pages[1].computing = 1;
	decide();
	cr_assert_eq(told_to_gather(0), 0);
	cr_assert_eq(told_to_gather(1), 0);
}

Test(slices, who_has_work_all_the_time_does_not_gather)
{
	const unsigned often[2] = {950, 950}, seldom[2] = {300, 950};

	tenants[0].compute.priority = 1;
	pages[0].computing = pages[1].computing = 1;
	decide();
	cr_assert_eq(told_to_gather(0), TIME_GATHER_US);
	later(often, halves);
	cr_assert_eq(told_to_gather(0), 0);
	later(seldom, halves);
	cr_assert_eq(told_to_gather(0), TIME_GATHER_US);
}

Test(slices, a_worker_of_another_age_is_not_told_to_gather)
{
	workers[0].version = 3;
	tenants[0].compute.priority = 1;
	pages[0].computing = pages[1].computing = 1;
	decide();
	cr_assert_eq(told_to_gather(0), 0);
}

/* By this policy slices are the driver's, which a new weftd takes them to be anyway. */
Test(slices, a_worker_that_another_weftd_has_told_is_told_once)
{
	b.time = &time_best_effort;
	pages[0].computing = pages[1].computing = 1;
	decide();
	cr_assert_eq(told(0), -1);
	workers[0].slice_unsure = true;
	decide();
	cr_assert_eq(told(0), 0);
	cr_assert_eq(told(1), -1);
	decide();
	cr_assert_eq(told(0), -1);
}
