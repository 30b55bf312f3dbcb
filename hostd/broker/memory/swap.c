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

/* Bytes that it has on the device: copies are of these. */
static uint64_t here(const struct worker *w)
{
	return w->state == WORKER_SESSION ? left(w->charged, w->overhead) : 0;
}

static uint64_t part(uint64_t room, uint64_t of, uint64_t all)
{
	return all ? (uint64_t)((unsigned __int128)room * of / all) : room;
}

static void tell(const struct tenant *t, uint64_t room, uint64_t all)
{
	uint64_t own = left(t->memory.swap_max, t->evicted), sum = 0;
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link)
		sum += here(w);
	list_for_each (w, &t->workers, tenant_link) {
		uint64_t has = here(w);
		uint64_t most = MIN(part(room, has, all), part(own, has, sum));

		atomic_store_explicit(&w->count->host_keep_bytes, MAX(most, (uint64_t)1),
				      memory_order_relaxed);
	}
}

void swap_tell_keep(const struct broker *b)
{
	const struct tenant *t;
	const struct worker *w;
	uint64_t all = 0;

	list_for_each (w, &b->workers, link)
		all += here(w);
	list_for_each (t, &b->tenants, link)
		tell(t, left(b->swap, b->evicted), all);
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
