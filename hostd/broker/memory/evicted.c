/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that has moved out of the device: what a worker was granted becomes what it has
 * evicted, and the other way round. Both together are the session's memory.
 *
 * A worker is believed as far as what it was granted goes: if it says more than is true,
 * it has less.
 */
#include <errno.h>

#include "base/macros.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/memory/account.h"
#include "broker/memory/ledger.h"
#include "broker/memory/swap.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

static void book(const struct worker *w)
{
	if (w->book)
		w->book->evicted = w->evicted;
}

static void add(struct worker *w, uint64_t bytes)
{
	w->b->pace.due |= !w->b->evicted; /* sessions may have to be bound now */
	w->evicted += bytes;
	book(w);
	w->tenant->evicted += bytes;
	w->b->evicted += bytes;
	swap_tell_keep(w->b);
}

static void sub(struct worker *w, uint64_t bytes)
{
	w->evicted -= bytes;
	book(w);
	w->tenant->evicted -= bytes;
	w->b->evicted -= bytes;
	swap_tell_keep(w->b);
}

static void add_returning(struct worker *w, uint64_t bytes)
{
	w->move.returning += bytes;
	w->tenant->returning += bytes;
	w->b->returning += bytes;
}

static void sub_returning(struct worker *w, uint64_t bytes)
{
	w->move.returning -= bytes;
	w->tenant->returning -= bytes;
	w->b->returning -= bytes;
}

static void set_early(struct worker *w, uint64_t bytes)
{
	w->tenant->freed_moving += bytes - w->freed_early;
	w->freed_early = bytes;
}

static void set_surplus(struct worker *w, uint64_t bytes)
{
	w->tenant->freed_moving += bytes - w->move.surplus;
	w->move.surplus = bytes;
}

uint64_t evicted_room(const struct tenant *t)
{
	const struct broker *b = t->b;

	return MIN(b->swap - MIN(b->swap, b->evicted),
		   t->memory.swap_max - MIN(t->memory.swap_max, t->evicted));
}

void spilled(struct worker *w, uint64_t bytes)
{
	add(w, bytes);
	w->was_evicted |= bytes > 0;
}

uint64_t evicted_left(struct worker *w, uint64_t bytes)
{
	uint64_t kept = w->overhead + w->move.returning + w->move.surplus, early;

	account_write_begin(w->b);
	account_take_back(w);
	bytes = MIN(bytes, w->charged > kept ? w->charged - kept : 0);
	add(w, bytes); /* first: the books have never less than there is */
	account_ungrant(w, bytes);
	early = MIN(w->freed_early, bytes);
	sub(w, early);
	set_early(w, w->freed_early - early);
	w->was_evicted |= bytes > 0;
	account_write_end(w->b);
	return bytes;
}

void evicted_left_all(struct worker *w)
{
	set_early(w, 0);
}

/* Less is evicted than was to come back. What was granted for it may be used for what is
 * spilled until the worker has said what came. */
static void returns_less(struct worker *w)
{
	uint64_t rest = w->move.returning - MIN(w->evicted, w->move.returning);

	sub_returning(w, rest);
	set_surplus(w, w->move.surplus + rest);
}

void evicted_freed(struct worker *w, uint64_t bytes)
{
	/* Shared memory is let go of by its name. */
	uint64_t now = MIN(bytes, w->evicted - MIN(w->evicted, w->evicted_shared));

	account_write_begin(w->b);
	sub(w, now);
	/* The worker may say so before it has said that it was moved out. */
	if (w->move.out_id)
		set_early(w, w->freed_early + MIN(bytes - now, w->charged));
	returns_less(w);
	account_write_end(w->b);
}

int evicted_return(struct worker *w, uint64_t bytes)
{
	if (bytes > account_gather(w->b))
		return -EAGAIN;
	account_write_begin(w->b);
	account_grant(w, bytes);
	add_returning(w, bytes);
	account_write_end(w->b);
	swap_tell_keep(w->b); /* before copies of it are there */
	return 0;
}

void evicted_returned(struct worker *w, uint64_t bytes)
{
	uint64_t granted = w->move.returning + w->move.surplus;
	uint64_t back = MIN(MIN(bytes, granted), w->evicted);

	account_write_begin(w->b);
	sub_returning(w, w->move.returning);
	set_surplus(w, 0);
	sub(w, back);
	account_ungrant(w, granted - back);
	account_write_end(w->b);
}

uint64_t evicted_waiting(const struct worker *w)
{
	uint64_t fixed = w->move.returning + w->evicted_shared;

	return w->evicted - MIN(w->evicted, fixed);
}

uint64_t evicted_share(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->evicted);
	w->evicted -= bytes;
	book(w);
	w->tenant->shared_evicted += bytes;
	returns_less(w);
	return bytes;
}

void evicted_share_end(struct tenant *t, uint64_t bytes)
{
	account_write_begin(t->b);
	t->shared_evicted -= bytes;
	t->evicted -= bytes;
	t->b->evicted -= bytes;
	t->b->reclaim_due |= bytes > 0;
	account_write_end(t->b);
}

void evicted_adopt(struct worker *w, uint64_t evicted, uint64_t early, uint64_t returning)
{
	sub(w, w->evicted);
	add(w, evicted);
	set_early(w, early);
	add_returning(w, returning);
	returns_less(w);
}

void evicted_drop(struct worker *w)
{
	if (!w->tenant)
		return;
	sub_returning(w, w->move.returning);
	set_surplus(w, 0);
	sub(w, w->evicted);
	set_early(w, 0);
}
