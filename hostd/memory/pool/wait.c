/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of one stream for another, along which freed memory can be reused. */
#include <stdlib.h>

#include "memory/pool/private.h"

void pool_forget_waits(struct pools *p, const struct dev_stream *st)
{
	struct pool_wait *w, *tmp;

	list_for_each_safe (w, tmp, &p->waits, link) {
		if (st && w->who != st && w->whom != st)
			continue;
		list_remove(&w->link);
		p->n_waits--;
		free(w);
	}
}

uint64_t pools_moment(const struct pools *p)
{
	/* acquire: frees before the event are counted before it. */
	return atomic_load_explicit(&p->clock, memory_order_acquire);
}

static struct pool_wait *find_wait(struct pools *p, const struct dev_stream *who,
				   const struct dev_stream *whom)
{
	struct pool_wait *w;

	list_for_each (w, &p->waits, link) {
		if (w->who == who && w->whom == whom)
			return w;
	}
	return NULL;
}

static void note_wait(struct pools *p, const struct dev_stream *who,
		      const struct dev_stream *whom, uint64_t moment)
{
	struct pool_wait *w = find_wait(p, who, whom);

	if (w) {
		list_remove(&w->link);
		list_insert_after(&p->waits, &w->link);
	} else {
		if (p->n_waits == WAITS_MAX) {
			w = list_entry(p->waits.prev, struct pool_wait, link);
			list_remove(&w->link);
			p->n_waits--;
			free(w);
		}
		w = calloc(1, sizeof(*w));
		if (!w)
			return;
		w->who = who;
		w->whom = whom;
		list_insert_after(&p->waits, &w->link);
		p->n_waits++;
	}
	w->at = MAX(w->at, moment);
}

void pools_waited(struct pools *p, const struct dev_stream *who,
		  const struct dev_stream *whom, uint64_t moment)
{
	/* The legacy stream is one of each context, and waits for the others anyway. */
	if (!moment || !who || !whom || who == whom)
		return;
	pthread_mutex_lock(&p->lock);
	note_wait(p, who, whom, moment);
	pthread_mutex_unlock(&p->lock);
}
