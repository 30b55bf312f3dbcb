/* SPDX-License-Identifier: Apache-2.0 */
/* The gate by itself: who is inside, and that everybody always gets on. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/clock.h"
#include "session/gate.h"

#define LANES 6
/* For what must succeed; no test waits so long. */
#define LONG_NS  (100 * NSEC_PER_SEC)
#define SHORT_NS (2 * NSEC_PER_MSEC)

static struct gate g;
static struct gate_lane lanes[LANES];

/* A device: quiet once it has been let go. */
static struct {
	_Atomic bool busy;
	_Atomic unsigned asked;
	bool held; /* under the gate's lock */
	bool freezes, frozen, stops, preempts, preempted;
	_Atomic uint64_t takes_ns;
	sem_t done;
} device;

static void catch_up(void *arg)
{
	cr_assert_eq(arg, &device);
	uint64_t until = clock_now_ns() + atomic_load(&device.takes_ns);

	while (clock_now_ns() < until)
		sched_yield();
	atomic_fetch_add(&device.asked, 1);
	if (atomic_load(&device.busy))
		sem_wait(&device.done);
}

static bool quiet(void *arg)
{
	catch_up(arg);
	return device.stops;
}

static void hold(void *arg)
{
	cr_assert(arg == &device && !device.held);
	device.held = true;
}

static void go_on(void *arg)
{
	cr_assert(arg == &device && device.held);
	device.held = false;
}

static bool freeze(void *arg)
{
	cr_assert(arg == &device && !device.frozen);
	device.frozen = device.freezes;
	return device.frozen;
}

static void thaw(void *arg)
{
	cr_assert(arg == &device && device.frozen);
	device.frozen = false;
}

static bool preempt(void *arg, bool on)
{
	cr_assert(arg == &device && on != device.preempted);
	device.preempted = on && device.preempts;
	return device.preempted;
}

/* Commands behind the one in hand, and how often that was asked. */
static struct {
	_Atomic unsigned behind, asked;
	_Atomic bool more;
} ring;

static enum lane_behind behind(void *arg, const struct gate_lane *l)
{
	cr_assert(arg == &device && l == &lanes[0] && !l->inside);
	atomic_fetch_add(&ring.asked, 1);
	return atomic_load(&ring.behind);
}

static bool has_more(void *arg, const struct gate_lane *l)
{
	return atomic_load(&ring.more);
}

static const struct gate_ops asked = {quiet, catch_up, hold,   go_on,   freeze,
				      thaw,  preempt,  behind, has_more};

static void setup(void)
{
	sem_init(&device.done, 0, 0);
	gate_init(&g, &asked, &device);
	for (unsigned i = 0; i < LANES; i++)
		gate_lane_add(&g, &lanes[i]);
}

static void teardown(void)
{
	for (unsigned i = 0; i < LANES; i++)
		gate_lane_remove(&g, &lanes[i]);
	gate_fini(&g);
	sem_destroy(&device.done);
}

