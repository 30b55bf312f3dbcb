/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host: what guests share with the device, and what they make their workers
 * hold. The first lies in the window in a VM, where this keeps the places; they are given
 * out in multiples of the grain. Each tenant has a limit for either, and there is one for
 * all tenants together.
 */
#include <errno.h>

#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/memory/account_host.h"
#include "broker/tenant.h"
#include "broker/window.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "wire.h"

/* Granted ahead of use, so that few charges cost a message. */
#define WMEM_STEP (8ull << 20)
#define WMEM_LANE ACCOUNT_WMEM_LANE

static uint64_t room(uint64_t max, uint64_t used)
{
	return max > used ? max - used : 0;
}

/* ---- worker memory ---- */

uint64_t account_wmem(const struct worker *w)
{
	return w->wmem - MIN(credit_spare(&w->count->wmem), w->wmem);
}

uint64_t account_wmem_tenant(const struct tenant *t)
{
	const struct worker *w;
	uint64_t sum = 0;

	list_for_each (w, &t->workers, tenant_link)
		sum += account_wmem(w);
	return sum;
}

static void book(const struct worker *w)
{
	if (!w->book)
		return;
	w->book->wmem = w->wmem;
	w->book->n_lanes = w->n_lanes;
}

static void ungrant(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->wmem);
	w->wmem -= bytes;
	book(w);
	w->tenant->wmem -= bytes;
	w->b->host -= bytes;
}

/* Takes back what the tenant's workers were granted ahead of use. */
static void take_back(const struct tenant *t)
{
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link)
		ungrant(w, credit_drain(&w->count->wmem));
}

static void take_back_all(const struct broker *b)
{
	const struct tenant *t;

	list_for_each (t, &b->tenants, link)
		take_back(t);
}

/* True if there are so many bytes for the tenant, perhaps once others gave back what they
 * do not use. */
static bool has_room(struct tenant *t, uint64_t bytes)
{
	struct broker *b = t->b;

	if (bytes > room(t->wmem_max, t->wmem))
		take_back(t);
	if (bytes > room(b->host_max, b->host))
		take_back_all(b);
	return bytes <= room(t->wmem_max, t->wmem) && bytes <= room(b->host_max, b->host);
}

static int refused(struct tenant *t)
{
	if (log_limit_ok(&t->log_limit, 2))
		log_warning("tenant %s: its workers hold all that worker.memory.max, or "
			    "host.max of all tenants, allows",
			    t->name);
	return -EDQUOT;
}

static void grant(struct worker *w, uint64_t bytes)
{
	w->wmem += bytes;
	book(w);
	w->tenant->wmem += bytes;
	w->b->host += bytes;
}

int account_wmem_charge(struct worker *w, uint64_t bytes)
{
	struct tenant *t = w->tenant;
	uint64_t ahead = WMEM_STEP;

	if (bytes > UINT64_MAX - ahead || !has_room(t, bytes))
		return refused(t);
	if (bytes + ahead > room(t->wmem_max, t->wmem) ||
	    bytes + ahead > room(w->b->host_max, w->b->host))
		ahead = 0;
	grant(w, bytes + ahead);
	credit_give(&w->count->wmem, ahead);
	return 0;
}

unsigned account_lanes(const struct worker *w)
{
	/* The worker's word: one that lies has fewer lanes counted. */
	uint64_t ended =
		atomic_load_explicit(&w->count->lanes_ended, memory_order_relaxed);

	return (unsigned)(w->n_passed - MIN(ended, w->n_passed));
}

unsigned account_lanes_tenant(const struct tenant *t)
{
	const struct worker *w;
	unsigned n = 0;

	list_for_each (w, &t->workers, tenant_link)
		n += account_lanes(w);
	return n;
}

int account_wmem_lane(struct worker *w)
{
	unsigned now = account_lanes(w);

	for (; w->n_lanes <= MIN(now, WIRE_SESSIONS_MAX); w->n_lanes++) {
		if (!has_room(w->tenant, WMEM_LANE))
			return refused(w->tenant);
		grant(w, WMEM_LANE);
	}
	book(w);
	return 0;
}

/* ---- what is shared with the device ---- */

int account_host_charge(struct worker *w, uint64_t bytes, uint64_t *ret_offset)
{
	struct tenant *t = w->tenant;
	uint64_t offset = 0;
	int r;

	if (!bytes || bytes > room(t->host_max, t->host_used))
		return -EDQUOT;
	if (bytes > room(w->b->host_max, w->b->host))
		take_back_all(w->b);
	if (bytes > room(w->b->host_max, w->b->host))
		return -EDQUOT;
	if (w->in_window) {
		r = window_host_take(&t->window, bytes, w, &offset);
		if (r < 0)
			return r;
	}
	t->host_used += bytes;
	w->host_charged += bytes;
	w->b->host += bytes;
	*ret_offset = offset;
	return 0;
}

static void uncharge(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->host_charged);
	w->host_charged -= bytes;
	w->tenant->host_used -= bytes;
	w->b->host -= bytes;
}

void account_host_uncharge(struct worker *w, uint64_t offset, uint64_t bytes)
{
	if (w->in_window)
		bytes = window_host_give_back(&w->tenant->window, offset, w);
	uncharge(w, bytes);
}

void account_host_drop(struct worker *w)
{
	window_host_drop(&w->tenant->window, w);
	uncharge(w, w->host_charged);
	ungrant(w, w->wmem);
}
