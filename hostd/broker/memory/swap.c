/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/memory/swap.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

static uint64_t left(uint64_t max, uint64_t used)
{
	return max > used ? max - used : 0;
}

static unsigned sessions_of(const struct tenant *t)
{
	const struct worker *w;
	unsigned n = 0;

	list_for_each (w, &t->workers, tenant_link)
		n += w->state == WORKER_SESSION;
	return n;
}

void swap_tell_keep(const struct tenant *t)
{
	const struct broker *b = t->b;
	uint64_t room =
		MIN(left(b->swap, b->evicted) / MAX(b->n_sessions, 1u),
		    left(t->memory.swap_max, t->evicted) / MAX(sessions_of(t), 1u));
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link)
		atomic_store_explicit(&w->count->host_keep_bytes, MAX(room, (uint64_t)1),
				      memory_order_relaxed);
}

uint64_t swap_worker(const struct worker *w)
{
	/* The worker's word; copies are of what it has been granted. */
	uint64_t kept = atomic_load_explicit(&w->count->kept_bytes, memory_order_relaxed);

	return w->evicted - w->move.returning + MIN(kept, w->charged);
}

uint64_t swap_tenant(const struct tenant *t)
{
	const struct worker *w;
	uint64_t sum = t->evicted - t->returning;

	list_for_each (w, &t->workers, tenant_link)
		sum += swap_worker(w) - (w->evicted - w->move.returning);
	return sum;
}

uint64_t swap_device(const struct broker *b)
{
	const struct tenant *t;
	uint64_t sum = b->evicted;

	list_for_each (t, &b->tenants, link)
		sum += swap_tenant(t) - (t->evicted - t->returning);
	return sum;
}
