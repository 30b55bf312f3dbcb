/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Soft pressure: when the device gets full, sessions that could have to give way keep
 * host memory ready, because making it takes longer than moving does. It is part of what
 * `swap` allows: what is away comes first.
 */
#include <errno.h>

#include "base/clock.h"
#include "broker/broker.h"
#include "session/session.h"

/* For one session: making it takes 0.2 ms a MiB on an H200, as long as moving ten. */
#define READY_MAX (1ull << 30)
/* Of the device: with less free there is pressure; it ends with more. */
#define FREE_LOW  8
#define FREE_HIGH 4
/* What sessions have changes all the time; they are not told that often. */
#define READY_NS (100 * NSEC_PER_MSEC)

static void tell(struct worker *w, uint64_t bytes)
{
	struct ctl_msg m = {.type = CTL_POOL, .bytes = bytes};
	uint64_t told = w->move.pool;

	if (bytes == told || (bytes && bytes < 2 * told && bytes > told / 2))
		return;
	/* One that does not read hears of it later. */
	if (ctl_send(w->ctl.fd, &m, -1, -1) == 0)
		w->move.pool = bytes;
}

/* The same part for everybody, of half of the host memory that is left. */
static uint64_t part(const struct broker *b)
{
	uint64_t left = b->swap > b->away ? b->swap - b->away : 0;

	return b->pressed && b->n_sessions
		       ? MIN(READY_MAX, left / 2 / b->n_sessions / b->chunk * b->chunk)
		       : 0;
}

uint64_t ready_tick(struct broker *b, uint64_t now_ns)
{
	uint64_t room = account_free(b);
	struct worker *w;

	if (!b->swap || !b->ready_due)
		return UINT64_MAX;
	if (now_ns < b->ready_at_ns)
		return b->ready_at_ns;
	b->ready_due = false;
	b->ready_at_ns = now_ns + READY_NS;
	b->pressed = room < b->device_total / (b->pressed ? FREE_HIGH : FREE_LOW);
	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION)
			tell(w, MIN(part(b), numbers_movable(w, now_ns)));
	}
	return UINT64_MAX;
}