TestSuite(gate, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t in(uint64_t ns)
{
	return clock_now_ns() + ns;
}

static void lane_waits(void)
{
	while (!gate_wanted(&g))
		sched_yield();
}

/* ---- lanes on threads ---- */

static struct {
	uint64_t submitted; /* by this lane, while inside */
	char pad[64];
} work[LANES];
static _Atomic bool stop;

static void *lane_main(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg, seed = i;

	while (!atomic_load(&stop)) {
		if (gate_enter(&g, &lanes[i]) < 0)
			return NULL;
		work[i].submitted++;
		gate_leave(&lanes[i]);
		if (rand_r(&seed) % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void start(pthread_t *t)
{
	for (unsigned i = 0; i < LANES; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, lane_main, (void *)(uintptr_t)i),
			     0);
}

static void finish(pthread_t *t)
{
	atomic_store(&stop, true);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(t[i], NULL);
}

/* While it is closed everybody's work is the closer's: ThreadSanitizer sees to it. */
Test(gate, nobody_is_inside_while_it_is_closed)
{
	uint64_t seen[LANES], all = 0;
	pthread_t t[LANES];
	unsigned seed = 99;

	start(t);
	for (unsigned n = 0; n < 400; n++) {
		cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
		for (unsigned i = 0; i < LANES; i++)
			seen[i] = work[i].submitted;
		for (unsigned k = rand_r(&seed) % 50; k; k--)
			sched_yield();
		for (unsigned i = 0; i < LANES; i++) {
			cr_assert_eq(work[i].submitted, seen[i]);
			work[i].submitted = 0;
			all += seen[i];
		}
		gate_open(&g);
	}
	finish(t);
	cr_assert_gt(all, 0);
	cr_assert_eq(device.asked, 400);
}

Test(gate, without_a_barrier_of_the_kernel)
{
	pthread_t t[LANES];

	g.barrier = false;
	atomic_store(&g.shut, true);
	start(t);
	for (unsigned n = 0; n < 200; n++) {
		cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
		for (unsigned i = 0; i < LANES; i++)
			work[i].submitted++;
		gate_open(&g);
	}
	finish(t);
}

/* However often it is closed, who waits comes in before it is closed again. */
Test(gate, who_waits_gets_on)
{
	pthread_t t[LANES];
	uint64_t seen;

	for (unsigned i = 1; i < LANES; i++)
		gate_lane_remove(&g, &lanes[i]);
	cr_assert_eq(pthread_create(&t[0], NULL, lane_main, NULL), 0);
	for (unsigned n = 0; n < 200; n++) {
		cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
		seen = work[0].submitted;
		lane_waits();
		gate_open(&g);
		cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
		cr_assert_gt(work[0].submitted, seen);
		gate_open(&g);
	}
	atomic_store(&stop, true);
	pthread_join(t[0], NULL);
	for (unsigned i = 1; i < LANES; i++)
		gate_lane_add(&g, &lanes[i]);
}

/* ---- giving up ---- */

Test(gate, opens_again_when_the_device_takes_too_long)
{
	pthread_t t[LANES];
	uint64_t seen;

	atomic_store(&device.busy, true);
	cr_assert_eq(gate_close(&g, in(SHORT_NS)), -EBUSY);
	while (!atomic_load(&device.asked)) /* what asks may be late */
		sched_yield();
	cr_assert_eq(gate_enter(&g, &lanes[0]), 0);
	gate_leave(&lanes[0]);
	/* the first question is still open */
	cr_assert_eq(gate_close(&g, in(SHORT_NS)), -EBUSY);
	start(t);
	cr_assert_eq(gate_close(&g, in(SHORT_NS)), -EBUSY);
	atomic_store(&device.busy, false);
	sem_post(&device.done);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	cr_assert_geq(device.asked, 2, "what was submitted meanwhile is waited for");
	seen = work[0].submitted;
	gate_open(&g);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	cr_assert_geq(work[0].submitted, seen);
	gate_open(&g);
	finish(t);
}

Test(gate, opens_again_when_a_lane_stays)
{
	cr_assert_eq(gate_enter(&g, &lanes[3]), 0);
	cr_assert_eq(gate_close(&g, in(SHORT_NS)), -EBUSY);
	cr_assert_eq(device.asked, 0, "nobody asks a device that gets more work");
	gate_leave(&lanes[3]);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	cr_assert_eq(gate_close(&g, 0), 0, "closed already");
	gate_open(&g);
	gate_open(&g);
	cr_assert_eq(gate_enter(&g, &lanes[3]), 0);
	gate_leave(&lanes[3]);
}

/* A patient closer keeps lanes out meanwhile. */
Test(gate, goes_on_closing)
{
	pthread_t t[LANES];
	uint64_t seen;

	atomic_store(&device.busy, true);
	start(t);
	/* until all lanes are out */
	while (!atomic_load(&device.asked))
		cr_assert_eq(gate_close_begin(&g, in(SHORT_NS)), -EBUSY);
	seen = work[0].submitted;
	cr_assert_eq(gate_close_begin(&g, in(SHORT_NS)), -EBUSY);
	atomic_store(&device.busy, false);
	sem_post(&device.done);
	cr_assert_eq(gate_close_begin(&g, in(LONG_NS)), 0);
	cr_assert_eq(work[0].submitted, seen, "nobody came in");
	gate_open(&g);
	gate_close_begin(&g, in(SHORT_NS));
	gate_open(&g);
	finish(t);
}

/* Work is left, but none runs. */
Test(gate, tells_what_was_stopped)
{
	for (int i = 0; i < 4; i++) {
		device.stops = i % 2;
		cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
		cr_assert_eq(gate_is_still(&g), device.stops);
		cr_assert_eq(gate_wanted_now(&g), device.stops, "it wants to go on");
		cr_assert(!gate_is_frozen(&g));
		gate_open(&g);
		cr_assert(!gate_is_still(&g) && !gate_wanted(&g));
	}
}

/* Once the device has taken too long, or at once. */
Test(gate, closes_over_work_that_stands_still)
{
	atomic_store(&device.busy, true);
	device.freezes = true;
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			cr_assert_eq(gate_close_begin(&g, in(SHORT_NS)), -EBUSY);
		cr_assert_eq(gate_freeze(&g, in(LONG_NS)), 0);
		cr_assert(device.frozen && g.state == GATE_CLOSED);
		cr_assert(gate_is_frozen(&g) && gate_wanted_now(&g), "it wants to go on");
		cr_assert(gate_is_still(&g));
		cr_assert_eq(gate_freeze(&g, 0), 0, "it is closed");
		gate_open(&g);
		cr_assert(!device.frozen && !device.held);
		cr_assert(!gate_is_frozen(&g) && !gate_wanted(&g));
	}
	cr_assert_eq(gate_enter(&g, &lanes[0]), 0);
	cr_assert_eq(gate_freeze(&g, in(SHORT_NS)), -EBUSY, "a lane is inside");
	cr_assert(!device.frozen && g.state == GATE_CLOSING);
	gate_leave(&lanes[0]);
	device.freezes = false;
	cr_assert_eq(gate_freeze(&g, in(LONG_NS)), -EBUSY);
	cr_assert_eq(g.state, GATE_CLOSING);
	gate_open(&g);
	gate_end(&g);
	device.freezes = true;
	cr_assert_eq(gate_freeze(&g, in(LONG_NS)), -EPIPE);
	cr_assert(!device.frozen);
	sem_post(&device.done);
}

/* Memory may move by what computes while the gate is not open; and what is quiet has nothing that
 * could go on. */
Test(gate, is_preempted_while_it_is_open)
{
	cr_assert(!gate_preempt(&g, true), "the device cannot");
	cr_assert(!gate_preempt(&g, false));
	device.preempts = device.freezes = true;
	cr_assert(gate_preempt(&g, true) && device.preempted);
	cr_assert(gate_preempt(&g, true), "it is");
	cr_assert(gate_wanted(&g) && !gate_is_frozen(&g), "it wants to go on");
	cr_assert_eq(gate_freeze(&g, in(LONG_NS)), 0);
	cr_assert(device.preempted && device.frozen, "memory moves, and it stays off");
	gate_open(&g);
	cr_assert(device.preempted && !device.frozen);
	/* A busy machine takes longer to see that nothing runs. */
	while (gate_close(&g, in(LONG_NS)) == -EBUSY)
		;
	cr_assert(!device.preempted && !gate_preempt(&g, true), "the device is quiet");
	gate_open(&g);
	cr_assert(!gate_wanted(&g));
	cr_assert(gate_preempt(&g, true) && !gate_preempt(&g, false));
	cr_assert(!device.preempted);
	cr_assert(gate_preempt(&g, true));
	gate_end(&g);
	cr_assert(!device.preempted && !gate_preempt(&g, true), "it has ended");
}

/* Kernels that are off do not end: they can only stand still. */
Test(gate, what_is_off_is_not_waited_for)
{
	uint64_t begin = clock_now_ns();
	unsigned n;

	device.preempts = device.freezes = true;
	gate_bound(&g, true, NULL);
	n = g.size.n;
	atomic_store(&device.busy, true);
	cr_assert(gate_preempt(&g, true));
	cr_assert_eq(gate_close_begin(&g, in(LONG_NS)), -EBUSY);
	cr_assert_lt(clock_now_ns(), begin + LONG_NS / 2);
	cr_assert_eq(g.size.n, n, "less would take as long");
	cr_assert_eq(gate_freeze(&g, in(LONG_NS)), 0);
	gate_open(&g);
	cr_assert(device.preempted);
	atomic_store(&device.busy, false);
	sem_post(&device.done);
	gate_end(&g);
}

Test(gate, a_deadline_that_is_over)
{
	cr_assert_eq(gate_enter(&g, &lanes[0]), 0);
	cr_assert_eq(gate_close(&g, 0), -EBUSY);
	gate_leave(&lanes[0]);
	atomic_store(&device.busy, true);
	cr_assert_eq(gate_close(&g, 0), -EBUSY);
	sem_post(&device.done);
}

/* ---- who waits, and the end ---- */

static void count(void *arg)
{
	++*(unsigned *)arg;
}

Test(gate, says_that_a_lane_wants_in)
{
	unsigned n = 0;
	pthread_t t;

	gate_on_wanted(&g, count, &n);
	cr_assert_eq(gate_enter(&g, &lanes[0]), 0);
	gate_leave(&lanes[0]);
	cr_assert(n == 0 && !gate_wanted(&g));
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	cr_assert(!gate_wanted(&g));
	cr_assert_eq(pthread_create(&t, NULL, lane_main, NULL), 0);
	lane_waits();
	cr_assert_eq(n, 1);
	atomic_store(&stop, true);
	gate_open(&g);
	pthread_join(t, NULL);
	cr_assert_eq(work[0].submitted, 1);
}

Test(gate, its_end_lets_everybody_go)
{
	pthread_t t[LANES];

	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	start(t);
	lane_waits();
	gate_end(&g);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(t[i], NULL);
	cr_assert_eq(gate_enter(&g, &lanes[0]), -EPIPE);
	gate_open(&g);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), -EPIPE);
	cr_assert_eq(gate_enter(&g, &lanes[0]), 0,
		     "what is left to do is nobody's matter");
	gate_leave(&lanes[0]);
}

