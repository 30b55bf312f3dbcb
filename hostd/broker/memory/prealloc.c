/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Soft pressure: when the device gets full, sessions that could have to be evicted keep
 * host memory ready, because making it takes longer than moving does. It is part of what
 * `swap` allows: what is evicted comes first. A look at what they have is followed by
 * another until nothing has changed, so nobody is looked at for ever.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/loop/outbox.h"
#include "broker/memory/ledger.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/swap.h"
#include "broker/memory/snapshot.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"

/* For one session: making it takes 0.1 ms a MiB on an H200, five times as long as moving
 * it. */
#define PREALLOC_MAX (2ull << 30)
/* Where several tenants may take turns all that one has leaves again and again. */
#define PREALLOC_MAX_TURNS UINT64_MAX
/* Parts of the device: with less free than 1/FREE_LOW there is pressure, with more than
 * 1/FREE_HIGH it ends. */
#define FREE_LOW  4
#define FREE_HIGH 3
/* With so much ready the next allocations are served; more need not be exact. */
#define PREALLOC_LEAST (256ull << 20)
/* Time between two messages: what sessions have changes all the time. */
#define PREALLOC_NS (100 * NSEC_PER_MSEC)

static bool is_news(uint64_t bytes, uint64_t told)
{
	if (bytes > told && told < PREALLOC_LEAST)
		return true;
	return bytes != told && (!bytes || bytes >= 2 * told || bytes <= told / 2);
}

/* Returns true if that is something new. */
static bool tell(struct worker *w, uint64_t bytes)
{
	struct msg m = {.type = MSG_PREALLOC, .prealloc.bytes = bytes};

	if (w->resume_id || w->cannot_move || !is_news(bytes, w->move.pool))
		return false;
	/* One that does not read hears of it later. */
	if (outbox_is_read(&w->out) && outbox_tell(&w->out, &m, -1, -1) == 0)
		w->move.pool = bytes;
	return true;
}

static bool may_take_turns(const struct broker *b)
{
	const struct tenant *t;
	unsigned n = 0;

	list_for_each (t, &b->tenants, link)
		n += t->n_sessions != 0;
	return b->time->by_memory && n > 1;
}

/* Returns a session's part of half of the host memory that is left: all get as much. */
static uint64_t part(const struct broker *b)
{
	uint64_t left = b->swap > b->evicted ? b->swap - b->evicted : 0;
	uint64_t most = may_take_turns(b) ? PREALLOC_MAX_TURNS : PREALLOC_MAX;

	return b->pressed && b->n_sessions
		       ? MIN(most, left / 2 / b->n_sessions / b->piece * b->piece)
		       : 0;
}

void prealloc_pause(struct broker *b, uint64_t until_ns)
{
	struct worker *w;

	list_for_each (w, &b->workers, link)
		atomic_store(&w->count->host_pause_ns, until_ns);
}

void prealloc_mapping(struct broker *b, uint64_t until_ns)
{
	struct worker *w;

	list_for_each (w, &b->workers, link)
		atomic_store(&w->count->mapping_until_ns, until_ns);
}

bool prealloc_pressed(struct broker *b)
{
	uint64_t room = account_free(b);

	b->pressed = room < b->device_total / (b->pressed ? FREE_HIGH : FREE_LOW);
	return b->pressed;
}

uint64_t prealloc_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct worker *w;
	uint64_t most;
	bool again;

	if (!b->swap || !(b->prealloc_due || b->prealloc_again))
		return UINT64_MAX;
	if (now_ns < b->prealloc_at_ns)
		return b->prealloc_at_ns;
	/* A worker writes what could move after it has been granted that. */
	again = prealloc_pressed(b) && b->prealloc_due;
	most = part(b);
	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION)
			again |= tell(w, MIN(most, snapshot_movable(w, SNAPSHOT_QUIET)));
	}
	swap_tell_keep(b); /* others may have left more of what there is */
	b->prealloc_due = false;
	b->prealloc_again = again;
	b->prealloc_at_ns = now_ns + PREALLOC_NS;
	return again ? b->prealloc_at_ns : UINT64_MAX;
}
