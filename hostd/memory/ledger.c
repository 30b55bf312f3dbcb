/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/page.h"
#include "memory/ledger.h"
#include "memory/region.h"

void ledger_publish_locked(struct space *sp)
{
	struct worker_page *c = sp->env->count;

	atomic_store_explicit(&c->memory_bytes, sp->used, memory_order_relaxed);
	atomic_store_explicit(&c->memory_peak_bytes, sp->peak, memory_order_relaxed);
	atomic_store_explicit(&c->movable_bytes, sp->residency.movable,
			      memory_order_relaxed);
	/* With what backings know nothing of, as contexts and arrays. */
	atomic_store_explicit(&c->pinned_bytes,
			      sp->used - MIN(sp->used, sp->residency.movable +
							       sp->residency.mapped +
							       sp->residency.swapped),
			      memory_order_relaxed);
	atomic_store_explicit(&c->mapped_bytes, sp->residency.mapped,
			      memory_order_relaxed);
	atomic_store_explicit(&c->swapped_bytes, sp->residency.swapped,
			      memory_order_relaxed);
}

static void book_locked(struct space *sp, uint64_t bytes)
{
	sp->used += bytes;
	sp->peak = MAX(sp->peak, sp->used);
	ledger_publish_locked(sp);
}

void ledger_unbook_locked(struct space *sp, uint64_t bytes)
{
	sp->used -= bytes;
	ledger_publish_locked(sp);
}

void ledger_uncharge_locked(struct space *sp, uint64_t bytes)
{
	const struct accounts *b = sp->env->accounts;

	ledger_unbook_locked(sp, bytes);
	if (b->uncharge)
		b->uncharge(b->arg, bytes);
}

void ledger_uncharge_evicted_locked(struct space *sp, uint64_t bytes)
{
	const struct accounts *b = sp->env->accounts;

	if (!bytes)
		return;
	if (!b->evicted_uncharge) {
		ledger_uncharge_locked(sp, bytes);
		return;
	}
	ledger_unbook_locked(sp, bytes);
	b->evicted_uncharge(b->arg, bytes);
}

void ledger_uncharge_part_locked(struct space *sp, uint64_t bytes, uint64_t evicted)
{
	if (bytes > evicted)
		ledger_uncharge_locked(sp, bytes - evicted);
	ledger_uncharge_evicted_locked(sp, evicted);
}

CUresult space_charge(struct space *sp, uint64_t bytes)
{
	const struct accounts *b = sp->env->accounts;

	if (b->charge && b->charge(b->arg, bytes) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sp->lock);
	book_locked(sp, bytes);
	pthread_mutex_unlock(&sp->lock);
	return CUDA_SUCCESS;
}

CUresult ledger_charge_part(struct space *sp, uint64_t bytes, bool spare,
			    uint64_t *ret_evicted)
{
	const struct accounts *b = sp->env->accounts;

	*ret_evicted = 0;
	if (!b->charge_part)
		return space_charge(sp, bytes);
	if (b->charge_part(b->arg, bytes, spare, ret_evicted) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sp->lock);
	book_locked(sp, bytes);
	pthread_mutex_unlock(&sp->lock);
	return CUDA_SUCCESS;
}

void space_uncharge(struct space *sp, uint64_t bytes)
{
	pthread_mutex_lock(&sp->lock);
	ledger_uncharge_locked(sp, bytes);
	pthread_mutex_unlock(&sp->lock);
}

void space_usage(struct space *sp, uint64_t *ret_used, uint64_t *ret_peak)
{
	pthread_mutex_lock(&sp->lock);
	*ret_used = sp->used;
	*ret_peak = sp->peak;
	pthread_mutex_unlock(&sp->lock);
}