static void *end_soon(void *arg)
{
	while (!atomic_load(&device.asked))
		sched_yield();
	gate_end(&g);
	return NULL;
}

Test(gate, ends_while_the_device_is_waited_for)
{
	pthread_t t;

	atomic_store(&device.busy, true);
	cr_assert_eq(pthread_create(&t, NULL, end_soon, NULL), 0);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), -EPIPE);
	pthread_join(t, NULL);
	sem_post(&device.done);
}

/* ---- held and bound ---- */

static void *enter_once(void *arg)
{
	uint64_t *ret_ns = arg;

	cr_assert_eq(gate_enter(&g, &lanes[0]), 0);
	*ret_ns = clock_now_ns();
	gate_leave(&lanes[0]);
	return NULL;
}

Test(gate, who_is_held_goes_on_by_itself)
{
	uint64_t until = in(20 * NSEC_PER_MSEC), entered;

	gate_hold(&g, until);
	enter_once(&entered);
	cr_assert_geq(entered, until);
	enter_once(&entered);
	cr_assert(!atomic_load(&g.shut), "costs nothing any more");
}

Test(gate, who_is_held_is_let_go)
{
	uint64_t entered;
	pthread_t t;

	gate_hold(&g, in(LONG_NS));
	cr_assert_eq(pthread_create(&t, NULL, enter_once, &entered), 0);
	lane_waits();
	gate_hold(&g, 0);
	pthread_join(t, NULL);
}

