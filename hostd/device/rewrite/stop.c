/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all that runs and can be stopped, and lets it go on. */
/* #syscalls: nanosleep */
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "device/rewrite/run.h"

/* Kernels stop soon, or take long: how long one looks all the time, and how often after that. */
#define SPIN_NS (500 * NSEC_PER_USEC)
#define LOOK_NS (100 * NSEC_PER_USEC)
/* Streams that are looked at; with more of them nothing is said to be stopped. */
#define STREAMS_MAX 256

struct look {
	const struct dev_stream
		*st[STREAMS_MAX]; /* that have a launch which is not done */
	const struct dev_ctx *ctx[STREAMS_MAX];
	bool stopped[STREAMS_MAX]; /* that one is stopped */
	unsigned n, n_stopped;
	bool busy;
};

static int find(const struct look *l, const struct dev_ctx *ctx,
		const struct dev_stream *st)
{
	for (unsigned i = 0; i < l->n; i++) {
		if (l->st[i] == st && l->ctx[i] == ctx)
			return (int)i;
	}
	return -1;
}

static void look_at_run_locked(struct run *r)
{
	bool left;

	switch (r->state) {
	case RUN_GOES:
		if (!run_may_have_begun(r))
			break;
		if (run_ask_locked(r)) /* nothing was said, or the context is lost */
			r->state = RUN_LEFT;
		break;
	case RUN_ASKED:
		if (run_is_over(r) && !run_left_locked(r, &left))
			r->state = left ? RUN_STOPPED : RUN_ENDED;
		break;
	case RUN_STOPPED:
	case RUN_ENDED:
	case RUN_LEFT:
		break;
	}
}

/* The first launch of each stream that is not done. */
static void look_at_runs_locked(struct look *l)
{
	struct run *r;

	run_reap_locked(UINT32_MAX);
	list_for_each (r, &codes.runs, link) {
		if (find(l, r->ctx, r->st) >= 0)
			continue;
		if (l->n == STREAMS_MAX) {
			l->busy = true;
			return;
		}
		if (r->code)
			look_at_run_locked(r);
		l->ctx[l->n] = r->ctx;
		l->st[l->n] = r->st;
		l->stopped[l->n] = r->state == RUN_STOPPED;
		l->n_stopped += l->stopped[l->n];
		l->busy |= !l->stopped[l->n];
		l->n++;
	}
}

static bool is_stopped(const struct look *l, const struct dev_ctx *ctx,
		       const struct dev_stream *st)
{
	int i = find(l, ctx, st);

	return i >= 0 && l->stopped[i];
}

static void look_at_stream(struct look *l, struct dev_ctx *ctx, struct dev_stream *st)
{
	l->busy |= codes.under->stream.query(ctx, st) == CUDA_ERROR_NOT_READY;
}

/*
 * Looks whether streams have work that goes on. What a blocking stream had before a launch in the
 * legacy one is done when that begins, and what came later waits for it; the same is true the other
 * way round. So if one is stopped, the other stands still, whatever is asked of it.
 */
static void look_at_streams_of_locked(struct look *l, struct dev_ctx *ctx)
{
	bool legacy = is_stopped(l, ctx, NULL), blocking = false;
	const struct known_stream *k;
	const void *key;

	for (size_t at = 0;
	     !l->busy && (k = table_next(&codes.streams, &at, &key)) != NULL;) {
		bool is = k->ctx == ctx && is_stopped(l, ctx, key);

		blocking |= is && k->blocking;
		if (k->ctx == ctx && !is && !(k->blocking && legacy))
			look_at_stream(l, ctx, (struct dev_stream *)key);
	}
	if (!l->busy && !legacy && !blocking)
		look_at_stream(l, ctx, NULL);
}

static void look_at_streams(struct look *l)
{
	const void *key;
	void *ctx;

	pthread_mutex_lock(&codes.lock);
	l->busy |= codes.blind;
	for (size_t at = 0;
	     !l->busy && (ctx = table_next(&codes.contexts, &at, &key)) != NULL;)
		look_at_streams_of_locked(l, ctx);
	pthread_mutex_unlock(&codes.lock);
}

void hold(struct device *dev)
{
	pthread_mutex_lock(&codes.run_lock);
	codes.held = true;
	pthread_mutex_unlock(&codes.run_lock);
}

enum device_rest stop(struct device *dev)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	uint64_t began = clock_now_ns();
	struct look l;

	pthread_mutex_lock(&codes.run_lock);
	run_reap_locked(UINT32_MAX);
	if (list_empty(&codes.runs)) {
		pthread_mutex_unlock(&codes.run_lock);
		return DEVICE_REST_NONE;
	}
	while (codes.held) {
		l = (struct look){0};
		look_at_runs_locked(&l);
		pthread_mutex_unlock(&codes.run_lock);
		if (!l.busy)
			look_at_streams(&l);
		if (!l.busy) {
			log_debug("%u kernels stopped in %llu us", l.n_stopped,
				  (unsigned long long)(clock_now_ns() - began) / 1000);
			return l.n_stopped ? DEVICE_REST_STOPPED : DEVICE_REST_NONE;
		}
		if (clock_now_ns() - began > SPIN_NS)
			nanosleep(&pause, NULL);
		pthread_mutex_lock(&codes.run_lock);
	}
	pthread_mutex_unlock(&codes.run_lock);
	return DEVICE_REST_CANCELLED;
}

/* ---- going on ---- */

#define MIND_NS NSEC_PER_MSEC

static bool mind_locked(void)
{
	bool any = false;
	struct run *r;

	run_reap_locked(UINT32_MAX);
	list_for_each (r, &codes.runs, link)
		any |= run_mind_locked(r);
	return any;
}

static void *mind(void *arg)
{
	const struct timespec pause = {.tv_nsec = MIND_NS};

	pthread_mutex_lock(&codes.run_lock);
	while (!codes.closing && mind_locked()) {
		pthread_mutex_unlock(&codes.run_lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&codes.run_lock);
	}
	codes.minds = false;
	pthread_mutex_unlock(&codes.run_lock);
	return NULL;
}

/* Has a thread look after what was not stopped in time. */
static void begin_to_mind(void)
{
	pthread_t before;
	bool begins, joins;

	pthread_mutex_lock(&codes.run_lock);
	begins = !codes.minds && mind_locked();
	joins = begins && codes.has_minder;
	before = codes.minder;
	pthread_mutex_unlock(&codes.run_lock);
	if (joins)
		pthread_join(before, NULL);
	if (!begins)
		return;
	pthread_mutex_lock(&codes.run_lock);
	codes.minds = codes.has_minder =
		pthread_create(&codes.minder, NULL, mind, NULL) == 0;
	pthread_mutex_unlock(&codes.run_lock);
}

void stop_end(void)
{
	pthread_mutex_lock(&codes.run_lock);
	codes.closing = true;
	pthread_mutex_unlock(&codes.run_lock);
	if (codes.has_minder)
		pthread_join(codes.minder, NULL);
	codes.has_minder = codes.closing = false;
}

void go_on(struct device *dev)
{
	unsigned n = 0, failed = 0;
	struct run *r;

	pthread_mutex_lock(&codes.run_lock);
	codes.held = false;
	list_for_each (r, &codes.runs, link) {
		if (r->state != RUN_ASKED && r->state != RUN_STOPPED)
			continue;
		n++;
		failed += run_go_on_locked(r) != CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&codes.run_lock);
	if (!n)
		return;
	log_debug("%u stopped kernels go on, %u fail", n, failed);
	begin_to_mind();
}
