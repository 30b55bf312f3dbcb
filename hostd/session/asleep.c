/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go of contexts that another lane destroys: a lane holds its current context and
 * its thread's default streams. One that is awake lets go of them when it goes to sleep;
 * from one that sleeps the destroying lane takes them. Either sees the other: one says
 * that it sleeps and then looks, one says that the context is gone and then looks.
 *
 * #syscalls: nanosleep
 */
#include <time.h>

#include "session/command.h"

/* A lane polls for as long before it sleeps, and then some. */
#define POLLS_NS  50000
#define POLLS_MAX 20

struct leaving {
	struct list streams;
	struct sess_ctx *contexts[SESS_LANES_MAX];
	unsigned n;
};

static bool is_gone(const struct sess_ctx *ctx)
{
	return atomic_load_explicit(&ctx->gone, memory_order_relaxed);
}

/* Under sl->asleep_lock, which pairs the two sides. */
static void take_gone_locked(struct sess_lane *sl, struct leaving *l)
{
	struct sess_stream *st, *tmp;

	list_for_each_safe (st, tmp, &sl->thread_streams, in_lane) {
		if (!is_gone(st->obj.ctx))
			continue;
		list_remove(&st->in_lane);
		list_append(&l->streams, &st->in_lane);
	}
	if (sl->ctx && is_gone(sl->ctx))
		l->contexts[l->n++] = steal(sl->ctx);
}

/* Without a lock: the last one ends a context. */
static void let_go(struct session *s, struct leaving *l)
{
	struct sess_stream *st, *tmp;

	list_for_each_safe (st, tmp, &l->streams, in_lane) {
		list_remove(&st->in_lane);
		obj_put(s, &st->obj);
	}
	while (l->n)
		obj_put(s, &l->contexts[--l->n]->obj);
}

void sess_lane_sleeps(struct sess_lane *sl)
{
	struct leaving l = {.n = 0};

	kept_drop(sl);
	list_init(&l.streams);
	pthread_mutex_lock(&sl->asleep_lock);
	sl->asleep = true;
	take_gone_locked(sl, &l);
	pthread_mutex_unlock(&sl->asleep_lock);
	let_go(sl->s, &l);
}

void sess_lane_wakes(struct sess_lane *sl)
{
	if (likely(!sl->asleep))
		return;
	pthread_mutex_lock(&sl->asleep_lock);
	sl->asleep = false;
	pthread_mutex_unlock(&sl->asleep_lock);
}

void sess_ctx_gone(struct session *s, struct sess_ctx *ctx)
{
	struct leaving l = {.n = 0};

	list_init(&l.streams);
	atomic_store(&ctx->gone, true);
	pthread_mutex_lock(&s->lanes_lock);
	for (unsigned i = 0; i < SESS_LANES_MAX; i++) {
		struct sess_lane *sl = s->lanes[i];

		if (!sl || sl == SESS_LANE_RESERVED)
			continue;
		pthread_mutex_lock(&sl->asleep_lock);
		if (sl->asleep)
			take_gone_locked(sl, &l);
		pthread_mutex_unlock(&sl->asleep_lock);
	}
	pthread_mutex_unlock(&s->lanes_lock);
	let_go(s, &l);
	/* Lanes that poll for a command sleep in a moment: the memory is to be there when
	 * the program goes on. */
	for (unsigned i = 0; i < POLLS_MAX && atomic_load(&ctx->obj.refs) > 1; i++)
		nanosleep(&(struct timespec){.tv_nsec = POLLS_NS}, NULL);
}