/* Memory moves while a session is held, and nobody is let in for that. */
static void count_wanted(void *arg)
{
	++*(unsigned *)arg;
}

/* Nobody is told of a lane that is held, before it is not any more. */
Test(gate, who_is_held_wants_in_later)
{
	unsigned n = 0;
	uint64_t entered;
	pthread_t t;

	gate_on_wanted(&g, count_wanted, &n);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	gate_hold(&g, in(LONG_NS));
	cr_assert_eq(pthread_create(&t, NULL, enter_once, &entered), 0);
	lane_waits();
	cr_assert_not(gate_wanted_now(&g));
	cr_assert_eq(n, 0);
	gate_hold(&g, 0);
	cr_assert(gate_wanted_now(&g));
	cr_assert_eq(n, 1);
	gate_hold(&g, in(5 * NSEC_PER_MSEC));
	while (!gate_wanted_now(&g))
		sched_yield();
	cr_assert_eq(n, 2, "by itself");
	gate_open(&g);
	pthread_join(t, NULL);
}

Test(gate, closes_while_lanes_are_held)
{
	uint64_t entered = 0, until;
	pthread_t t;

	gate_hold(&g, in(LONG_NS));
	cr_assert_eq(pthread_create(&t, NULL, enter_once, &entered), 0);
	lane_waits();
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
		gate_open(&g);
	}
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	until = in(5 * NSEC_PER_MSEC);
	gate_hold(&g, until);
	while (clock_now_ns() < until + 5 * NSEC_PER_MSEC)
		sched_yield();
	cr_assert_eq(entered, 0, "it is closed");
	gate_open(&g);
	pthread_join(t, NULL);
	cr_assert_geq(entered, until);
}

