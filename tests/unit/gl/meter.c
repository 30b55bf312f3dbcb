/* SPDX-License-Identifier: Apache-2.0 */
/* A session of graphics says when it is busy, and waits while it is held. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "base/clock.h"
#include "gl/meter.h"

static struct worker_page page;
static struct meter m;
static unsigned told; /* that computing has changed */

int msg_send(int sock, const struct msg *msg, int fd0, int fd1)
{
	(void)sock;
	(void)fd0;
	(void)fd1;
	cr_assert_eq(msg->type, MSG_COMPUTES);
	told++;
	return 0;
}

static void begin(void)
{
	cr_assert_eq(meter_init(&m, &page), 0);
}

static void draw(void)
{
	meter_begin(&m);
	usleep(1000);
	meter_end(&m);
}

/* As if so much time had passed since the last look and tick. */
static int later(uint64_t ns)
{
	m.looked_at_ns -= ns;
	m.ticked_at_ns -= ns;
	return meter_look(&m);
}

Test(gl_meter, time_of_commands_and_fences, .init = begin)
{
	uint64_t was;
	uint32_t fence;

	cr_assert_eq(meter_look(&m), -1, "nothing to look at");
	draw();
	cr_assert(m.busy_ns >= NSEC_PER_MSEC && !m.since_ns);
	meter_begin(&m);
	fence = meter_fence(&m);
	meter_end(&m);
	was = m.busy_ns;
	usleep(1000);
	cr_assert(meter_busy(&m, 0) && meter_busy(&m, 1));
	meter_fence_done(&m, fence);
	cr_assert(!meter_busy(&m, 0) && !meter_busy(&m, 1000));
	cr_assert(m.busy_ns >= was + NSEC_PER_MSEC && !m.since_ns);
	cr_assert(later(NSEC_PER_SEC) >= 0);
	cr_assert_eq(page.busy_ns, m.busy_ns);
	cr_assert(page.busy_permille > 0 && page.looks == 1 && !page.pending);
}

Test(gl_meter, fences_go_round, .init = begin)
{
	uint32_t first, second;

	m.fences = m.done = UINT32_MAX - 1;
	first = meter_fence(&m);
	second = meter_fence(&m);
	cr_assert(first == UINT32_MAX && second == 0);
	meter_fence_done(&m, first);
	cr_assert(meter_busy(&m, 0));
	meter_fence_done(&m, second);
	meter_fence_done(&m, first);
	cr_assert(!meter_busy(&m, 0));
}

/* Work that never ends is known by its fence, however many follow. */
Test(gl_meter, since_when_a_fence_is_waited_for, .init = begin)
{
	uint32_t first, second;
	uint64_t since;

	cr_assert_eq(meter_waits_since(&m), 0);
	first = meter_fence(&m);
	since = meter_waits_since(&m);
	cr_assert(since && since <= clock_now_ns());
	second = meter_fence(&m);
	cr_assert_eq(meter_waits_since(&m), since);
	usleep(1000);
	meter_fence_done(&m, first);
	cr_assert_gt(meter_waits_since(&m), since, "the second's time begins");
	since = meter_waits_since(&m);
	meter_fence_done(&m, first);
	cr_assert_eq(meter_waits_since(&m), since);
	meter_fence_done(&m, second);
	cr_assert_eq(meter_waits_since(&m), 0);
}

Test(gl_meter, work_that_waits_or_runs_is_seen, .init = begin)
{
	uint32_t fence;

	draw();
	cr_assert(told == 1 && page.computing);
	fence = meter_fence(&m);
	later(NSEC_PER_SEC);
	cr_assert(page.pending == PAGE_KERNELS && page.looks_pending == 1);
	meter_fence_done(&m, fence);
	for (int i = 0; i < 10; i++)
		(void)later(NSEC_PER_SEC);
	cr_assert(told == 2 && !page.computing && !page.pending);
	cr_assert_eq(meter_look(&m), -1);
	draw();
	cr_assert(told == 3 && page.computing && meter_look(&m) >= 0);
}

static void *drawer(void *arg)
{
	(void)arg;
	draw();
	return NULL;
}

Test(gl_meter, who_is_held_waits, .init = begin)
{
	struct msg_pace pace = {.held_until_ns = clock_now_ns() + 3600 * NSEC_PER_SEC};
	pthread_t t;

	meter_pace(&m, &pace);
	cr_assert_eq(pthread_create(&t, NULL, drawer, NULL), 0);
	while (!atomic_load(&page.waiting))
		usleep(1000);
	for (int i = 0; i < 10; i++)
		(void)later(NSEC_PER_SEC);
	cr_assert(page.computing && !page.pending, "work waits");
	pace.held_until_ns = 0;
	meter_pace(&m, &pace);
	pthread_join(t, NULL);
	cr_assert(!page.waiting && m.busy_ns >= NSEC_PER_MSEC);
	/* A time that has passed holds nobody. */
	pace.held_until_ns = clock_now_ns() - 1;
	meter_pace(&m, &pace);
	draw();
}
