/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: one epoll that everything weftd waits for hangs on, in one thread. Its
 * sources and timers are given to it; nothing in a function that it calls may wait.
 */
#ifndef WEFT_BROKER_LOOP_H
#define WEFT_BROKER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* Something the loop waits for; embedded in what it belongs to. */
struct source {
	void (*fn)(struct source *src, uint32_t events);
	int fd; /* -1: not watched */
};

/* Returns 0 or -errno. */
int loop_new(struct loop **ret_l);
/* Accepts NULL. Sources are to be removed, and what was deferred to be done, before. */
void loop_free(struct loop *l);

/* Watches fd, the source's from now on, for epoll's events. Returns 0 or -errno. */
int source_add(struct loop *l, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t));
/* Watches for other events from now on. Returns 0 or -errno. */
int source_change(struct loop *l, struct source *src, uint32_t events);
/* Stops watching, and watches again; the descriptor stays. Return 0 or -errno. */
int source_pause(struct loop *l, struct source *src);
int source_resume(struct loop *l, struct source *src, uint32_t events);
/* Stops watching; returns the descriptor, the caller's from now on, or -1. Safe within
 * any source's function, as is source_remove(), which closes it. */
int source_release(struct loop *l, struct source *src);
void source_remove(struct loop *l, struct source *src);

/*
 * Calls fn(arg, now) before each wait, in the order in which timers were added; it
 * returns when to be called again at the latest (clock_now_ns()), or UINT64_MAX: after
 * the next event. Returns 0 or -ENOSPC.
 */
#define LOOP_TIMERS_MAX 20
int loop_timer(struct loop *l, uint64_t (*fn)(void *arg, uint64_t now_ns), void *arg);

/* Runs fn(arg) when the events in hand have been dealt with: for freeing. Returns 0 or
 * -ENOMEM. */
int loop_defer(struct loop *l, void (*fn)(void *), void *arg);
/* Runs what was deferred. Accepts NULL. */
void loop_flush(struct loop *l);

/* Waits once, for at most so long (EPOLL_FOREVER), deals with what has happened and runs
 * what was deferred. Returns how many sources had events, or -errno. */
int loop_once(struct loop *l, uint64_t ns);
/* Runs until *stop. Returns 0 or -errno. */
int loop_run(struct loop *l, const bool *stop);

#endif
