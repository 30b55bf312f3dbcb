/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: clone futex membarrier nanosleep */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "session/gate.h"

/* A command is inside for some microseconds. */
#define LOOK_AGAIN_NS 20000
/* Kernels that are off do not end, and whether there are any is seen within that. */
#define OFF_NS (10 * NSEC_PER_MSEC)

static const char *const names[] = {
	[GATE_OPEN] = "open",
	[GATE_CLOSING] = "closing",
	[GATE_CLOSED] = "closed",
};
static_assert(ARRAY_SIZE(names) == GATE_NUM_STATES, "each has a name");

static const uint8_t next[] = {
	[GATE_OPEN] = 1 << GATE_CLOSING,
	[GATE_CLOSING] = 1 << GATE_CLOSED | 1 << GATE_OPEN,
	[GATE_CLOSED] = 1 << GATE_OPEN,
};
static_assert(ARRAY_SIZE(next) == GATE_NUM_STATES, "each leads somewhere");

static bool membarrier(int cmd)
{
	return !syscall(SYS_membarrier, cmd, 0, 0);
}

static void update_locked(struct gate *g)
{
	/* release: pairs with gate_enter(). */
	atomic_store_explicit(&g->shut,
			      g->state != GATE_OPEN || g->held_until_ns || g->bound ||
				      g->gather_ns || !g->barrier,
			      memory_order_release);
	pthread_cond_broadcast(&g->changed);
}

static void set_state_locked(struct gate *g, enum gate_state to)
{
	assert(next[g->state] & 1 << to);
	log_debug("gate: %s -> %s", names[g->state], names[to]);
	if (g->state == GATE_OPEN)
		g->since_ns = clock_now_ns();
	else if (to == GATE_OPEN && g->passed)
		g->passed(g->arg, NULL, g->since_ns);
	g->state = to;
	if (to == GATE_CLOSING && g->ops->closes)
		g->ops->closes(g->arg);
	if (to == GATE_OPEN) {
		if (g->frozen)
			g->ops->thaw(g->arg);
		g->has_passed = g->frozen = g->stopped = false;
		if (g->ops->opens)
			g->ops->opens(g->arg);
	}
	update_locked(g);
}

void gate_init(struct gate *g, const struct gate_ops *ops, void *arg)
{
	*g = (struct gate){.ops = ops, .arg = arg, .drain_ns = GATE_DRAIN_NS};
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
	pthread_cond_init(&g->question, NULL);
	list_init(&g->lanes);
	g->barrier = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	atomic_init(&g->shut, !g->barrier);
}

static bool preempt_locked(struct gate *g, bool on)
{
	bool may = g->state == GATE_OPEN && !g->ending;

	if (on == g->preempted || (on && !may) || !g->ops->preempt)
		return g->preempted;
	g->preempted = g->ops->preempt(g->arg, on);
	return g->preempted;
}

void gate_end(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->ending = true;
	preempt_locked(g, false);
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void gate_fini(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->stopping = true;
	pthread_cond_signal(&g->question);
	pthread_mutex_unlock(&g->lock);
	if (g->has_thread)
		pthread_join(g->thread, NULL);
	pthread_cond_destroy(&g->question);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
}

void gate_on_wanted(struct gate *g, void (*wanted)(void *arg), void *arg)
{
	pthread_mutex_lock(&g->lock);
	g->wanted = wanted;
	g->wanted_arg = arg;
	pthread_mutex_unlock(&g->lock);
}

void gate_on_passed(struct gate *g, void (*passed)(void *arg, const struct gate_lane *l,
						   uint64_t since_ns))
{
	g->passed = passed;
}

void gate_lane_add(struct gate *g, struct gate_lane *l)
{
	atomic_init(&l->inside, false);
	pthread_mutex_lock(&g->lock);
	list_append(&g->lanes, &l->link);
	pthread_mutex_unlock(&g->lock);
}

void gate_lane_remove(struct gate *g, struct gate_lane *l)
{
	pthread_mutex_lock(&g->lock);
	list_remove(&l->link);
	pthread_mutex_unlock(&g->lock);
}

/* Returns false when the deadline has come. */
static bool wait_locked(struct gate *g, uint64_t deadline_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
			      .tv_nsec = (long)(deadline_ns % NSEC_PER_SEC)};

	return !pthread_cond_clockwait(&g->changed, &g->lock, CLOCK_MONOTONIC, &ts);
}

