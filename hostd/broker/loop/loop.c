/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/output.h"
#include "broker/door.h"
#include "broker/loop/loop.h"
#include "broker/memory/held.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/workers.h"

struct deferred {
	struct list link;
	void (*fn)(void *);
	void *arg;
};

int loop_defer(struct broker *b, void (*fn)(void *), void *arg)
{
	struct deferred *d = malloc(sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->fn = fn;
	d->arg = arg;
	list_append(&b->deferred, &d->link);
	return 0;
}

void loop_flush(struct broker *b)
{
	while (!list_empty(&b->deferred)) {
		struct deferred *d = list_entry(b->deferred.next, struct deferred, link);

		list_remove(&d->link);
		d->fn(d->arg);
		free(d);
	}
}

/* Milliseconds until something is due by the clock; -1: nothing is. */
static int tick(struct broker *b)
{
	uint64_t now = clock_now_ns();
	uint64_t next = MIN(workers_tick(b, now), door_tick(b, now));

	next = MIN(next, MIN(reclaim_tick(b, now), prealloc_tick(b, now)));
	next = MIN(next, MIN(output_tick(b, now), held_tick(b, now)));
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now) / NSEC_PER_MSEC + 1);
}

int loop_run(struct broker *b)
{
	struct epoll_event ev[64];

	while (!b->stop) {
		int n = epoll_wait(b->epoll, ev, ARRAY_SIZE(ev), tick(b));

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			struct source *src = ev[i].data.ptr;

			if (src->fd >= 0)
				src->fn(src, ev[i].events);
		}
		loop_flush(b);
	}
	return 0;
}
