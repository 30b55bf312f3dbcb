/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: what placement policies are told, and what follows from that without
 * anybody being asked to move: how much an allocation could get.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/memory/ledger.h"
#include "broker/memory/snapshot.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "policies/placement.h"

/* Time after a grant within which the memory may not be there yet; once it is, the
 * worker's page counts it as movable. */
#define LATE_NS (50 * NSEC_PER_MSEC)
/* Time for which nothing comes back to a session that gave: the one that needed it often
 * needs more. */
#define GAVE_NS (25 * NSEC_PER_MSEC)
/* Time after a shortage for which the reserve is kept: a session that gave up memory
 * often wants it again. */
#define LATELY_NS (2 * NSEC_PER_SEC)

/* One that waits for memory until its turn comes does nothing meanwhile. */
static bool is_busy(const struct worker *w, uint64_t now_ns)
{
	const struct worker_move *m = &w->move;
	bool needs = m->needs && !w->tenant->pace.place;

	return now_ns != SNAPSHOT_QUIET &&
	       (m->out_id || m->in_id || needs || now_ns < m->busy_ns);
}

uint64_t snapshot_movable(const struct worker *w, uint64_t now_ns)
{
	uint64_t fixed = w->overhead + w->move.returning;
	uint64_t has = account_worker(w);

	if (w->resume_id || w->cannot_move)
		return 0;
	if (now_ns != SNAPSHOT_QUIET && now_ns < w->move.empty_ns)
		return 0;
	if (w->move.stuck && (now_ns == SNAPSHOT_QUIET || is_busy(w, now_ns)))
		return 0;
	return MIN(atomic_load(&w->count->movable_bytes), has > fixed ? has - fixed : 0);
}

uint64_t snapshot_cold(const struct worker *w)
{
	return MIN(atomic_load(&w->count->cold_bytes),
		   snapshot_movable(w, SNAPSHOT_QUIET));
}

uint64_t snapshot_cold_out(const struct worker *w)
{
	return MIN(atomic_load(&w->count->cold_out_bytes), evicted_waiting(w));
}

/* Memory that turns do without is left in host memory while there is no room for all. */
static uint64_t left_out(const struct worker *w)
{
	return w->b->all_fits ? 0 : snapshot_cold_out(w);
}

/* Returns how much of what w has evicted may come back without being asked for. */
static uint64_t returnable(const struct worker *w, uint64_t now_ns)
{
	bool manual = w->move.manual_ns &&
		      atomic_load(&w->count->last_submit_ns) <= w->move.manual_ns;

	if (w->resume_id || w->cannot_move || manual || now_ns < w->move.full_ns ||
	    now_ns < w->move.gave_ns + GAVE_NS)
		return 0;
	return evicted_waiting(w) - left_out(w);
}

static int grow(struct broker *b, uint32_t n)
{
	struct placement_tenant *p;
	uint64_t *shares;

	if (n <= b->seen_room)
		return 0;
	p = realloc(b->seen, 2 * sizeof(*p) * n);
	if (!p)
		return -ENOMEM;
	b->seen = p;
	shares = realloc(b->shares, 2 * sizeof(*shares) * n);
	if (!shares)
		return -ENOMEM;
	b->shares = shares;
	b->seen_room = 2 * n;
	return 0;
}

static uint64_t room(uint64_t max, uint64_t used)
{
	return max > used ? max - used : 0;
}

static void read_tenant(struct tenant *t, struct placement_tenant *ret)
{
	const struct conf_memory *m = &t->memory;

	*ret = (struct placement_tenant){
		.weight = m->weight,
		.resident = t->shared,
		.wanted = t->held,
		.asks = t->held,
		.evicted_room = room(m->swap_max, t->evicted),
		.min = m->min,
		.low = m->low,
		.high = m->high,
		.max = m->max,
		.turn = t->pace.place,
	};
}

