/* SPDX-License-Identifier: Apache-2.0 */
/* When the meter looks, and at what (worker/meter.h). */
#include <criterion/criterion.h>
#include <time.h>

#include "base/clock.h"
#include "items.h"
#include "worker/meter.h"

#define HELD_NS (20 * NSEC_PER_MSEC)

static unsigned n_asked;
static bool is_off;

/* As a driver's, which may take as long as the device is to be off. */
static uint64_t busy_ns(struct device *dev, uint64_t *ret_memory_ns)
{
	*ret_memory_ns = 0;
	return ++n_asked;
}

static bool pending(struct device *dev)
{
	return true;
}

static bool preempt(struct device *dev, bool on)
{
	is_off = on;
	return on;
}

static struct session *s;
static struct device_ops ops;
static struct meter m;

/* A session whose kernels are taken off for so long. */
static void begin(uint64_t off_ns)
{
	s = start();
	ops = *s->ops;
	ops.busy_ns = busy_ns;
	ops.pending = pending;
	ops.preempt = preempt;
	s->ops = &ops;
	meter_init(&m, s);
	atomic_store(&s->active, true);
	atomic_store(&s->count->computing, 1);
	meter_begin(&m);
	atomic_fetch_add(&s->count->launches, 1);
	meter_pace(&m, &(struct msg_pace){.held_until_ns = clock_now_ns() + off_ns,
					  .look_us = 1000,
					  .preempt = 1});
	cr_assert(is_off);
}

/* Kernels go on to the moment: nothing that can wait is done before. */
Test(meter, nobody_is_asked_how_busy_it_is_while_kernels_are_off)
{
	unsigned n, n_looks = 0, n_slept = 0;
	uint64_t until;

	begin(HELD_NS);
	until = m.preempt_until_ns;
	n = n_asked;
	m.busy_at_ns -= NSEC_PER_SEC;
	while (clock_now_ns() < until) {
		const struct timespec pause = {.tv_nsec = (long)meter_look(&m)};

		cr_assert_eq(n_asked, is_off ? n : n + 1);
		n_looks++;
		n_slept += pause.tv_nsec > 0;
		nanosleep(&pause, NULL);
	}
	cr_assert(n_slept || n_looks < 8, "it looks all the time");
	meter_look(&m);
	cr_assert(!is_off);
	cr_assert_eq(n_asked, n + 1);
	counted_end(s);
}

/* A session that waits for its turn for long is seen to do nothing. */
Test(meter, what_is_off_for_long_is_measured_now_and_then)
{
	unsigned n;

	begin(10 * NSEC_PER_SEC);
	n = n_asked;
	m.busy_at_ns -= 3 * NSEC_PER_SEC;
	meter_look(&m);
	cr_assert(is_off);
	cr_assert_eq(n_asked, n + 1);
	meter_look(&m);
	cr_assert_eq(n_asked, n + 1);
	meter_pace(&m, &(struct msg_pace){0});
	cr_assert(!is_off);
	counted_end(s);
}
