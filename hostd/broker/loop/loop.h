/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: one epoll that everything weftd waits for hangs on, in one thread. Nothing in
 * a function that it calls may wait.
 */
#ifndef WEFT_BROKER_LOOP_H
#define WEFT_BROKER_LOOP_H

#include <stdint.h>

struct broker;

/* Something the loop waits for; embedded in what it belongs to. */
struct source {
	void (*fn)(struct source *src, uint32_t events);
	int fd; /* -1: not watched */
};

int source_add(struct broker *b, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t));
/* Other events from now on. Returns 0 or -errno. */
int source_change(struct broker *b, struct source *src, uint32_t events);
/* Stops watching; returns the descriptor, the caller's from now on, or -1. Safe within
 * any source's function, as is source_remove(), which closes it. */
int source_release(struct broker *b, struct source *src);
void source_remove(struct broker *b, struct source *src);

/* Runs fn(arg) when the events in hand have been dealt with: for freeing. */
int loop_defer(struct broker *b, void (*fn)(void *), void *arg);

/* Runs what was deferred. */
void loop_flush(struct broker *b);

/* Runs until b->stop. Returns 0 or -errno. */
int loop_run(struct broker *b);

#endif
