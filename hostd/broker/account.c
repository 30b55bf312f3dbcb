/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. A worker takes memory only after it was granted here, so a tenant's use
 * never exceeds its limit, nor all use the device. Grants run a little ahead of use
 * (util/purse.h); what is ahead is taken back, without asking the worker, before anything
 * is refused, so limits are exact all the same.
 *
 * A worker's page is believed up to what the worker was granted; all of that comes back
 * when the process is gone.
 */
#include <errno.h>

#include "broker/broker.h"
#include "session/session.h"

/* Granted ahead at most, and of what is left: so that a few sessions that ask in turn do
 * not take it from each other all the time. */
#define AHEAD_MAX   (256ull << 20)
#define AHEAD_SHARE 16

static struct purse *purse_of(const struct worker *w)
{
	return &w->count->purse;
}

static bool has_session(const struct worker *w)
{
	return w->state == WORKER_SESSION;
}

uint64_t account_worker(const struct worker *w)
{
	uint64_t spare = has_session(w) ? purse_spare(purse_of(w)) : 0;

	return w->charged - MIN(spare, w->charged);
}

uint64_t account_tenant(const struct tenant *t)
{
	const struct worker *w;
	uint64_t sum = t->shared;

	list_for_each (w, &t->b->workers, link) {
		if (has_session(w) && w->tenant == t)
			sum += account_worker(w);
	}
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

	list_for_each (w, &t->b->workers, link) {
		uint64_t now, own;

		if (!has_session(w) || w->tenant != t)
			continue;
		now = account_worker(w);
		own = w->overhead +
		      MIN(atomic_load(&w->count->memory_peak_bytes), w->granted_peak);
		w->peak = MAX(w->peak, MAX(now, own));
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

static void grant(struct worker *w, uint64_t bytes)
{
	w->charged += bytes;
	w->granted_peak = MAX(w->granted_peak, w->charged);
	w->b->granted += bytes;
	if (w->tenant)
		w->tenant->granted += bytes;
}

static void ungrant(struct worker *w, uint64_t bytes)
{
	w->charged -= bytes;
	w->b->granted -= bytes;
	if (w->tenant)
		w->tenant->granted -= bytes;
}

static void take_back(struct worker *w)
{
	uint64_t spare = purse_empty(purse_of(w));

	ungrant(w, MIN(spare, w->charged));
}

/* Takes back what is ahead of use: of a tenant's sessions, or (t NULL) of all. */
static void take_back_all(struct broker *b, const struct tenant *t)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (has_session(w) && (!t || w->tenant == t))
			take_back(w);
	}
}

static uint64_t tenant_room(const struct tenant *t)
{
	return t->memory.max > t->granted ? t->memory.max - t->granted : 0;
}

/* Workers that are about to be ready count already: what programs see as free does not
 * shrink because one of them starts. */
static uint64_t set_aside(const struct broker *b)
{
	return b->keep_ready > b->n_ready ? (b->keep_ready - b->n_ready) * b->overhead
					  : 0;
}

static uint64_t device_room(const struct broker *b)
{
	uint64_t taken = b->granted + set_aside(b);

	return b->device_total > taken ? b->device_total - taken : 0;
}

/* Writes into a purse what its session may find there by itself. */
static void publish(struct worker *w)
{
	struct tenant *t = w->tenant;
	struct broker *b = w->b;
	uint64_t quota = tenant_room(t), device = device_room(b), total = 0;
	struct purse *p = purse_of(w);
	bool over = t->granted > t->memory.max || b->granted > b->device_total;

	/* Only where nobody else's purse enters into the sum. */
	if (t->n_sessions == 1 && (quota <= device || b->n_sessions == 1))
		total = MIN(b->device_total, t->memory.max);
	if (over)
		total = 0;
	atomic_store_explicit(&p->left, MIN(quota, device), memory_order_relaxed);
	atomic_store_explicit(&p->total, total, memory_order_relaxed);
	atomic_store_explicit(&p->ask, over, memory_order_release);
}

static void write_begin(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (has_session(w))
			purse_write_begin(purse_of(w));
	}
}

static void write_end(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (!has_session(w))
			continue;
		publish(w);
		purse_write_end(purse_of(w));
	}
}

static void grant_ahead(struct worker *w)
{
	uint64_t room = MIN(tenant_room(w->tenant), device_room(w->b));
	uint64_t ahead = MIN(room / AHEAD_SHARE, AHEAD_MAX);

	grant(w, ahead);
	purse_put(purse_of(w), ahead);
}

static int charge(struct worker *w, uint64_t bytes)
{
	struct tenant *t = w->tenant;
	struct broker *b = w->b;

	take_back(w);
	if (bytes > tenant_room(t))
		take_back_all(b, t);
	if (bytes > tenant_room(t)) {
		t->events_max++;
		return -EDQUOT;
	}
	if (bytes > device_room(b))
		take_back_all(b, NULL);
	if (bytes > device_room(b)) {
		t->events_oom++;
		return -ENOMEM;
	}
	grant(w, bytes);
	return 0;
}

int account_charge(struct worker *w, uint64_t bytes)
{
	int r;

	write_begin(w->b);
	r = charge(w, bytes);
	sample(w->tenant);
	if (r == 0)
		grant_ahead(w);
	write_end(w->b);
	return r;
}

void account_ready(struct worker *w, uint64_t overhead)
{
	write_begin(w->b);
	if (overhead > device_room(w->b))
		take_back_all(w->b, NULL);
	w->overhead = overhead;
	grant(w, overhead);
	w->b->overhead = overhead;
	w->b->n_ready++;
	write_end(w->b);
}

void account_monitor(struct worker *w)
{
	write_begin(w->b);
	ungrant(w, w->overhead);
	w->overhead = 0;
	write_end(w->b);
}

int account_attach(struct worker *w, struct tenant *t)
{
	if (w->overhead > tenant_room(t)) {
		write_begin(w->b);
		take_back_all(w->b, t);
		write_end(w->b);
	}
	if (w->overhead > tenant_room(t)) {
		t->events_max++;
		return -EDQUOT;
	}
	write_begin(w->b);
	t->granted += w->charged;
	t->n_sessions++;
	w->b->n_sessions++;
	w->b->n_ready--;
	w->tenant = t;
	write_end(w->b);
	return 0;
}

void account_begin(struct worker *w)
{
	purse_write_begin(purse_of(w));
	publish(w);
	purse_write_end(purse_of(w));
	sample(w->tenant);
}

void account_end(struct worker *w)
{
	struct broker *b = w->b;

	write_begin(b);
	if (has_session(w)) {
		sample(w->tenant);
		w->tenant->n_sessions--;
		b->n_sessions--;
	}
	if (w->state == WORKER_READY)
		b->n_ready--;
	ungrant(w, w->charged);
	write_end(b);
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
	write_begin(t->b);
	t->shared -= bytes;
	t->b->shared -= bytes;
	t->granted -= bytes;
	t->b->granted -= bytes;
	write_end(t->b);
}

void account_set(struct tenant *t, const struct conf_memory *m)
{
	write_begin(t->b);
	t->memory = *m;
	take_back_all(t->b, t);
	write_end(t->b);
}

void account_left(const struct tenant *t, uint64_t *ret_free, uint64_t *ret_total)
{
	const struct broker *b = t->b;
	uint64_t used = account_tenant(t), all = account_device(b) + set_aside(b);
	uint64_t device = b->device_total > all ? b->device_total - all : 0;
	uint64_t quota = t->memory.max > used ? t->memory.max - used : 0;

	*ret_free = MIN(device, quota);
	*ret_total = MIN(b->device_total, t->memory.max);
}
