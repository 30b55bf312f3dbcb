/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/shared.h"
#include "broker/memory/ledger.h"
#include "broker/operator/events.h"
#include "broker/tenant.h"
#include "broker/workers.h"

/* Programs that use the device learn of a fault from their next call. So long after it those
 * that do not are ended as well. */
#define GRACE_NS NSEC_PER_SEC

bool shared_used(const struct broker *b)
{
	const struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (t->compute.shared && t->sessions_max)
			return true;
	}
	return false;
}

bool shared_works(const struct broker *b)
{
	return !b->shared_ends_ns;
}

static void end(struct worker *w)
{
	w->killed = true;
	account_ending(w, clock_now_ns());
	child_kill(&w->child);
}

/* Ends those that serve nobody. */
static void end_idle(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->kind == WORKER_SHARED && w->state != WORKER_SESSION && !w->killed)
			end(w);
	}
}

int shared_lost(struct worker *w)
{
	struct broker *b = w->b;

	if (w->kind != WORKER_SHARED)
		return -EPROTO;
	if (b->shared_ends_ns)
		return 0;
	log_warning(
		"class shared: tenant %s session %llu has lost its context: all sessions "
		"of the class end",
		w->tenant->name, (unsigned long long)w->session);
	event_post(b, event_new(b, "shared.lost", w->tenant, w->session));
	b->shared_ends_ns = clock_now_ns() + GRACE_NS;
	end_idle(b);
	return 0;
}

/* Returns whether there is nobody to end any more. */
static bool end_sessions(struct broker *b)
{
	struct worker *w;
	bool none = true;

	list_for_each (w, &b->workers, link) {
		if (w->kind != WORKER_SHARED)
			continue;
		none = false;
		if (w->killed)
			continue;
		w->why = "a fault in class shared";
		end(w);
	}
	return none;
}

uint64_t shared_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;

	if (b->pools[true].n_idle && !shared_used(b))
		end_idle(b);
	if (!b->shared_ends_ns || now_ns < b->shared_ends_ns)
		return b->shared_ends_ns ? b->shared_ends_ns : UINT64_MAX;
	if (end_sessions(b)) {
		b->shared_ends_ns = 0;
		b->serve_guests(b);
	}
	return UINT64_MAX;
}
