/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory between two uses. Making and giving back a backing costs more than all
 * else about an allocation (on an H200 26 and 13 us for 2 MiB, 2.7 and 9.3 ms for 16
 * GiB), and who frees often allocates as much at once. So a backing nobody uses is kept
 * for some milliseconds. It is unmapped and charged to nobody: as far as anyone can see
 * it is free.
 *
 * While it lies here the device has less than weftd's books say; an allocation that is
 * refused by the device though it was granted tries again for a little longer than that.
 */
#include <time.h>

#include "base/clock.h"
#include "memory/region.h"

/* Memory that may lie idle while more is made. */
#define IDLE_BYTES (64ull << 20)
/* Backings that may lie idle: as many as a driver takes back while one lies here (30 to
 * 40 us each on an H200). Who frees faster than that gives back as many as it frees. */
#define IDLE_MAX 512u

static void take_out(struct space *sp, struct backing *c)
{
	list_remove(&c->idle);
	sp->idle_bytes -= c->size;
	sp->n_idle--;
}

static struct backing *oldest(struct space *sp)
{
	return list_entry(sp->idle.prev, struct backing, idle);
}

/* Releases without the lock: large backings take milliseconds. */
static void reap_locked(struct space *sp, struct backing *c)
{
	take_out(sp, c);
	pthread_mutex_unlock(&sp->lock);
	mem_release(sp, c);
	pthread_mutex_lock(&sp->lock);
}

static void *reaper(void *arg)
{
	struct space *sp = arg;

	pthread_mutex_lock(&sp->lock);
	while (!sp->ending) {
		uint64_t due;
		struct timespec ts;

		if (list_empty(&sp->idle)) {
			pthread_cond_wait(&sp->reaper_cond, &sp->lock);
			continue;
		}
		due = oldest(sp)->idle_since_ns + SPACE_IDLE_NS;
		if (clock_now_ns() >= due) {
			reap_locked(sp, oldest(sp));
			continue;
		}
		ts.tv_sec = (time_t)(due / NSEC_PER_SEC);
		ts.tv_nsec = (long)(due % NSEC_PER_SEC);
		pthread_cond_clockwait(&sp->reaper_cond, &sp->lock, CLOCK_MONOTONIC, &ts);
	}
	pthread_mutex_unlock(&sp->lock);
	return NULL;
}

void idle_put_locked(struct space *sp, struct backing *c)
{
	if (!sp->reaping)
		sp->reaping = !pthread_create(&sp->reaper, NULL, reaper, sp);
	if (!sp->reaping || sp->ending) {
		mem_release(sp, c);
		return;
	}
	c->idle_since_ns = clock_now_ns();
	if (list_empty(&sp->idle))
		pthread_cond_signal(&sp->reaper_cond);
	list_insert_after(&sp->idle, &c->idle);
	sp->idle_bytes += c->size;
	if (++sp->n_idle > IDLE_MAX) {
		c = oldest(sp);
		take_out(sp, c);
		mem_release(sp, c);
	}
}

struct backing *idle_take_locked(struct space *sp, uint64_t size)
{
	struct backing *c;

	list_for_each (c, &sp->idle, idle) {
		if (c->size != size)
			continue;
		take_out(sp, c);
		return c;
	}
	return NULL;
}

void idle_flush_locked(struct space *sp)
{
	while (!list_empty(&sp->idle)) {
		struct backing *c = oldest(sp);

		take_out(sp, c);
		mem_release(sp, c);
	}
}

void idle_trim_locked(struct space *sp, uint64_t size)
{
	if (sp->idle_bytes && size + sp->idle_bytes > IDLE_BYTES)
		idle_flush_locked(sp);
}

void idle_end(struct space *sp)
{
	bool reaping;

	pthread_mutex_lock(&sp->lock);
	sp->ending = true;
	reaping = sp->reaping;
	pthread_cond_signal(&sp->reaper_cond);
	pthread_mutex_unlock(&sp->lock);
	if (reaping)
		pthread_join(sp->reaper, NULL);
	idle_flush_locked(sp);
}
