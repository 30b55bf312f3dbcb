/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/operator/gpu_time.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

/* A worker's measure of how busy it is holds for so long. */
#define FRESH_NS    (1500 * NSEC_PER_MSEC)
#define NSEC_PER_US 1000u

static uint32_t percent_of(const struct worker *w, const _Atomic uint64_t *permille)
{
	if (clock_now_ns() - atomic_load(&w->count->busy_at_ns) >= FRESH_NS)
		return 0;
	return (uint32_t)MIN(atomic_load(permille) / 10, 100ull);
}

uint32_t gpu_busy(const struct worker *w)
{
	return percent_of(w, &w->count->busy_permille);
}

uint32_t gpu_memory_busy(const struct worker *w)
{
	return percent_of(w, &w->count->memory_permille);
}

uint32_t gpu_busy_tenant(const struct tenant *t)
{
	const struct worker *w;
	uint32_t sum = 0;

	list_for_each (w, &t->workers, tenant_link)
		sum += gpu_busy(w);
	return MIN(sum, 100u);
}

uint32_t gpu_busy_device(const struct broker *b)
{
	const struct tenant *t;
	uint32_t sum = 0;

	list_for_each (t, &b->tenants, link)
		sum += gpu_busy_tenant(t);
	return MIN(sum, 100u);
}

uint32_t gpu_memory_busy_device(const struct broker *b)
{
	const struct worker *w;
	uint32_t sum = 0;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION)
			sum += gpu_memory_busy(w);
	}
	return MIN(sum, 100u);
}

uint64_t gpu_time(const struct worker *w)
{
	uint64_t lasted = clock_now_ns() - w->attached_ns;

	return MIN(atomic_load(&w->count->busy_ns), lasted) / NSEC_PER_US;
}

uint64_t gpu_time_tenant(const struct tenant *t)
{
	uint64_t sum = t->gpu_us;
	const struct worker *w;

	list_for_each (w, &t->workers, tenant_link)
		sum += gpu_time(w);
	return sum;
}

uint64_t gpu_time_device(const struct broker *b)
{
	uint64_t sum = b->gpu_us;
	const struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION)
			sum += gpu_time(w);
	}
	return sum;
}

void gpu_time_end(const struct worker *w)
{
	uint64_t us = gpu_time(w);

	w->tenant->gpu_us += us;
	w->b->gpu_us += us;
}
