/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_GUEST_EVENT_H
#define WEFT_GUEST_EVENT_H

#include <stdatomic.h>

#include "core/idle.h"
#include "object/owned.h"

struct cap_event;

/* What is known of an event here. */
struct guest_event {
	struct owned owned;
	uint64_t handle;
	unsigned flags; /* it was created with */
	_Atomic bool recorded;
	_Atomic bool elsewhere; /* also by graphs or kernels: when, is not known */
	uint64_t ctx;
	_Atomic uint64_t records; /* grows once one has been sent */
	_Atomic uint64_t done;    /* as of which number of them it had happened */
	_Atomic uint64_t ended;   /* idle_ended then */
	/* A stream in which a record was the last command of the process, and idle_now()
	 * by then with the stream's index, so that they are not of two records. */
	_Atomic uint64_t last_in, last_at;
	struct cap_event *captured; /* under the graphs' lock; else NULL */
};

/* A new event of a context, in which it can be recorded (ctx) or not (0); 0: no memory.
 */
uint64_t event_new(struct guest_ctx *c, unsigned flags, uint64_t ctx);
void event_drop(uint64_t h);

/* NULL: no such event. */
static inline struct guest_event *event_lookup(CUevent event)
{
	return guest_object((uintptr_t)event, HANDLE_EVENT);
}

static inline void event_recorded_elsewhere(struct guest_event *e)
{
	atomic_store_explicit(&e->elsewhere, true, memory_order_relaxed);
}

/* False: waiting for it is waiting for nothing. */
static inline bool event_was_recorded(const struct guest_event *e)
{
	return e && atomic_load_explicit(&e->recorded, memory_order_relaxed);
}

/* ---- what is known to have happened; see core/idle.h ---- */

/* Whether nobody need be asked. */
static inline bool event_has_happened(const struct guest_event *e)
{
	/* acquire: pairs with the releases of `done` */
	uint64_t done = atomic_load_explicit(&e->done, memory_order_acquire);

	return done == atomic_load_explicit(&e->records, memory_order_relaxed) &&
	       atomic_load_explicit(&e->ended, memory_order_relaxed) ==
		       atomic_load_explicit(&idle_ended, memory_order_relaxed) &&
	       !atomic_load_explicit(&e->elsewhere, memory_order_relaxed) &&
	       !(e->flags & CU_EVENT_INTERPROCESS);
}

/* What a question begins with; its answer holds for no more than that. */
struct event_asked {
	uint64_t records, ended, now;
};

static inline struct event_asked event_asked_now(const struct guest_event *e)
{
	return (struct event_asked){
		atomic_load_explicit(&e->records, memory_order_relaxed),
		atomic_load_explicit(&idle_ended, memory_order_relaxed), idle_now()};
}

/* The worker has said that the event has happened; a: event_asked_now() before it was
 * asked. t: the calling thread. */
void event_note_happened(struct guest_thread *t, struct guest_event *e,
			 struct event_asked a);

/* A command was sent that records the event; done: in an idle stream. */
void event_note_recorded(struct guest_event *e, bool done);

/*
 * The thread's last command recorded the event in a stream, as it travels; before:
 * idle_now() then. If idle, the stream was, and still is, and the event has happened,
 * unless something else has come in between.
 */
void event_note_posted(struct guest_thread *t, struct guest_event *e, uint64_t wire,
		       uint64_t before, bool idle);

#endif
