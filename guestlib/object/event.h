/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_GUEST_EVENT_H
#define WEFT_GUEST_EVENT_H

#include <stdatomic.h>

#include "core/idle.h"
#include "object/owned.h"

struct cap_event;

/* Shadow of an event. */
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
	/* Stream in which a record was the process's last command (0: in none), and
	 * idle_now() by then with the stream's index, by which a reader sees that both
	 * are of one record. */
	_Atomic uint64_t last_in, last_at;
	struct cap_event *captured; /* under the graphs' lock; else NULL */
	struct guest_event *spare;  /* the next one, while it is not in use */
};

/*
 * Makes an event of a context. ctx: the context's handle if the event can be recorded in
 * it, else 0. Returns the event's handle; 0: no memory. A thread may still be asking about
 * an event that another one destroys, so the memory stays that of an event; records grows
 * from one use to the next, and what is noted late is not believed.
 */
uint64_t event_new(struct guest_ctx *c, unsigned flags, uint64_t ctx);
void event_drop(uint64_t h);

/* Finds an event by its handle; NULL: no such event. */
static inline struct guest_event *event_lookup(CUevent event)
{
	return guest_object((uintptr_t)event, HANDLE_EVENT);
}

static inline void event_recorded_elsewhere(struct guest_event *e)
{
	atomic_store_explicit(&e->elsewhere, true, memory_order_relaxed);
}

/* True if the event has been recorded; waiting for any other ends at once. */
static inline bool event_was_recorded(const struct guest_event *e)
{
	return e && atomic_load_explicit(&e->recorded, memory_order_relaxed);
}

/* ---- events that are known to have happened; see core/idle.h ---- */

/* True if the event is known to have happened: the worker need not be asked. */
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

/* Knowledge before a question to the worker; the answer holds for no more than that. */
struct event_asked {
	uint64_t records, ended, now;
};

static inline struct event_asked event_asked_now(const struct guest_event *e)
{
	return (struct event_asked){
		atomic_load_explicit(&e->records, memory_order_relaxed),
		atomic_load_explicit(&idle_ended, memory_order_relaxed), idle_now()};
}

/* Notes the worker's answer that the event has happened. t: the calling thread; a:
 * event_asked_now() from before the question. */
void event_note_happened(struct guest_thread *t, struct guest_event *e,
			 struct event_asked a);

/* Notes that a command was sent that records the event; done: in an idle stream. */
void event_note_recorded(struct guest_event *e, bool done);

/*
 * Notes that the thread's last command recorded the event in a stream, as it travels.
 * before: idle_now() before that command. idle: the stream was idle then; unless another
 * command has come in between, it still is, and the event has happened.
 */
void event_note_posted(struct guest_thread *t, struct guest_event *e, uint64_t wire,
		       uint64_t before, bool idle);

#endif
