/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. A worker takes memory only after it was granted here, so a tenant's use
 * never exceeds its limit, nor all use the device. Grants run a little ahead of use
 * (ipc/credit.h); what is ahead is taken back, without asking the worker, before anything
 * is refused, so limits are exact all the same.
 *
 * A worker's page is believed up to what the worker was granted; all of that comes back
 * when the process is gone.
 *
 * What has moved out to host memory (evicted.c) is not granted any more, but counts
 * towards the tenant's limit.
 */
#include <errno.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/memory/account.h"
#include "broker/memory/ledger.h"
#include "broker/memory/swap.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "util/conf.h"

/* The reserve: a small part of the device, and no more than several allocations are
 * large that a program makes at once. */
#define RESERVE_SHARE 64
#define RESERVE_MAX   (512ull << 20)

void account_open(struct broker *b, uint64_t total)
{
	const struct conf *c = b->conf;
	uint64_t reserve;

	b->device_total = c->memory ? MIN(total, c->memory) : total;
	reserve = MIN(b->device_total / RESERVE_SHARE, RESERVE_MAX);
	if (c->reserve != UINT64_MAX)
		reserve = MIN(c->reserve, b->device_total / 2);
	b->reserve = reserve / b->piece * b->piece;
}

/* Granted for what has been freed since, on its way out or back: until the worker has
 * said what moved. */
static uint64_t freed_moving(const struct worker *w)
{
	return w->freed_early + w->move.surplus;
}

uint64_t account_worker(const struct worker *w)
{
	uint64_t spare = has_session(w) ? credit_spare(credit_of(w)) : 0;

	return w->charged - MIN(spare + freed_moving(w), w->charged);
}

uint64_t account_tenant(const struct tenant *t)
{
	const struct worker *w;
	uint64_t sum = t->shared;

	list_for_each (w, &t->workers, tenant_link)
		sum += account_worker(w);
	return sum;
}

uint64_t account_device(const struct broker *b)
{
	const struct worker *w;
	uint64_t sum = b->shared;

	list_for_each (w, &b->workers, link)
		sum += account_worker(w);
	return sum;
}

/* Peaks lie between two looks only where several sessions change at once; one session
 * counts its own. */
void account_sample(struct tenant *t)
{
	struct worker *w;
	uint64_t sum = t->shared;

	list_for_each (w, &t->workers, tenant_link) {
		uint64_t now = account_worker(w), own;

		own = w->overhead +
		      MIN(atomic_load(&w->count->memory_peak_bytes), w->granted_peak);
		/* The worker's own peak counts what is evicted as well. */
		w->peak = MAX(w->peak, w->was_evicted ? now : MAX(now, own));
		t->peak = MAX(t->peak, w->peak);
		sum += now;
	}
	t->peak = MAX(t->peak, sum);
}

uint64_t account_peak(struct tenant *t)
{
	account_sample(t);
	return t->peak;
}

/* Before the worker hears of it. */
static void book(const struct worker *w)
{
	if (w->book)
		w->book->charged = w->charged;
}

void account_grant(struct worker *w, uint64_t bytes)
{
	w->charged += bytes;
	book(w);
	w->granted_peak = MAX(w->granted_peak, w->charged);
	w->granted_most[0] = MAX(w->granted_most[0], w->charged);
	w->b->granted += bytes;
	if (w->tenant)
		w->tenant->granted += bytes;
	w->b->reclaim_due = w->b->prealloc_due = true;
}

void account_ungrant(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->charged);
	w->charged -= bytes;
	book(w);
	w->b->granted -= bytes;
	if (w->tenant)
		w->tenant->granted -= bytes;
	w->b->reclaim_due = w->b->prealloc_due = true;
}

void account_take_back(struct worker *w)
{
	/* To look first leaves the page alone where there is nothing. */
	if (credit_spare(credit_of(w)))
		account_ungrant(w, credit_drain(credit_of(w)));
}

/* Takes back what is ahead of use. */
void account_take_back_tenant(const struct tenant *t)
{
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link)
		account_take_back(w);
}

void account_take_back_all(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (has_session(w))
			account_take_back(w);
	}
}

static bool any_spare(const struct broker *b)
{
	const struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (has_session(w) && credit_spare(credit_of(w)))
			return true;
	}
	return false;
}

/* Returns the bytes that count towards the tenant's limit. */
static uint64_t tenant_has(const struct tenant *t)
{
	return t->granted + t->evicted - t->returning;
}

/* True if the tenant will have more room in a moment. */
bool account_gets_room(const struct tenant *t)
{
	return t->freed_moving || t->n_ending;
}

/* More than the device has only where somebody said so: who has no limit has a device as
 * large as this one, and is to be told when it is full. */
