/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions whose work does not end. Memory moves while nothing that may use it runs, so
 * who needs some waits until the work of those who are to be evicted has ended; but a
 * kernel may never end. A session that was asked again and again for STUCK_NS and never
 * got quiet is stuck. Nobody waits for it any more: between two times that it is asked
 * its memory counts as memory that cannot move, so allocations begin in host memory or
 * are refused at once. It is asked on, whether anybody waits or not (reclaim.c), until
 * it has been evicted or got quiet; then it is as others are.
 *
 * One that keeps a tenant from what memory.min promises, for longer than reclaim.kill
 * allows, is ended: the one that has most, of a tenant that is above its share.
 */
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/memory/ledger.h"
#include "broker/memory/snapshot.h"
#include "broker/memory/stuck.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "util/size.h"

/* Less than a charge is held for, so that not even the first one waits to the end; more
 * than almost any kernel takes. */
#define STUCK_NS (20 * NSEC_PER_SEC)
/* While somebody waits it is asked as soon as it may be. If nobody did for so long, it
 * may have been quiet in between. */
#define ROW_NS (3 * NSEC_PER_SEC)

/* Promises are counted from now on. */
static void begin(struct worker *w)
{
	struct tenant *t;

	w->move.stuck = true;
	if (!w->b->n_stuck++) {
		list_for_each (t, &w->b->tenants, link)
			t->lacks_ns = 0;
	}
	if (log_limit_ok(&w->tenant->session_limit, SESSION_LINES))
		log_warning("tenant %s session %llu: its work has not ended for %u s; "
			    "nobody waits for its memory any more",
			    w->tenant->name, (unsigned long long)w->session,
			    (unsigned)(STUCK_NS / NSEC_PER_SEC));
}

void stuck_busy(struct worker *w, uint64_t now_ns)
{
	struct worker_move *m = &w->move;
	bool later = now_ns > m->busy_ns && now_ns - m->busy_ns > ROW_NS;

	if (!m->busy_since_ns || (later && !m->stuck))
		m->busy_since_ns = now_ns;
	if (!m->stuck && now_ns - m->busy_since_ns >= STUCK_NS)
		begin(w);
}

void stuck_end(struct worker *w)
{
	w->b->n_stuck -= w->move.stuck;
	w->move.stuck = false;
	w->move.busy_since_ns = 0;
}

/* Returns what a tenant is promised, wants, and does not have on the device. */
static uint64_t lacks(const struct placement_tenant *t)
{
	uint64_t wants = t->resident + t->evicted + t->wanted;
	uint64_t promised = MIN(MIN(t->min, wants), MIN(t->high, t->max));

	return promised > t->resident ? promised - t->resident : 0;
}

/* The stuck session that keeps it from a tenant; NULL: there is none. */
static struct worker *find(const struct tenant *t, const struct snapshot *now)
{
	struct worker *w, *found = NULL;

	list_for_each (w, &t->b->workers, link) {
		uint32_t i;

		if (!w->move.stuck || w->tenant == t || w->tenant->removed)
			continue;
		i = w->tenant->index;
		if (now->tenants[i].resident <= now->device.shares[i])
			continue;
		if (!found || account_worker(w) > account_worker(found))
			found = w;
	}
	return found;
}

static void end_session(struct worker *w, const struct tenant *t)
{
	char has[32];

	log_warning("tenant %s session %llu: is ended: its work does not end, and the %s "
		    "under it have kept tenant %s below memory.min for %llu s "
		    "(reclaim.kill)",
		    w->tenant->name, (unsigned long long)w->session,
		    size_format(account_worker(w), has, sizeof(has)), t->name,
		    (unsigned long long)(w->b->kill_ns / NSEC_PER_SEC));
	stuck_end(w);
	w->why = "its work did not end (reclaim.kill)";
	account_ending(w, clock_now_ns());
	child_kill(&w->child);
}

/* Less than a piece does not come back, and is nobody's fault, unless it is waited for.
 */
static bool is_kept_from(const struct tenant *t, const struct snapshot *now)
{
	uint64_t bytes = lacks(&now->tenants[t->index]);

	return bytes > now->device.free && (bytes >= t->b->piece || t->held);
}

void stuck_tick(struct broker *b, uint64_t now_ns)
{
	struct snapshot now;
	struct tenant *t;
	struct worker *w;

	if (!b->n_stuck || !b->kill_ns || snapshot_read(b, now_ns, &now) < 0)
		return;
	snapshot_share(b, &now);
	list_for_each (t, &b->tenants, link) {
		if (!is_kept_from(t, &now)) {
			t->lacks_ns = 0;
			continue;
		}
		if (!t->lacks_ns)
			t->lacks_ns = now_ns;
		if (now_ns - t->lacks_ns < b->kill_ns)
			continue;
		/* Memory of the one that ends is seen before another one is ended. */
		t->lacks_ns = now_ns;
		w = find(t, &now);
		if (w) {
			end_session(w, t);
			return;
		}
	}
}