/* Credit does not tell when it was taken from: it counts as now. */
static void watch(struct worker *w, uint64_t now_ns)
{
	uint64_t used = account_worker(w);

	if (now_ns == SNAPSHOT_QUIET)
		return;
	if (used > w->used_seen)
		w->used_ns = now_ns;
	w->used_seen = used;
}

uint64_t snapshot_late_until(const struct broker *b)
{
	const struct worker *w;
	uint64_t last = 0;

	list_for_each (w, &b->workers, link)
		last = MAX(last, w->used_ns);
	return last ? last + LATE_NS : 0;
}

/* A tenant is busy if none of its sessions could do anything now. */
static void add_worker(const struct worker *w, uint64_t now_ns, bool *quiet,
		       struct placement_tenant *ret)
{
	uint64_t movable = snapshot_movable(w, now_ns), comes = returnable(w, now_ns);
	uint64_t waits = evicted_waiting(w) - left_out(w);

	ret->resident += account_worker(w);
	if (w->ending_ns)
		return; /* it is free in a moment, and nothing is to come back */
	/* One whose turn it is computes: it gives afterwards. Where all fits nobody does without. */
	if (!w->b->all_fits && (w->tenant->pace.place || !w->b->pace.turns))
		ret->cold += snapshot_cold(w);
	ret->evicted += comes;
	ret->wanted += waits - MIN(comes, waits);
	if (!movable && !comes)
		return;
	if (is_busy(w, now_ns)) {
		ret->movable += *quiet ? 0 : movable;
		ret->busy = !*quiet;
		return;
	}
	ret->movable = movable + (*quiet ? ret->movable : 0);
	*quiet = true;
	ret->busy = false;
}

/* Whether the reserve is to be kept follows from what everybody wants. */
static void set_reserve(const struct broker *b, const struct placement_tenant *t,
			uint32_t n, struct placement_device *d)
{
	d->reserve = b->placement->scarce(d, t, n) ? b->reserve : 0;
}

static bool all_fits(const struct broker *b)
{
	const struct worker *w;
	uint64_t waits = 0;

	list_for_each (w, &b->workers, link)
		waits += evicted_waiting(w);
	return waits && waits <= account_free(b);
}

int snapshot_read(struct broker *b, uint64_t now_ns, struct snapshot *ret)
{
	uint64_t missing;
	struct tenant *t;
	struct worker *w;
	uint32_t n = 0;

	list_for_each (t, &b->tenants, link)
		t->index = n++;
	if (grow(b, MAX(n, 1u)) < 0)
		return -ENOMEM;
	b->all_fits = all_fits(b);
	list_for_each (t, &b->tenants, link) {
		bool quiet = false;

		read_tenant(t, &b->seen[t->index]);
		list_for_each (w, &t->workers, tenant_link) {
			watch(w, now_ns);
			add_worker(w, now_ns, &quiet, &b->seen[t->index]);
		}
	}
	*ret = (struct snapshot){.tenants = b->seen, .n = n};
	ret->device.total = room(b->device_total, account_set_aside(b, &missing));
	ret->device.free = account_free(b);
	ret->device.host_room = room(b->swap, b->evicted);
	ret->device.piece = b->piece;
	set_reserve(b, ret->tenants, n, &ret->device);
	if (ret->device.reserve && now_ns != SNAPSHOT_QUIET)
		b->scarce_ns = now_ns;
	return 0;
}

void snapshot_share(struct broker *b, struct snapshot *now)
{
	b->placement->shares(&now->device, now->tenants, now->n, b->shares);
	now->device.shares = b->shares;
}

uint64_t snapshot_kept(const struct broker *b, const struct snapshot *now,
		       uint64_t now_ns)
{
	bool lately = b->scarce_ns && now_ns < b->scarce_ns + LATELY_NS;

	return lately && !now->device.reserve ? b->reserve : 0;
}

static void read_session(const struct worker *w, uint64_t now_ns,
			 struct placement_session *ret)
{
	uint64_t last = atomic_load(&w->count->last_submit_ns);