uint64_t account_max(const struct tenant *t)
{
	return t->memory.max == UINT64_MAX ? t->b->device_total : t->memory.max;
}

uint64_t account_room(const struct tenant *t)
{
	uint64_t max = account_max(t), has = tenant_has(t);

	return max > has ? max - has : 0;
}

/* Returns the size of the device as programs see it. */
uint64_t account_size(const struct tenant *t)
{
	const struct broker *b = t->b;
	/* Memory that is evicted above a limit that was lowered stays evicted. */
	uint64_t evicted = MIN(b->swap, MAX(t->memory.swap_max, t->evicted));
	uint64_t all = b->device_total + evicted;

	return MIN(all < evicted ? UINT64_MAX : all, account_max(t));
}

/* Workers that are about to be ready count already: what programs see as free does not
 * shrink because one of them starts. */
static uint64_t set_aside(const struct broker *b)
{
	return b->keep_ready > b->n_ready ? (b->keep_ready - b->n_ready) * b->overhead
					  : 0;
}

uint64_t account_set_aside(const struct broker *b, uint64_t *ret_missing)
{
	uint64_t taken = b->granted + set_aside(b), waiting = 0;
	const struct worker *w;

	list_for_each (w, &b->workers, link)
		waiting += has_session(w) ? 0 : w->charged;
	*ret_missing = taken > b->device_total ? taken - b->device_total : 0;
	return set_aside(b) + waiting;
}

uint64_t account_device_room(const struct broker *b)
{
	uint64_t taken = b->granted + set_aside(b);

	return b->device_total > taken ? b->device_total - taken : 0;
}

uint64_t account_free(const struct broker *b)
{
	uint64_t taken = account_device(b) + set_aside(b);

	return b->device_total > taken ? b->device_total - taken : 0;
}

/* Writes beside the credit what its session may find there by itself. */
static void publish(struct worker *w)
{
	struct tenant *t = w->tenant;
	struct broker *b = w->b;
	uint64_t size = account_size(t), has = tenant_has(t), total = 0;
	uint64_t quota = size > has ? size - has : 0, device = account_device_room(b);
	struct credit *p = credit_of(w);
	bool over = has > account_max(t) || b->granted > b->device_total;

	/* Only where nobody else's credit enters into the sum, nor what could move out. */
	if (t->n_sessions == 1 && (quota <= device || (b->n_sessions == 1 && !b->swap)))
		total = size;
	if (over || has > size || account_gets_room(t))
		total = 0;
	atomic_store_explicit(&p->left, MIN(quota, device), memory_order_relaxed);
	atomic_store_explicit(&p->total, total, memory_order_relaxed);
	atomic_store_explicit(&p->ask, over, memory_order_release);
}

void account_write_begin(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (has_session(w))
			credit_write_begin(credit_of(w));
	}
}

void account_write_end(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (!has_session(w))
			continue;
		publish(w);
		credit_write_end(credit_of(w));
	}
}

uint64_t account_gather(struct broker *b)
{
	if (any_spare(b)) {
		account_write_begin(b);
		account_take_back_all(b);
		account_write_end(b);
	}
	return account_device_room(b);
}

void account_ready(struct worker *w, uint64_t overhead)
{
	account_write_begin(w->b);
	if (overhead > account_device_room(w->b))
		account_take_back_all(w->b);
	w->overhead = overhead;
	account_grant(w, overhead);
	w->b->overhead = overhead;
	w->b->n_ready++;
	account_write_end(w->b);
}

void account_monitor(struct worker *w)
{
	account_write_begin(w->b);
	account_ungrant(w, w->overhead);
	w->overhead = 0;
	account_write_end(w->b);
}

void account_begin(struct worker *w)
{
	credit_write_begin(credit_of(w));
	publish(w);
	credit_write_end(credit_of(w));
	account_sample(w->tenant);
	swap_tell_keep(w->b);
}

void account_ending(struct worker *w, uint64_t now_ns)
{
	if (w->ending_ns || !has_session(w))
		return;
	w->ending_ns = now_ns;
	w->tenant->n_ending++;
	w->b->n_ending++;
}

uint64_t account_share(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->charged);
	w->charged -= bytes;
	book(w);
	w->tenant->shared += bytes;
	w->b->shared += bytes;
	return bytes;
}

void account_share_end(struct tenant *t, uint64_t bytes)
{
	account_write_begin(t->b);
	t->shared -= bytes;
	t->b->shared -= bytes;
	t->granted -= bytes;
	t->b->granted -= bytes;
	t->b->reclaim_due = true;
	account_write_end(t->b);
}

void account_set(struct tenant *t, const struct conf_memory *m)
{
	account_write_begin(t->b);
	t->memory = *m;
	account_take_back_tenant(t);
	swap_tell_keep(t->b);
	t->b->reclaim_due = true;
	account_write_end(t->b);
}
