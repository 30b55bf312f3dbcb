/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Until a worker has said what it has, it is charged with the most that it may have, so
 * that nobody is promised that meanwhile. What it says is believed up to that.
 *
 * What a session took out of its credit it has written there itself, since: so all that
 * it has is what messages granted and what the credit gave it, and what is spare of that
 * is taken back at the same time, as ever.
 */
#include <errno.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/memory/account.h"
#include "broker/memory/account_host.h"
#include "broker/memory/adopt.h"
#include "broker/memory/ledger.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"

static void set_evicted(struct worker *w, uint64_t bytes)
{
	w->tenant->evicted += bytes - w->evicted;
	w->b->evicted += bytes - w->evicted;
	w->evicted = bytes;
	if (w->book)
		w->book->evicted = bytes;
}

static void set_wmem(struct worker *w, uint64_t bytes)
{
	w->tenant->wmem += bytes - w->wmem;
	w->b->host += bytes - w->wmem;
	w->wmem = bytes;
	if (w->book)
		w->book->wmem = bytes;
}

void account_adopt(struct worker *w, const struct book_worker *k)
{
	struct tenant *t = w->tenant;

	account_write_begin(w->b);
	w->overhead = k->overhead;
	w->granted_peak = k->granted_peak;
	w->peak = k->peak;
	w->was_evicted = k->was_evicted;
	w->n_lanes = k->n_lanes;
	account_grant(w, k->charged);
	set_evicted(w, k->evicted);
	set_wmem(w, k->wmem);
	t->n_sessions++;
	w->b->n_sessions++;
	list_append(&t->workers, &w->tenant_link);
	account_write_end(w->b);
}

/* Returns 0 and the sum, which the page and two messages make; it is not less than 0. */
static int sum_of(uint64_t fixed, uint64_t granted, struct credit *c, uint64_t *ret)
{
	uint64_t all;

	(void)credit_drain(c);
	all = granted + atomic_load(&c->given);
	if ((int64_t)all < 0)
		return -EPROTO;
	*ret = fixed + all;
	return 0;
}

/* Moves that go on, which the worker will tell the end of. */
static int adopt_moves(struct worker *w, const struct msg_resumed *r)
{
	bool early = (int64_t)r->evicted < 0;

	if ((early && !r->out_id) || (r->returning && !r->in_id))
		return -EPROTO;
	w->move.out_id = r->out_id;
	w->move.room = r->out_room;
	w->move.in_id = r->in_id;
	w->move.at_gate = r->at_gate;
	evicted_adopt(w, early ? 0 : r->evicted, early ? 0 - r->evicted : 0,
		      r->returning);
	return 0;
}

int account_resumed(struct worker *w, const struct msg_resumed *r)
{
	uint64_t device, wmem, all, most = w->charged + w->evicted;
	uint64_t evicted = (int64_t)r->evicted < 0 ? 0 : r->evicted;
	int e = sum_of(w->overhead, r->device, credit_of(w), &device);

	if (e == 0)
		e = sum_of(w->n_lanes * ACCOUNT_WMEM_LANE, r->wmem, &w->count->wmem,
			   &wmem);
	if (e < 0 || wmem > w->wmem ||
	    __builtin_add_overflow(device, r->returning, &device) ||
	    __builtin_add_overflow(device, evicted, &all) || all > most)
		return -EPROTO;
	account_write_begin(w->b);
	account_ungrant(w, w->charged);
	account_grant(w, device);
	e = adopt_moves(w, r);
	set_wmem(w, wmem);
	account_write_end(w->b);
	return e;
}

int account_host_adopt(struct worker *w, uint64_t offset, uint64_t bytes)
{
	struct tenant *t = w->tenant;
	struct window *win = &t->window;
	uint64_t end;

	if (!bytes || __builtin_add_overflow(w->b->host, bytes, &end) ||
	    __builtin_add_overflow(offset, bytes, &end))
		return -EPROTO;
	if (w->in_window && (offset < win->host_first || end > win->size ||
			     range_insert(&win->host, offset, bytes, w) < 0))
		return -EPROTO;
	t->host_used += bytes;
	w->host_charged += bytes;
	w->b->host += bytes;
	return 0;
}

void account_share_back(struct worker *w, uint64_t here, uint64_t evicted)
{
	struct tenant *t = w->tenant;

	account_write_begin(w->b);
	t->shared -= here;
	w->b->shared -= here;
	w->charged += here;
	t->shared_evicted -= evicted;
	w->evicted += evicted;
	if (w->book) {
		w->book->charged = w->charged;
		w->book->evicted = w->evicted;
	}
	account_write_end(w->b);
}

void account_share_adopt(struct tenant *t, uint64_t here, uint64_t evicted)
{
	struct broker *b = t->b;

	account_write_begin(b);
	t->shared += here;
	b->shared += here;
	t->granted += here;
	b->granted += here;
	t->shared_evicted += evicted;
	t->evicted += evicted;
	b->evicted += evicted;
	account_write_end(b);
}
