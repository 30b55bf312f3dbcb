/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: write read futex sendmsg */
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "gl/meter.h"

/* As workers' (worker/meter.c). */
#define TICK_NS     (500 * NSEC_PER_MSEC)
#define LOOK_NS     (50 * NSEC_PER_MSEC)
#define LOOK_MIN_NS NSEC_PER_MSEC
#define QUIET_TICKS 4

int meter_init(struct meter *m, struct worker_page *page)
{
	pthread_condattr_t attr;

	*m = (struct meter){.page = page, .look_ns = LOOK_NS};
	m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->wake < 0)
		return -errno;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->goes, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

/* ---- the device's time ---- */

static void count_locked(struct meter *m)
{
	uint64_t now = clock_now_ns();

	if (m->since_ns)
		m->busy_ns += now - m->since_ns;
	m->since_ns = m->works || m->fences != m->done ? now : 0;
}

/* weftd decides about time anew. */
static void say_active_locked(struct meter *m, bool is)
{
	const struct msg say = {.type = MSG_COMPUTES};

	m->active = is;
	m->quiet = 0;
	atomic_store(&m->page->computing, is);
	(void)msg_send(MSG_FD, &say, -1, -1);
}

static void activate_locked(struct meter *m)
{
	const uint64_t one = 1;

	m->looked_at_ns = m->ticked_at_ns = clock_now_ns();
	m->told_ns = m->busy_ns;
	say_active_locked(m, true);
	(void)!write(m->wake, &one, sizeof(one));
}

static struct timespec at_ns(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % NSEC_PER_SEC)};
}

static void wait_locked(struct meter *m)
{
	uint64_t until;

	while ((until = m->held_until_ns) > clock_now_ns()) {
		const struct timespec at = at_ns(until);

		atomic_store(&m->page->waiting, 1);
		pthread_cond_timedwait(&m->goes, &m->lock, &at);
	}
	atomic_store(&m->page->waiting, 0);
}

void meter_begin(struct meter *m)
{
	pthread_mutex_lock(&m->lock);
	if (!m->active)
		activate_locked(m);
	wait_locked(m);
	m->works = true;
	count_locked(m);
	pthread_mutex_unlock(&m->lock);
}

void meter_end(struct meter *m)
{
	pthread_mutex_lock(&m->lock);
	m->works = false;
	count_locked(m);
	pthread_mutex_unlock(&m->lock);
}

uint32_t meter_fence(struct meter *m)
{
	uint32_t fence;

	pthread_mutex_lock(&m->lock);
	if (m->fences == m->done)
		m->fence_ns = clock_now_ns();
	fence = ++m->fences;
	count_locked(m);
	pthread_mutex_unlock(&m->lock);
	return fence;
}

void meter_fence_done(struct meter *m, uint32_t fence)
{
	pthread_mutex_lock(&m->lock);
	/* Late ones are no news. */
	if ((int32_t)(fence - m->done) > 0) {
		m->done = fence;
		m->fence_ns = clock_now_ns();
	}
	count_locked(m);
	pthread_cond_broadcast(&m->goes);
	pthread_mutex_unlock(&m->lock);
}

uint64_t meter_waits_since(struct meter *m)
{
	uint64_t since;

	pthread_mutex_lock(&m->lock);
	since = m->fences != m->done ? m->fence_ns : 0;
	pthread_mutex_unlock(&m->lock);
	return since;
}

bool meter_busy(struct meter *m, unsigned ms)
{
	uint64_t until = clock_now_ns() + ms * NSEC_PER_MSEC;
	struct timespec at = at_ns(until);
	bool busy;

	pthread_mutex_lock(&m->lock);
	while ((busy = m->fences != m->done) && ms && clock_now_ns() < until)
		pthread_cond_timedwait(&m->goes, &m->lock, &at);
	pthread_mutex_unlock(&m->lock);
	return busy;
}

/* ---- looking ---- */

static void look_locked(struct meter *m)
{
	struct worker_page *page = m->page;
	bool busy = m->since_ns;

	m->looked_at_ns = clock_now_ns();
	atomic_fetch_add(&page->looks_pending, busy);
	atomic_store(&page->pending, busy ? PAGE_KERNELS : PAGE_NO_WORK);
	atomic_fetch_add(&page->looks, 1);
}

/* Once nothing was busy for a while, ticking ends. */
static void tick_locked(struct meter *m)
{
	struct worker_page *page = m->page;
	uint64_t now = clock_now_ns(), busy, all = now - m->ticked_at_ns;

	count_locked(m);
	busy = m->busy_ns - m->told_ns;
	atomic_store(&page->busy_permille, MIN(busy * 1000 / MAX(all, 1ull), 1000ull));
	atomic_store(&page->busy_at_ns, now);
	atomic_fetch_add(&page->busy_ns, busy);
	m->told_ns = m->busy_ns;
	m->ticked_at_ns = now;
	m->quiet = busy || atomic_load(&page->waiting) ? 0 : m->quiet + 1;
	if (m->quiet < QUIET_TICKS)
		return;
	atomic_store(&page->pending, PAGE_NO_WORK);
	say_active_locked(m, false);
}

void meter_pace(struct meter *m, const struct msg_pace *p)
{
	pthread_mutex_lock(&m->lock);
	m->held_until_ns = p->held_until_ns;
	m->look_ns = p->look_us ? MAX(p->look_us * NSEC_PER_USEC, LOOK_MIN_NS) : LOOK_NS;
	pthread_cond_broadcast(&m->goes);
	pthread_mutex_unlock(&m->lock);
}

int meter_look(struct meter *m)
{
	uint64_t now = clock_now_ns(), next, seen;
	int ms = -1;

	(void)!read(m->wake, &seen, sizeof(seen));
	pthread_mutex_lock(&m->lock);
	if (m->active && now >= m->looked_at_ns + m->look_ns)
		look_locked(m);
	if (m->active && now >= m->ticked_at_ns + TICK_NS)
		tick_locked(m);
	if (m->active) {
		next = MIN(m->looked_at_ns + m->look_ns, m->ticked_at_ns + TICK_NS);
		now = clock_now_ns();
		ms = next > now ? (int)((next - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC)
				: 0;
	}
	pthread_mutex_unlock(&m->lock);
	return ms;
}
