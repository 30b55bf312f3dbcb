/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges: what a session may have more, what it is granted of that, and what it is told
 * that there is left. account.c has the books.
 */
#include <errno.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/memory/account.h"
#include "broker/memory/ledger.h"
#include "broker/memory/snapshot.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

/* Granted ahead at most, and of what is left: so that a few sessions that ask in turn do
 * not take it from each other all the time. */
#define AHEAD_MAX   (256ull << 20)
#define AHEAD_SHARE 16

/* Up to memory.high: who crosses it is to be noticed. Nothing while somebody waits, who
 * would only take it back. */
static void grant_ahead(struct worker *w)
{
	const struct tenant *t = w->tenant;
	uint64_t room = MIN(account_room(t), account_device_room(w->b));
	uint64_t high = t->memory.high > t->granted ? t->memory.high - t->granted : 0;
	uint64_t ahead = MIN(MIN(room, high) / AHEAD_SHARE, AHEAD_MAX);

	if (!list_empty(&w->b->waiters))
		return;
	account_grant(w, ahead);
	credit_give(credit_of(w), ahead);
}

/* For its limit, or because the device is no larger. */
static int refuse(struct tenant *t)
{
	if (t->memory.max == UINT64_MAX) {
		t->events.oom++;
		return -ENOMEM;
	}
	t->events.max++;
	return -EDQUOT;
}

static int may(struct worker *w, uint64_t bytes, uint64_t held)
{
	struct tenant *t = w->tenant;

	if (account_room(t) < held || bytes > account_room(t) - held)
		account_take_back_tenant(t);
	if (account_room(t) >= held && bytes <= account_room(t) - held)
		return 0;
	if (bytes <= account_max(t) && account_gets_room(t))
		return -EAGAIN;
	return refuse(t);
}

int account_may(struct worker *w, uint64_t bytes)
{
	int r;

	account_write_begin(w->b);
	r = may(w, bytes, w->tenant->held);
	account_write_end(w->b);
	return r;
}

static int charge(struct worker *w, uint64_t bytes, bool part)
{
	struct broker *b = w->b;
	int r;

	account_take_back(w);
	r = may(w, bytes, 0);
	if (r < 0)
		return r;
	if (bytes > account_device_room(b))
		account_take_back_all(b);
	if (bytes > account_device_room(b)) {
		if (b->swap ? part || bytes <= b->device_total
			    : b->n_ending && bytes <= b->device_total)
			return -EAGAIN;
		w->tenant->events.oom++;
		return -ENOMEM;
	}
	account_grant(w, bytes);
	return 0;
}

int account_charge(struct worker *w, uint64_t bytes, bool part)
{
	int r;

	account_write_begin(w->b);
	r = charge(w, bytes, part);
	account_sample(w->tenant);
	if (r == 0)
		grant_ahead(w);
	account_write_end(w->b);
	return r;
}

static int charge_part(struct worker *w, uint64_t bytes, uint64_t here,
		       uint64_t *ret_evicted)
{
	struct broker *b = w->b;
	int r;

	account_take_back_all(b);
	r = may(w, bytes, 0);
	if (r < 0)
		return r;
	here = MIN(here, account_device_room(b));
	here = here < bytes ? ALIGN_DOWN(here, b->piece) : bytes;
	if (bytes - here > evicted_room(w->tenant))
		return -ENOMEM;
	account_grant(w, here);
	spilled(w, bytes - here);
	*ret_evicted = bytes - here;
	return 0;
}

int account_charge_part(struct worker *w, uint64_t bytes, uint64_t here,
			uint64_t *ret_evicted)
{
	int r;

	account_write_begin(w->b);
	r = charge_part(w, bytes, here, ret_evicted);
	account_sample(w->tenant);
	account_write_end(w->b);
	return r;
}

int account_attach(struct worker *w, struct tenant *t)
{
	if (w->overhead > account_room(t)) {
		account_write_begin(w->b);
		account_take_back_tenant(t);
		account_write_end(w->b);
	}
	if (w->overhead > account_room(t))
		return t->n_ending ? -EAGAIN : refuse(t);
	account_write_begin(w->b);
	t->granted += w->charged;
	t->n_sessions++;
	w->b->n_sessions++;
	w->b->n_ready--;
	w->b->reclaim_due = true; /* room for the next context */
	w->tenant = t;
	list_append(&t->workers, &w->tenant_link);
	account_write_end(w->b);
	return 0;
}

void account_end(struct worker *w)
{
	struct broker *b = w->b;

	account_write_begin(b);
	if (w->ending_ns) {
		w->tenant->n_ending--;
		b->n_ending--;
	}
	if (has_session(w)) {
		account_sample(w->tenant);
		w->tenant->n_sessions--;
		b->n_sessions--;
	}
	if (w->state == WORKER_READY)
		b->n_ready--;
	evicted_drop(w);
	account_ungrant(w, w->charged);
	if (w->tenant)
		list_remove(&w->tenant_link);
	account_write_end(b);
}

/*
 * Steps from nothing to the whole device in which a tenant is told what others leave it,
 * so that it is no meter of what they do; of what the tenant does itself every byte is
 * told. Fewer steps would keep more back of what there is.
 */
#define SEEN_STEPS 64

static uint64_t in_steps(const struct tenant *t, uint64_t has, uint64_t left)
{
	const struct broker *b = t->b;
	uint64_t step = MAX(b->device_total / SEEN_STEPS, 1ull), all = has + left;

	if (b->n_sessions == t->n_sessions)
		return left; /* there are no others */
	all -= all % step;
	return all > has ? all - has : 0;
}

void account_left(struct tenant *t, uint64_t *ret_free, uint64_t *ret_total)
{
	uint64_t has = account_tenant(t) + t->evicted - t->returning;
	uint64_t size = account_size(t), quota = size > has ? size - has : 0;
	uint64_t device = account_free(t->b);

	*ret_free = MIN(device, quota);
	*ret_total = size;
	if (quota > device && t->b->swap)
		*ret_free = snapshot_within_reach(t, quota);
	if (*ret_free < quota)
		*ret_free = in_steps(t, has, *ret_free);
}