	*ret = (struct placement_session){
		.movable = snapshot_movable(w, now_ns),
		.evicted = returnable(w, now_ns),
		.idle_ns = now_ns > MAX(last, w->attached_ns)
				   ? now_ns - MAX(last, w->attached_ns)
				   : 0,
		.busy = is_busy(w, now_ns),
		.turns = w->b->time->by_memory,
	};
}

struct worker *snapshot_session(struct tenant *t, bool comes, uint64_t now_ns,
				struct placement_session *ret_session)
{
	struct placement_session some[64];
	const struct placement *p = t->b->placement;
	struct worker *w, *of[ARRAY_SIZE(some)];
	uint32_t n = 0, i;

	list_for_each (w, &t->workers, tenant_link) {
		if (w->ending_ns)
			continue;
		/* If there are very many, the best so far is compared with the next. */
		if (n == ARRAY_SIZE(some)) {
			i = comes ? p->session_comes(some, n)
				  : p->session_leaves(some, n);
			n = 0;
			if (i < ARRAY_SIZE(some)) {
				some[0] = some[i];
				of[n++] = of[i];
			}
		}
		of[n] = w;
		read_session(w, now_ns, &some[n++]);
	}
	i = comes ? p->session_comes(some, n) : p->session_leaves(some, n);
	if (i >= n)
		return NULL;
	*ret_session = some[i];
	return of[i];
}

/* ---- what an allocation could get ---- */

/* True if the bytes that are `missing` on the device could be in host memory from the
 * beginning (memory/grant.h), in whole pieces. */
static bool could_be_evicted(const struct placement_device *d,
			     const struct placement_tenant *t, uint64_t bytes,
			     uint64_t missing)
{
	uint64_t here = ALIGN_DOWN(bytes - missing, d->piece);

	return !missing || bytes - here <= MIN(d->host_room, t->evicted_room);
}

/* Plays what reclaim.c would do for a tenant that asks for so much. What moves does not
 * change what tenants want, so shares stay as they are. */
static bool could_have(const struct broker *b, const struct snapshot *now, uint32_t asks,
		       uint64_t bytes, struct placement_tenant *t)
{
	struct placement_device d = now->device;
	uint64_t missing = bytes - MIN(bytes, d.free);
	struct placement_step step;

	memcpy(t, now->tenants, now->n * sizeof(*t));
	t[asks].wanted += bytes;
	t[asks].asks += bytes;
	set_reserve(b, t, now->n, &d);
	b->placement->shares(&d, t, now->n, b->shares);
	d.shares = b->shares;
	d.free -= MIN(bytes, d.free);
	while (missing &&
	       b->placement->victim(&d, t, now->n, asks, missing, &step) == 0) {
		struct placement_tenant *v = &t[step.tenant];
		uint64_t left = MIN(step.bytes, v->movable);

		if (!left)
			break;
		v->movable -= left;
		v->resident -= MIN(left, v->resident);
		v->evicted += left;
		v->evicted_room -= MIN(left, v->evicted_room);
		d.host_room -= MIN(left, d.host_room);
		missing -= MIN(left, missing);
	}
	return could_be_evicted(&d, &t[asks], bytes, missing);
}

uint64_t snapshot_within_reach(struct tenant *t, uint64_t at_most)
{
	struct broker *b = t->b;
	struct placement_tenant *scratch;
	uint64_t have, have_not;
	struct snapshot now;

	if (t->removed || snapshot_read(b, SNAPSHOT_QUIET, &now) < 0)
		return 0;
	have = MIN(at_most, now.device.free);
	scratch = calloc(now.n, sizeof(*scratch));
	if (!scratch)
		return have;
	if (could_have(b, &now, t->index, at_most, scratch))
		have = at_most;
	/* In pieces beyond what is free. */
	have_not = (at_most - have) / b->piece + 1;
	for (uint64_t more = 0; have_not - more > 1;) {
		uint64_t half = more + (have_not - more) / 2;

		if (could_have(b, &now, t->index, have + half * b->piece, scratch))
			more = half;
		else
			have_not = half;
	}
	have += (have_not - 1) * b->piece;
	free(scratch);
	return have;
}