/* ---- the device ---- */

static void portion_done_locked(struct gate *g)
{
	uint64_t now = clock_now_ns();

	if (!g->portion || g->answered < g->portion)
		return;
	g->portion = 0;
	portion_done(&g->size, g->portion_n, now - MAX(g->portion_first_ns, g->done_ns));
	g->done_ns = now;
}

static void *wait_for_device(void *arg)
{
	struct gate *g = arg;
	bool quiet, stopped = false;

	pthread_mutex_lock(&g->lock);
	while (!g->stopping) {
		uint64_t asked = g->asked;

		if (asked == g->answered) {
			pthread_cond_wait(&g->question, &g->lock);
			continue;
		}
		quiet = g->asked_quiet > g->answered;
		pthread_mutex_unlock(&g->lock);
		if (quiet)
			stopped = g->ops->quiesce(g->arg);
		else
			g->ops->catch_up(g->arg);
		pthread_mutex_lock(&g->lock);
		g->answered = asked;
		if (quiet)
			g->stopped = stopped && g->state != GATE_OPEN;
		portion_done_locked(g);
		pthread_cond_broadcast(&g->changed);
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

/* Asks whether the device has done all that was submitted. Returns the question, or 0: there
 * is nobody to ask. */
static uint64_t ask_device_locked(struct gate *g)
{
	if (!g->has_thread)
		g->has_thread = !pthread_create(&g->thread, NULL, wait_for_device, g);
	if (!g->has_thread)
		return 0;
	pthread_cond_signal(&g->question);
	return ++g->asked;
}

/* An earlier question that nobody waits for any more may have to be answered first. */
static int wait_for_device_locked(struct gate *g, uint64_t deadline_ns)
{
	uint64_t mine = ask_device_locked(g);

	if (!mine)
		return -EBUSY;
	g->asked_quiet = mine;
	while (g->answered < mine && !g->ending) {
		if (!wait_locked(g, deadline_ns))
			return -EBUSY;
	}
	return 0;
}

/* ---- held and bound ---- */

static bool is_wanted_locked(const struct gate *g)
{
	return g->waiting || g->frozen || g->stopped || g->preempted;
}

/* Says that there is who could go on if the gate were open. */
static void say_wanted_locked(struct gate *g)
{
	if (g->wanted && is_wanted_locked(g) && g->state != GATE_OPEN)
		g->wanted(g->wanted_arg);
}

static bool is_held_locked(struct gate *g)
{
	if (g->held_until_ns && clock_now_ns() >= g->held_until_ns) {
		g->held_until_ns = 0;
		update_locked(g);
		say_wanted_locked(g);
	}
	return g->held_until_ns;
}

/* Begins the next portion, once the device has done the one before. */
static void next_portion_locked(struct gate *g)
{
	uint64_t now = clock_now_ns();

	if (g->portion && now < g->portion_until_ns) {
		(void)wait_locked(g, g->portion_until_ns);
		return;
	}
	g->portion = ask_device_locked(g);
	g->portion_first_ns = g->first_ns;
	g->portion_n = g->n_entered;
	g->portion_until_ns = now + g->drain_ns;
	g->n_entered = 0;
}

/* Waits, if the lane cannot enter now. Returns whether it could have. */
static bool may_enter_locked(struct gate *g)
{
	if (is_held_locked(g))
		(void)wait_locked(g, g->held_until_ns);
	else if (g->state != GATE_OPEN)
		pthread_cond_wait(&g->changed, &g->lock);
	else if (g->bound && g->n_entered >= g->size.n)
		next_portion_locked(g);
	else
		return true;
	return false;
}

static void count_entered_locked(struct gate *g)
{
	if (!g->bound)
		return;
	if (!g->n_entered++)
		g->first_ns = clock_now_ns();
}

void gate_hold(struct gate *g, uint64_t until_ns)
{
	pthread_mutex_lock(&g->lock);
	g->held_until_ns = until_ns;
	update_locked(g);
	if (!until_ns)
		say_wanted_locked(g);
	pthread_mutex_unlock(&g->lock);
}

void gate_bound(struct gate *g, bool on, void (*comes)(void *arg))
{
	pthread_mutex_lock(&g->lock);
	if (on != g->bound) {
		g->n_entered = 0;
		g->drain_ns = GATE_DRAIN_NS;
		portion_init(&g->size);
	}
	g->bound = on;
	g->comes = comes;
	update_locked(g);
	pthread_mutex_unlock(&g->lock);
}

void gate_is_drained(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->n_entered = 0;
	pthread_mutex_unlock(&g->lock);
}

/* ---- gathering ---- */

void gate_gather(struct gate *g, uint64_t ns)
{
	pthread_mutex_lock(&g->lock);
	atomic_store(&g->gather_ns, ns);
	update_locked(g);
	pthread_mutex_unlock(&g->lock);
}

/* A program that waits does so soon: a sleep takes longer than that. */
#define GATHER_SPIN_NS  (20 * NSEC_PER_USEC)
#define GATHER_SLEEP_NS (20 * NSEC_PER_USEC)

/* Returns when there is enough, or nothing comes any more. Without the lock. */
static void gather(struct gate *g, const struct gate_lane *l)
{
	const struct timespec pause = {.tv_nsec = GATHER_SLEEP_NS};
	uint64_t begin = clock_now_ns(), now = begin, last = begin;
	enum lane_behind behind;

	while (now - begin < atomic_load(&g->gather_ns) &&
	       now - last < GATE_GATHER_QUIET_NS) {
		behind = g->ops->behind(g->arg, l);
		if (behind == LANE_CALL)
			return;
		if (now - begin < GATHER_SPIN_NS)
			cpu_relax();
		else
			nanosleep(&pause, NULL);
		now = clock_now_ns();
		if (behind == LANE_POSTED)
			last = now;
	}
}

/* ---- lanes ---- */

int gate_wait(struct gate *g, struct gate_lane *l)
{
	uint64_t since_ns = 0;
	int r;

	gate_leave(l);
	if (atomic_load(&g->gather_ns)) {
		if (!l->gathered)
			gather(g, l);
		l->gathered = g->ops->has_more(g->arg, l);
	}
	pthread_mutex_lock(&g->lock);
	if (g->state != GATE_OPEN || is_held_locked(g))
		since_ns = clock_now_ns();
	g->waiting++;
	if (g->bound && g->comes)
		g->comes(g->arg);
	if (!is_held_locked(g))
		say_wanted_locked(g);
	while (!g->ending && !may_enter_locked(g))
		;
	r = g->ending ? -EPIPE : 0;
	/* close_locked() looks later, under the lock. */
	if (r == 0) {
		atomic_store_explicit(&l->inside, true, memory_order_relaxed);
		count_entered_locked(g);
		g->has_passed = true;
	}
	if (!--g->waiting)
		pthread_cond_broadcast(&g->changed);
	if (since_ns && g->passed)
		g->passed(g->arg, l, since_ns);
	pthread_mutex_unlock(&g->lock);
	return r;
}

bool gate_wanted(struct gate *g)
{
	bool any;

	pthread_mutex_lock(&g->lock);
	any = is_wanted_locked(g);
	pthread_mutex_unlock(&g->lock);
	return any;
}

bool gate_wanted_now(struct gate *g)
{
	bool any;

	pthread_mutex_lock(&g->lock);
	any = is_wanted_locked(g) && !is_held_locked(g);
	pthread_mutex_unlock(&g->lock);
	return any;
}

bool gate_is_still(struct gate *g)
{
	bool still;

	pthread_mutex_lock(&g->lock);
	still = g->frozen || g->stopped;
	pthread_mutex_unlock(&g->lock);
	return still;
}

bool gate_is_frozen(struct gate *g)
{
	bool frozen;

	pthread_mutex_lock(&g->lock);
	frozen = g->frozen;
	pthread_mutex_unlock(&g->lock);
	return frozen;
}

/* ---- closing ---- */

static bool somebody_inside_locked(const struct gate *g)
{
	const struct gate_lane *l;

	list_for_each (l, &g->lanes, link) {
		/* acquire: pairs with gate_leave(). */
		if (atomic_load_explicit(&l->inside, memory_order_acquire))
			return true;
	}
	return false;
}

static int wait_for_lanes_locked(struct gate *g, uint64_t deadline_ns)
{
	const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};

	while (somebody_inside_locked(g) && !g->ending) {
		if (clock_now_ns() >= deadline_ns)
			return -EBUSY;
		/* Nobody tells: leaving is to cost nothing. */
		pthread_mutex_unlock(&g->lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&g->lock);
	}
	return 0;
}

/* Lanes that waited last time: all are to be in, or, where they wait for a portion, one. */
static bool is_due_locked(const struct gate *g)
{
	return g->waiting && !(g->bound && g->has_passed);
}

/* Waits for those, so that a session always gets on; who is held has to wait in any case. */
static int let_in_locked(struct gate *g, uint64_t deadline_ns)
{
	while (is_due_locked(g) && !g->held_until_ns && !g->ending) {
		if (!wait_locked(g, deadline_ns))
			return -EBUSY;
	}
	return 0;
}

static int shut_locked(struct gate *g, uint64_t deadline_ns)
{
	int r = let_in_locked(g, deadline_ns);

	if (r == 0 && g->ending)
		r = -EPIPE;
	if (r < 0)
		return r;
	set_state_locked(g, GATE_CLOSING);
	if (g->barrier)
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); /* as in gate_enter() */
	return 0;
}

