/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/loop/loop.h"
#include "util/epoll.h"

struct loop {
	int epoll;
	struct list deferred;
	struct timer {
		uint64_t (*fn)(void *arg, uint64_t now_ns);
		void *arg;
	} timers[LOOP_TIMERS_MAX];
	unsigned n_timers;
};

struct deferred {
	struct list link;
	void (*fn)(void *);
	void *arg;
};

int loop_new(struct loop **ret_l)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	list_init(&l->deferred);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0) {
		int r = -errno;

		free(l);
		return r;
	}
	*ret_l = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (l)
		closep(&l->epoll);
	free(l);
}

int source_add(struct loop *l, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t))
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	src->fd = fd;
	src->fn = fn;
	return 0;
}

int source_change(struct loop *l, struct source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	return epoll_ctl(l->epoll, EPOLL_CTL_MOD, src->fd, &ev) < 0 ? -errno : 0;
}

int source_pause(struct loop *l, struct source *src)
{
	return epoll_ctl(l->epoll, EPOLL_CTL_DEL, src->fd, NULL) < 0 ? -errno : 0;
}

int source_resume(struct loop *l, struct source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, src->fd, &ev) < 0 ? -errno : 0;
}

int source_release(struct loop *l, struct source *src)
{
	if (src->fd >= 0)
		epoll_ctl(l->epoll, EPOLL_CTL_DEL, src->fd, NULL);
	/* An event of this round may still name it: loop_once() looks at fd. */
	return fd_steal(&src->fd);
}

void source_remove(struct loop *l, struct source *src)
{
	int fd = source_release(l, src);

	closep(&fd);
}

int loop_timer(struct loop *l, uint64_t (*fn)(void *arg, uint64_t now_ns), void *arg)
{
	if (l->n_timers == ARRAY_SIZE(l->timers))
		return -ENOSPC;
	l->timers[l->n_timers++] = (struct timer){.fn = fn, .arg = arg};
	return 0;
}

int loop_defer(struct loop *l, void (*fn)(void *), void *arg)
{
	struct deferred *d = malloc(sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->fn = fn;
	d->arg = arg;
	list_append(&l->deferred, &d->link);
	return 0;
}

void loop_flush(struct loop *l)
{
	while (l && !list_empty(&l->deferred)) {
		struct deferred *d = list_entry(l->deferred.next, struct deferred, link);

		list_remove(&d->link);
		d->fn(d->arg);
		free(d);
	}
}

/* Nanoseconds until something is due by the clock, or EPOLL_FOREVER. */
static uint64_t tick(struct loop *l)
{
	uint64_t now = clock_now_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < l->n_timers; i++)
		next = MIN(next, l->timers[i].fn(l->timers[i].arg, now));
	if (next == UINT64_MAX)
		return EPOLL_FOREVER;
	return next - MIN(now, next);
}

int loop_once(struct loop *l, uint64_t ns)
{
	struct epoll_event ev[64];
	int n = epoll_wait_ns(l->epoll, ev, ARRAY_SIZE(ev), ns);

	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++) {
		struct source *src = ev[i].data.ptr;

		if (src->fd >= 0)
			src->fn(src, ev[i].events);
	}
	loop_flush(l);
	return MAX(n, 0);
}

int loop_run(struct loop *l, const bool *stop)
{
	int r = 0;

	while (!*stop && r >= 0)
		r = loop_once(l, tick(l));
	return MIN(r, 0);
}
