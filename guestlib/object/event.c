/* SPDX-License-Identifier: Apache-2.0 */
/* Shadows of events; api/object/event.c has the functions. */
#include <pthread.h>
#include <stdlib.h>

#include "core/capturing.h"
#include "object/context.h"
#include "object/event.h"
#include "object/stream.h"

static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_event *spares;

static struct guest_event *take(void)
{
	struct guest_event *e;

	pthread_mutex_lock(&spare_lock);
	e = spares;
	if (e)
		spares = e->spare;
	pthread_mutex_unlock(&spare_lock);
	return e ? e : calloc(1, sizeof(*e));
}

static void put(struct guest_event *e)
{
	pthread_mutex_lock(&spare_lock);
	e->spare = spares;
	spares = e;
	pthread_mutex_unlock(&spare_lock);
}

static void drop(struct owned *o)
{
	struct guest_event *e = container_of(o, struct guest_event, owned);

	capture_event_gone(e);
	guest_handle_free(e->handle);
	put(e);
}

uint64_t event_new(struct guest_ctx *c, unsigned flags, uint64_t ctx)
{
	struct guest_event *e = take();
	uint64_t h;

	if (!e)
		return 0;
	e->flags = flags;
	e->ctx = ctx;
	atomic_store(&e->recorded, false);
	atomic_store(&e->elsewhere, false);
	atomic_store(&e->last_in, 0);
	atomic_store(&e->last_at, 0);
	/* One more than was ever noted: whether it is there has yet to be seen. */
	atomic_fetch_add(&e->records, 1);
	h = e->handle = guest_handle_new(HANDLE_EVENT, e);
	if (h)
		owned_add(c, &e->owned, drop);
	else
		put(e);
	return h;
}

void event_drop(uint64_t h)
{
	struct guest_event *e = guest_object(h, HANDLE_EVENT);

	if (!e)
		return;
	owned_remove(&e->owned);
	drop(&e->owned);
}

/* ---- what is known to have happened; see core/idle.h ---- */

void event_note_recorded(struct guest_event *e, bool done)
{
	uint64_t n = atomic_fetch_add_explicit(&e->records, 1, memory_order_relaxed) + 1;

	if (!done)
		return;
	atomic_store_explicit(&e->ended, atomic_load(&idle_ended), memory_order_relaxed);
	atomic_store_explicit(&e->done, n, memory_order_release);
}

static uint64_t last_at(uint64_t wire, uint64_t now)
{
	return now | (uint64_t)handle_index(wire) << (64 - HANDLE_INDEX_BITS);
}

/* With nothing sent since it was recorded its stream is idle. The legacy stream is left
 * out: it also waits for others. */
void event_note_happened(struct guest_thread *t, struct guest_event *e,
			 struct event_asked a)
{
	uint64_t in = atomic_load_explicit(&e->last_in, memory_order_relaxed);

	if (in > GUEST_STREAM_PER_THREAD &&
	    last_at(in, a.now) == atomic_load_explicit(&e->last_at, memory_order_relaxed))
		idle_note(t, in, a.now);
	atomic_store_explicit(&e->ended, a.ended, memory_order_relaxed);
	atomic_store_explicit(&e->done, a.records, memory_order_release);
}

void event_note_posted(struct guest_thread *t, struct guest_event *e, uint64_t wire,
		       uint64_t before, bool idle)
{
	uint64_t ctx = wire > GUEST_STREAM_PER_THREAD ? stream_ctx(wire) : t->top->handle;
	bool last = ctx == e->ctx && idle_now() == before + 1;

	idle = idle && last;
	atomic_store_explicit(&e->last_in, last ? wire : 0, memory_order_relaxed);
	atomic_store_explicit(&e->last_at, last_at(wire, before + 1),
			      memory_order_relaxed);
	event_note_recorded(e, idle);
	if (idle)
		idle_note(t, wire, before + 1);
}