bool gate_preempt(struct gate *g, bool on)
{
	bool is;

	pthread_mutex_lock(&g->lock);
	is = preempt_locked(g, on);
	pthread_mutex_unlock(&g->lock);
	return is;
}

static int close_locked(struct gate *g, uint64_t deadline_ns, bool go_on)
{
	int r = g->state == GATE_CLOSING ? 0 : shut_locked(g, deadline_ns);

	if (r < 0)
		return r;
	r = wait_for_lanes_locked(g, deadline_ns);
	if (g->preempted)
		deadline_ns = MIN(deadline_ns, clock_now_ns() + OFF_NS);
	if (r == 0)
		r = wait_for_device_locked(g, deadline_ns);
	if (r == 0 && g->ending)
		r = -EPIPE;
	if (r == 0)
		preempt_locked(g, false);
	if (r != -EBUSY || !go_on)
		set_state_locked(g, r == 0 ? GATE_CLOSED : GATE_OPEN);
	return r;
}

/* Has less queued the next time if there was too much to get quiet in time. */
static void see_result_locked(struct gate *g, int r)
{
	if (r == 0)
		g->drain_ns = MAX(g->drain_ns / 2, GATE_DRAIN_NS);
	if (r != -EBUSY || !g->bound || g->preempted)
		return;
	g->drain_ns = MIN(2 * g->drain_ns, GATE_DRAIN_MAX_NS);
	portion_shrink(&g->size);
}