static unsigned n_comes;

static void comes(void *arg)
{
	cr_assert_eq(arg, &device);
	n_comes++;
}

/* Commands of a portion; the device's thread decides. */
static unsigned portion_size(void)
{
	unsigned n;

	pthread_mutex_lock(&g.lock);
	n = g.size.n;
	pthread_mutex_unlock(&g.lock);
	return n;
}

/* The device is asked for each portion, and has two of them at most. */
Test(gate, little_is_queued_while_it_is_bound)
{
	uint64_t entered, begin;
	unsigned asked, n;

	gate_bound(&g, true, comes);
	atomic_store(&device.takes_ns, 3 * PORTION_NS);
	begin = clock_now_ns();
	for (n = 0; n < 4 * PORTION_FIRST + 1; n++)
		enter_once(&entered);
	cr_assert_geq(clock_now_ns(), begin + 3 * 3 * PORTION_NS);
	cr_assert_eq(n_comes, n);
	/* A device that is quick. */
	atomic_store(&device.takes_ns, 0);
	while (portion_size() < 64)
		enter_once(&entered);
	/* Seen to be quiet: nothing is counted. */
	asked = device.asked;
	for (n = 0; n < 1000; n++) {
		gate_is_drained(&g);
		enter_once(&entered);
	}
	cr_assert_leq(device.asked, asked + 1);
	gate_bound(&g, false, NULL);
	enter_once(&entered);
	cr_assert(!atomic_load(&g.shut));
}

/* Work on the device may wait for what a lane is about to bring. */
Test(gate, who_is_bound_does_not_wait_for_ever)
{
	uint64_t begin = clock_now_ns(), entered;
	unsigned n;

	atomic_store(&device.busy, true);
	gate_bound(&g, true, NULL);
	for (n = 0; n < 2 * PORTION_FIRST + 1; n++)
		enter_once(&entered);
	cr_assert_geq(clock_now_ns(), begin + GATE_DRAIN_NS);
	atomic_store(&device.busy, false);
	sem_post(&device.done);
}

static void enter_many(unsigned n)
{
	uint64_t entered;

	while (n--)
		enter_once(&entered);
}

/* Portions of work that takes long: the more often it was not quiet in time, the less it queues,
 * so that it is in the end. */
