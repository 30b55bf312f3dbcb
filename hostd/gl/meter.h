/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing: how much of the device's time it takes, as the worker_page says it, and whether it
 * may go on: weftd charges its tenant, and holds who has had its share or cap. The device is busy
 * while a command is carried out, and until all of its fences are done.
 */
#ifndef WEFT_GL_METER_H
#define WEFT_GL_METER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"
#include "ipc/page.h"

struct meter {
	struct worker_page *page;
	int wake;             /* an eventfd: there is work again */
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t goes;  /* what is held may have changed, or a fence is done */
	uint64_t held_until_ns;
	bool works;            /* a command is carried out */
	uint32_t fences, done; /* numbers of the last ones made and done; they go round */
	uint64_t fence_ns;     /* when the next one was the next */
	uint64_t since_ns;     /* when it became busy; 0: it is not */
	uint64_t busy_ns, told_ns; /* ever; and at the last tick */
	uint64_t look_ns, looked_at_ns, ticked_at_ns;
	bool active;    /* looks and ticks go on */
	unsigned quiet; /* ticks in which nothing was busy */
};

/* Returns 0 or -errno. Before the sandbox. */
int meter_init(struct meter *m, struct worker_page *page);

/* Around a command that gives the device work: waits as long as weftd holds this session. The
 * thread that draws. */
void meter_begin(struct meter *m);
void meter_end(struct meter *m);
/* Returns the number of a fence that is to be made behind what was submitted; all up to one are
 * done. Any thread. */
uint32_t meter_fence(struct meter *m);
void meter_fence_done(struct meter *m, uint32_t fence);
/* Since when the next fence has been waited for, clock_now_ns(); 0: all are done. Any thread. */
uint64_t meter_waits_since(struct meter *m);
/* Whether any fence is not done; waits up to so many milliseconds until none is. */
bool meter_busy(struct meter *m, unsigned ms);

/* As weftd says. The thread that hears it. */
void meter_pace(struct meter *m, const struct msg_pace *p);
/* Looks, if it is time. Returns milliseconds until the next time; -1: until m->wake can be read.
 * The thread that hears weftd. */
int meter_look(struct meter *m);

#endif