static int close_until(struct gate *g, uint64_t deadline_ns, bool go_on)
{
	int r = 0;

	pthread_mutex_lock(&g->lock);
	if (g->state != GATE_CLOSED) {
		r = close_locked(g, deadline_ns, go_on);
		see_result_locked(g, r);
	}
	pthread_mutex_unlock(&g->lock);
	return r;
}

int gate_close(struct gate *g, uint64_t deadline_ns)
{
	return close_until(g, deadline_ns, false);
}

int gate_close_begin(struct gate *g, uint64_t deadline_ns)
{
	return close_until(g, deadline_ns, true);
}

static int freeze_locked(struct gate *g, uint64_t deadline_ns)
{
	int r = g->state == GATE_CLOSING ? 0 : shut_locked(g, deadline_ns);

	if (r < 0)
		return r;
	r = wait_for_lanes_locked(g, deadline_ns);
	if (r == 0 && g->ending)
		r = -EPIPE;
	if (r == 0) {
		g->frozen = g->ops->freeze && g->ops->freeze(g->arg);
		r = g->frozen ? 0 : -EBUSY;
	}
	if (r != -EBUSY)
		set_state_locked(g, r == 0 ? GATE_CLOSED : GATE_OPEN);
	return r;
}

int gate_freeze(struct gate *g, uint64_t deadline_ns)
{
	int r = 0;

	pthread_mutex_lock(&g->lock);
	if (g->state != GATE_CLOSED)
		r = freeze_locked(g, deadline_ns);
	pthread_mutex_unlock(&g->lock);
	return r;
}

void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	if (g->state != GATE_OPEN)
		set_state_locked(g, GATE_OPEN);
	pthread_mutex_unlock(&g->lock);
}
