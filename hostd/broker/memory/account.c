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
 * What has moved out to host memory (away.c) is not granted any more, but counts towards
 * the tenant's limit.
 */
#include <errno.h>

#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/memory/ledger.h"
#include "broker/memory/snapshot.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "util/conf.h"

/* Granted ahead at most, and of what is left: so that a few sessions that ask in turn do
 * not take it from each other all the time. */
#define AHEAD_MAX   (256ull << 20)
#define AHEAD_SHARE 16

/* The reserve: a small part of the device, and no more than several allocations are
 * large that a program makes at once. */
#define RESERVE_SHARE 64
#define RESERVE_MAX   (512ull << 20)

static struct credit *credit_of(const struct worker *w)
{
	return &w->count->credit;
}

static bool has_session(const struct worker *w)
{
	return w->state == WORKER_SESSION;
}

void account_open(struct broker *b, uint64_t total)
{
	const struct conf *c = b->conf;
	uint64_t reserve;

	b->device_total = c->memory ? MIN(total, c->memory) : total;
	reserve = MIN(b->device_total / RESERVE_SHARE, RESERVE_MAX);
	if (c->reserve != UINT64_MAX)
		reserve = MIN(c->reserve, b->device_total / 2);
	b->reserve = reserve / b->chunk * b->chunk;
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
static void sample(struct tenant *t)
{
	struct worker *w;
	uint64_t sum = t->shared;

	list_for_each (w, &t->workers, tenant_link) {
		uint64_t now = account_worker(w), own;

		own = w->overhead +
		      MIN(atomic_load(&w->count->memory_peak_bytes), w->granted_peak);
		/* Its own peak counts what is away as well. */
		w->peak = MAX(w->peak, w->was_away ? now : MAX(now, own));
		t->peak = MAX(t->peak, w->peak);
		sum += now;
	}
	t->peak = MAX(t->peak, sum);
}

uint64_t account_peak(struct tenant *t)
{
	sample(t);
	return t->peak;
}

void account_grant(struct worker *w, uint64_t bytes)
{
	w->charged += bytes;
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
static void take_back_tenant(const struct tenant *t)
{
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link)
		account_take_back(w);
}

static void take_back_all(struct broker *b)
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

/* What counts towards the limit. */
static uint64_t tenant_has(const struct tenant *t)
{
	return t->granted + t->away - t->returning;
}

/* It will have more room in a moment. */
static bool gets_room(const struct tenant *t)
{
	return t->freed_moving || t->n_ending;
}

/* More than the device has only where somebody said so: who has no limit has a device as
 * large as this one, and is to be told when it is full. */
static uint64_t tenant_max(const struct tenant *t)
{
	return t->memory.max == UINT64_MAX ? t->b->device_total : t->memory.max;
}

static uint64_t tenant_room(const struct tenant *t)
{
	uint64_t max = tenant_max(t), has = tenant_has(t);

	return max > has ? max - has : 0;
}

/* What programs see as the size of the device. */
static uint64_t tenant_size(const struct tenant *t)
{
	const struct broker *b = t->b;
	/* What is away above a limit that was lowered stays away. */
	uint64_t away = MIN(b->swap, MAX(t->memory.swap_max, t->away));
	uint64_t all = b->device_total + away;

	return MIN(all < away ? UINT64_MAX : all, tenant_max(t));
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

static uint64_t device_room(const struct broker *b)
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
	uint64_t size = tenant_size(t), has = tenant_has(t), total = 0;
	uint64_t quota = size > has ? size - has : 0, device = device_room(b);
	struct credit *p = credit_of(w);
	bool over = has > tenant_max(t) || b->granted > b->device_total;

	/* Only where nobody else's credit enters into the sum, nor what could move out. */
	if (t->n_sessions == 1 && (quota <= device || (b->n_sessions == 1 && !b->swap)))
		total = size;
	if (over || has > size || gets_room(t))
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

/* Up to memory.high: who crosses it is to be noticed. Nothing while somebody waits, who
 * would only take it back. */
static void grant_ahead(struct worker *w)
{
	const struct tenant *t = w->tenant;
	uint64_t room = MIN(tenant_room(t), device_room(w->b));
	uint64_t high = t->memory.high > t->granted ? t->memory.high - t->granted : 0;
	uint64_t ahead = MIN(MIN(room, high) / AHEAD_SHARE, AHEAD_MAX);

	if (!list_empty(&w->b->waiters))
		return;
	account_grant(w, ahead);
	credit_put(credit_of(w), ahead);
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

	if (tenant_room(t) < held || bytes > tenant_room(t) - held)
		take_back_tenant(t);
	if (tenant_room(t) >= held && bytes <= tenant_room(t) - held)
		return 0;
	if (bytes <= tenant_max(t) && gets_room(t))
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

uint64_t account_gather(struct broker *b)
{
	if (any_spare(b)) {
		account_write_begin(b);
		take_back_all(b);
		account_write_end(b);
	}
	return device_room(b);
}

static int charge(struct worker *w, uint64_t bytes, bool part)
{
	struct broker *b = w->b;
	int r;

	account_take_back(w);
	r = may(w, bytes, 0);
	if (r < 0)
		return r;
	if (bytes > device_room(b))
		take_back_all(b);
	if (bytes > device_room(b)) {
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
	sample(w->tenant);
	if (r == 0)
		grant_ahead(w);
	account_write_end(w->b);
	return r;
}

static int charge_part(struct worker *w, uint64_t bytes, uint64_t here,
		       uint64_t *ret_away)
{
	struct broker *b = w->b;
	int r;

	take_back_all(b);
	r = may(w, bytes, 0);
	if (r < 0)
		return r;
	here = MIN(here, device_room(b));
	here = here < bytes ? ALIGN_DOWN(here, b->chunk) : bytes;
	if (bytes - here > away_room(w->tenant))
		return -ENOMEM;
	account_grant(w, here);
	away_born(w, bytes - here);
	*ret_away = bytes - here;
	return 0;
}

int account_charge_part(struct worker *w, uint64_t bytes, uint64_t here,
			uint64_t *ret_away)
{
	int r;

	account_write_begin(w->b);
	r = charge_part(w, bytes, here, ret_away);
	sample(w->tenant);
	account_write_end(w->b);
	return r;
}

void account_ready(struct worker *w, uint64_t overhead)
{
	account_write_begin(w->b);
	if (overhead > device_room(w->b))
		take_back_all(w->b);
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

int account_attach(struct worker *w, struct tenant *t)
{
	if (w->overhead > tenant_room(t)) {
		account_write_begin(w->b);
		take_back_tenant(t);
		account_write_end(w->b);
	}
	if (w->overhead > tenant_room(t))
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

void account_begin(struct worker *w)
{
	credit_write_begin(credit_of(w));
	publish(w);
	credit_write_end(credit_of(w));
	sample(w->tenant);
}

void account_ending(struct worker *w, uint64_t now_ns)
{
	if (w->ending_ns || !has_session(w))
		return;
	w->ending_ns = now_ns;
	w->tenant->n_ending++;
	w->b->n_ending++;
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
		sample(w->tenant);
		w->tenant->n_sessions--;
		b->n_sessions--;
	}
	if (w->state == WORKER_READY)
		b->n_ready--;
	away_drop(w);
	account_ungrant(w, w->charged);
	if (w->tenant)
		list_remove(&w->tenant_link);
	account_write_end(b);
}

uint64_t account_share(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->charged);
	w->charged -= bytes;
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
	take_back_tenant(t);
	t->b->reclaim_due = true;
	account_write_end(t->b);
}

/*
 * What others leave a tenant is told in steps, so that it is no meter of what they do; of
 * what the tenant does itself every byte is told. Fewer steps would keep more back of
 * what there is.
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
	uint64_t has = account_tenant(t) + t->away - t->returning;
	uint64_t size = tenant_size(t), quota = size > has ? size - has : 0;
	uint64_t device = account_free(t->b);

	*ret_free = MIN(device, quota);
	*ret_total = size;
	if (quota > device && t->b->swap)
		*ret_free = snapshot_within_reach(t, quota);
	if (*ret_free < quota)
		*ret_free = in_steps(t, has, *ret_free);
}
