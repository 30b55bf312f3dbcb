/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the device takes half a millisecond, and charging waits for weftd's answer,
 * which the worker's main thread brings: hence a thread, made when it is first needed. It
 * sleeps while nothing has changed.
 *
 * #syscalls: clone futex
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "memory/space.h"
#include "session/footprint.h"
#include "session/command.h"

/* From a change until it is looked at, so that a burst of look-ups is looked at once. */
#define SOON_NS (100 * NSEC_PER_MSEC)
/* From a charge that was refused to the next try. */
#define OWED_NS NSEC_PER_SEC

struct footprint {
	struct session *s;
	pthread_mutex_t lock; /* held while the device is asked, not while charging */
	uint64_t charged, pending; /* and what is being charged */
	uint64_t modules;          /* bytes, as they estimate it */
	bool guessing;

	_Atomic unsigned rest; /* ticks between two questions; 0: the next one asks */
	unsigned ticks;        /* of footprint_tick(): since the last question */

	_Atomic bool changed;
	pthread_mutex_t thread_lock; /* a leaf: all below */
	pthread_cond_t cond;
	pthread_t thread;
	bool has_thread, ending;
};

/* Asks how much is to be charged, at least and at most. */
static void ask_locked(struct footprint *f, uint64_t *ret_least, uint64_t *ret_most)
{
	struct session *s = f->s;
	struct tally_look look = tally_look(&s->apart);
	uint64_t least, most, apart_least, apart_most;

	if (!s->ops->footprint(s->dev, &least, &most)) {
		if (f->modules && !f->guessing)
			log_info("nobody says what code takes: it is charged roughly");
		f->guessing = f->guessing || f->modules;
		*ret_least = *ret_most = f->modules;
		return;
	}
	tally_bounds(&s->apart, look, &apart_least, &apart_most);
	*ret_least = least - MIN(least, apart_most);
	*ret_most = most - MIN(most, apart_least);
}

static CUresult charge(struct footprint *f, uint64_t bytes)
{
	CUresult r = space_charge(f->s->space, bytes);

	pthread_mutex_lock(&f->lock);
	f->pending -= bytes;
	if (r == CUDA_SUCCESS)
		f->charged += bytes;
	pthread_mutex_unlock(&f->lock);
	/* Refused, it is owed; else some may have gone while this waited. */
	footprint_changed(f->s);
	return r;
}

/* Uncharges what is too much, and charges what is owed if `pays`, else leaves it for the
 * next time, as is all that changes from now on. */
static CUresult settle(struct footprint *f, bool pays)
{
	uint64_t least, most, had, less, more;

	pthread_mutex_lock(&f->lock);
	atomic_store(&f->changed, false);
	ask_locked(f, &least, &most);
	had = f->charged + f->pending;
	more = least > had ? least - had : 0;
	less = had > most ? MIN(had - most, f->charged) : 0;
	f->pending += pays ? more : 0;
	f->charged -= less;
	pthread_mutex_unlock(&f->lock);
	if (more || less)
		log_debug("session %llu: the device itself has %llu to %llu bytes, of "
			  "which %llu are charged: %s%llu",
			  (unsigned long long)f->s->number, (unsigned long long)least,
			  (unsigned long long)most, (unsigned long long)had,
			  more ? "+" : "-", (unsigned long long)(more + less));
	if (more || less)
		atomic_store(&f->rest, 0);
	if (less)
		space_uncharge(f->s->space, less);
	if (more && pays)
		return charge(f, more);
	if (more)
		footprint_changed(f->s);
	return CUDA_SUCCESS;
}

/* ---- the thread ---- */

static void sleep_locked(struct footprint *f, uint64_t ns)
{
	uint64_t until = clock_now_ns() + ns;
	const struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
				    .tv_nsec = (long)(until % NSEC_PER_SEC)};

	while (!f->ending && clock_now_ns() < until)
		pthread_cond_clockwait(&f->cond, &f->thread_lock, CLOCK_MONOTONIC, &ts);
}

static void *footprint_main(void *arg)
{
	struct footprint *f = arg;
	bool owed;

	pthread_mutex_lock(&f->thread_lock);
	while (!f->ending) {
		if (!atomic_load(&f->changed)) {
			pthread_cond_wait(&f->cond, &f->thread_lock);
			continue;
		}
		sleep_locked(f, SOON_NS);
		if (f->ending || !atomic_load(&f->changed))
			continue;
		pthread_mutex_unlock(&f->thread_lock);
		owed = settle(f, true) != CUDA_SUCCESS;
		pthread_mutex_lock(&f->thread_lock);
		if (owed)
			sleep_locked(f, OWED_NS);
	}
	pthread_mutex_unlock(&f->thread_lock);
	return NULL;
}

/* Has the thread ask. */
static void wake(struct footprint *f)
{
	/* seq_cst: what has changed is seen by the settle() that clears this. */
	if (atomic_load(&f->changed) || atomic_exchange(&f->changed, true))
		return;
	pthread_mutex_lock(&f->thread_lock);
	if (!f->has_thread && !f->ending)
		f->has_thread = !pthread_create(&f->thread, NULL, footprint_main, f);
	pthread_cond_signal(&f->cond);
	pthread_mutex_unlock(&f->thread_lock);
}

void footprint_changed(struct session *s)
{
	atomic_store(&s->footprint->rest, 0);
	wake(s->footprint);
}

/* The driver lists all processes for each that asks: in all that is their square. */
bool footprint_tick(struct session *s)
{
	struct footprint *f = s->footprint;
	unsigned rest = atomic_load(&f->rest);

	if (++f->ticks < rest)
		return false;
	f->ticks = 0;
	atomic_store(&f->rest, MIN(MAX(2 * rest, 1u), FOOTPRINT_TICKS_MAX));
	wake(f);
	return true;
}

/* ---- on others ---- */

CUresult footprint_loaded(struct session *s, uint64_t bytes)
{
	struct footprint *f = s->footprint;

	if (!bytes) {
		footprint_changed(s);
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&f->lock);
	f->modules += bytes;
	pthread_mutex_unlock(&f->lock);
	return settle(f, true);
}

void footprint_unloaded(struct session *s, uint64_t bytes)
{
	struct footprint *f = s->footprint;

	pthread_mutex_lock(&f->lock);
	f->modules -= bytes;
	pthread_mutex_unlock(&f->lock);
	footprint_shrunk(s);
}

void footprint_shrunk(struct session *s)
{
	struct footprint *f = s->footprint;
	bool charged;

	pthread_mutex_lock(&f->lock);
	charged = f->charged;
	pthread_mutex_unlock(&f->lock);
	if (charged)
		(void)settle(f, false);
}

/* ---- life ---- */

int footprint_new(struct session *s, struct footprint **ret_f)
{
	struct footprint *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->s = s;
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->thread_lock, NULL);
	pthread_cond_init(&f->cond, NULL);
	*ret_f = f;
	return 0;
}

void footprint_free(struct footprint *f)
{
	bool has_thread;

	if (!f)
		return;
	pthread_mutex_lock(&f->thread_lock);
	f->ending = true;
	has_thread = f->has_thread;
	pthread_cond_signal(&f->cond);
	pthread_mutex_unlock(&f->thread_lock);
	if (has_thread)
		pthread_join(f->thread, NULL);
	if (f->charged)
		space_uncharge(f->s->space, f->charged);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->thread_lock);
	pthread_cond_destroy(&f->cond);
	free(f);
}