Test(gate, who_does_not_get_quiet_queues_less)
{
	uint64_t begin;

	atomic_store(&device.busy, true);
	gate_bound(&g, true, NULL);
	enter_many(2 * PORTION_FIRST);
	cr_assert_eq(gate_close(&g, in(SHORT_NS)), -EBUSY);
	cr_assert_eq(gate_close(&g, in(SHORT_NS)), -EBUSY);
	cr_assert_eq(portion_size(), PORTION_FIRST / 16);
	enter_many(1); /* the one that ends the wait for what was queued before */
	begin = clock_now_ns();
	enter_many(1);
	cr_assert_geq(clock_now_ns(), begin + 3 * GATE_DRAIN_NS);
	atomic_store(&device.busy, false);
	sem_post(&device.done);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	cr_assert_eq(g.drain_ns, 2 * GATE_DRAIN_NS);
	gate_open(&g);
}

static void *enter_on(void *arg)
{
	enter_many(1);
	return NULL;
}

/* A lane waits for its portion most of the time, which is no reason to wait for it. */
Test(gate, closes_while_a_lane_waits_for_its_portion)
{
	pthread_t t;

	atomic_store(&device.busy, true);
	gate_bound(&g, true, NULL);
	g.drain_ns = LONG_NS;
	enter_many(2 * PORTION_FIRST);
	cr_assert_eq(pthread_create(&t, NULL, enter_on, NULL), 0);
	lane_waits();
	cr_assert_eq(gate_close_begin(&g, in(SHORT_NS)), -EBUSY);
	cr_assert_eq(g.state, GATE_CLOSING, "the lane is not waited for");
	atomic_store(&device.busy, false);
	sem_post(&device.done);
	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	gate_open(&g);
	pthread_join(t, NULL);
}

/* ---- gathering ---- */

static void *enters(void *arg)
{
	cr_assert_eq(gate_enter(&g, &lanes[0]), 0);
	atomic_store(&stop, true);
	gate_leave(&lanes[0]);
	return arg;
}

static void asks(unsigned times)
{
	unsigned from = atomic_load(&ring.asked);

	while (atomic_load(&ring.asked) < from + times)
		sched_yield();
}

/* A lane that has come, and more behind it. */
static pthread_t gathers(void)
{
	pthread_t t;

	gate_gather(&g, LONG_NS);
	ring.behind = LANE_POSTED;
	cr_assert_eq(pthread_create(&t, NULL, enters, NULL), 0);
	asks(20);
	cr_assert(!atomic_load(&stop));
	return t;
}

Test(gate, a_lane_gathers_until_somebody_waits_for_it)
{
	pthread_t t = gathers();

	ring.behind = LANE_CALL;
	pthread_join(t, NULL);
}

Test(gate, what_was_gathered_enters_without_a_question)
{
	gate_gather(&g, LONG_NS);
	ring.behind = LANE_CALL;
	ring.more = true;
	enters(NULL);
	cr_assert_eq(ring.asked, 1);
	enters(NULL);
	ring.more = false;
	enters(NULL);
	cr_assert_eq(ring.asked, 1, "the last one");
	enters(NULL);
	cr_assert_eq(ring.asked, 2, "the next");
}

Test(gate, a_lane_that_nothing_follows_enters)
{
	gate_gather(&g, LONG_NS);
	ring.behind = LANE_NOTHING;
	enters(NULL);
	cr_assert_gt(ring.asked, 0);
}

Test(gate, a_lane_that_is_followed_for_ever_enters)
{
	gate_gather(&g, SHORT_NS);
	ring.behind = LANE_POSTED;
	enters(NULL);
	cr_assert_gt(ring.asked, 0);
}

Test(gate, a_lane_enters_when_nothing_is_gathered_any_more)
{
	pthread_t t = gathers();

	gate_gather(&g, 0);
	pthread_join(t, NULL);
	ring.asked = 0;
	enters(NULL);
	cr_assert_eq(ring.asked, 0);
}

/* A lane that gathers is outside. */
Test(gate, it_closes_while_a_lane_gathers)
{
	pthread_t t = gathers();

	cr_assert_eq(gate_close(&g, in(LONG_NS)), 0);
	ring.behind = LANE_CALL;
	lane_waits();
	cr_assert(!atomic_load(&stop));
	gate_open(&g);
	pthread_join(t, NULL);
}
