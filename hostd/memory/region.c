/* SPDX-License-Identifier: Apache-2.0 */
/* Pages, chunks, mappings and regions: what allocations and reserved ranges share. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "ipc/page.h"
#include "memory/region.h"
#include "memory/touch.h"

CUresult space_entry(struct space *sp)
{
	uint64_t n = atomic_load_explicit(&sp->entries, memory_order_relaxed);

	return wmem_many(sp->env->accounts, &sp->many, n + 1, ENTRY_BYTES) < 0
		       ? CUDA_ERROR_OUT_OF_MEMORY
		       : CUDA_SUCCESS;
}

static void count_entry(struct space *sp, int change)
{
	atomic_fetch_add_explicit(&sp->entries, (uint64_t)(int64_t)change,
				  memory_order_relaxed);
}

struct page *page_at_locked(struct space *sp, CUdeviceptr addr)
{
	uint64_t n;

	if (addr - DEVICE_BAND_BASE >= DEVICE_BAND_SIZE)
		return NULL;
	n = (addr - DEVICE_BAND_BASE) / SPACE_PAGE;
	return sp->l1[n / SPACE_L2] ? &sp->l1[n / SPACE_L2][n % SPACE_L2] : NULL;
}

static int pages_make(struct space *sp, CUdeviceptr base, uint64_t size)
{
	uint64_t first = (base - DEVICE_BAND_BASE) / SPACE_PAGE;
	uint64_t last = first + size / SPACE_PAGE - 1;

	for (uint64_t i = first / SPACE_L2; i <= last / SPACE_L2; i++) {
		if (!sp->l1[i])
			sp->l1[i] = calloc(SPACE_L2, sizeof(*sp->l1[i]));
		if (!sp->l1[i])
			return -ENOMEM;
	}
	return 0;
}

int pages_set_locked(struct space *sp, CUdeviceptr base, uint64_t size, struct region *r)
{
	if (base - DEVICE_BAND_BASE >= DEVICE_BAND_SIZE ||
	    size > DEVICE_BAND_SIZE - (base - DEVICE_BAND_BASE))
		return -ENOMEM;
	if (pages_make(sp, base, size) < 0)
		return -ENOMEM;
	for (uint64_t at = 0; at < size; at += SPACE_PAGE) {
		struct page *p = page_at_locked(sp, base + at);

		p->region = r;
		p->map = NULL;
	}
	return 0;
}

void tell_usage_locked(struct space *sp)
{
	struct worker_page *c = sp->env->count;

	atomic_store_explicit(&c->memory_bytes, sp->used, memory_order_relaxed);
	atomic_store_explicit(&c->memory_peak_bytes, sp->peak, memory_order_relaxed);
	atomic_store_explicit(&c->movable_bytes, sp->residency.movable,
			      memory_order_relaxed);
	/* With what chunks know nothing of, as contexts and arrays. */
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

void charged_locked(struct space *sp, uint64_t bytes)
{
	sp->used += bytes;
	sp->peak = MAX(sp->peak, sp->used);
	tell_usage_locked(sp);
}

void uncharged_locked(struct space *sp, uint64_t bytes)
{
	sp->used -= bytes;
	tell_usage_locked(sp);
}

void uncharge_locked(struct space *sp, uint64_t bytes)
{
	const struct accounts *b = sp->env->accounts;

	uncharged_locked(sp, bytes);
	if (b->uncharge)
		b->uncharge(b->arg, bytes);
}

void uncharge_away_locked(struct space *sp, uint64_t bytes)
{
	const struct accounts *b = sp->env->accounts;

	if (!bytes)
		return;
	if (!b->away_uncharge) {
		uncharge_locked(sp, bytes);
		return;
	}
	uncharged_locked(sp, bytes);
	b->away_uncharge(b->arg, bytes);
}

void uncharge_part_locked(struct space *sp, uint64_t bytes, uint64_t away)
{
	if (bytes > away)
		uncharge_locked(sp, bytes - away);
	uncharge_away_locked(sp, away);
}

/* Granted, but the device has none: other sessions may keep what they freed just now.
 * Lets go of the lock in between; the chunk that the memory is for is in no list yet. */
static CUresult create_again(struct space *sp, uint64_t size, enum dev_memory memory,
			     struct dev_chunk **ret_dev)
{
	const struct timespec pause = {.tv_nsec = SPACE_IDLE_NS / 4};
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	for (unsigned i = 0; i < 8 && r == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		if (i) {
			pthread_mutex_unlock(&sp->lock);
			nanosleep(&pause, NULL);
			pthread_mutex_lock(&sp->lock);
		}
		if (sp->spare)
			region_free_locked(sp, steal(sp->spare));
		idle_flush_locked(sp);
		r = sp->env->ops->chunk_create(sp->env->dev, size, memory, ret_dev);
	}
	return r;
}

/* Those of its pieces that have no memory yet. */
static CUresult fill(struct space *sp, struct space_chunk *c)
{
	const struct mem_env *e = sp->env;
	CUresult r = CUDA_SUCCESS;

	idle_trim_locked(sp, c->bytes[PIECE_RESIDENT]);
	for (unsigned i = 0; i < c->n_pieces && r == CUDA_SUCCESS; i++) {
		struct piece *p = &c->piece[i];

		if (p->state != PIECE_RESIDENT)
			continue;
		r = e->ops->chunk_create(e->dev, p->size, chunk_memory(c), &p->dev);
		if (r == CUDA_ERROR_OUT_OF_MEMORY && !c->in_host_memory)
			r = create_again(sp, p->size, chunk_memory(c), &p->dev);
	}
	if (r != CUDA_SUCCESS)
		chunk_release(sp, c);
	return r;
}

static CUresult create(struct space *sp, uint64_t size, bool in_host_memory,
		       struct space_chunk **ret_chunk)
{
	uint64_t extent = in_host_memory ? size : sp->extent_bytes;
	struct space_chunk *c = chunk_alloc(size, extent);
	CUresult r;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->in_host_memory = in_host_memory;
	r = fill(sp, c);
	if (r == CUDA_SUCCESS)
		*ret_chunk = c;
	return r;
}

static void enter(struct space *sp, struct space_chunk *c)
{
	c->refs = 1;
	c->handle = 0;
	c->id = ++sp->next_id;
	c->charged = true;
	list_append(&sp->all, &c->in_space);
	chunk_count_locked(sp, c);
}

CUresult chunk_new_locked(struct space *sp, uint64_t size, bool in_host_memory,
			  struct space_chunk **ret_chunk)
{
	struct space_chunk *c = in_host_memory ? NULL : idle_take_locked(sp, size);
	CUresult r = c ? CUDA_SUCCESS : create(sp, size, in_host_memory, &c);

	if (r != CUDA_SUCCESS)
		return r;
	enter(sp, c);
	*ret_chunk = c;
	return CUDA_SUCCESS;
}

CUresult chunk_born_locked(struct space *sp, struct space_chunk *c)
{
	CUresult r = fill(sp, c);

	if (r == CUDA_SUCCESS)
		enter(sp, c);
	return r;
}

void chunk_put_locked(struct space *sp, struct space_chunk *c)
{
	if (!c || --c->refs)
		return;
	list_remove(&c->link);
	list_remove(&c->in_space);
	if (c->share == CHUNK_OWN && c->charged)
		uncharge_part_locked(sp, c->size - c->bytes[PIECE_FREE], chunk_away(c));
	c->charged = false;
	chunk_count_locked(sp, c);
	if (c->share != CHUNK_OWN)
		share_end_locked(sp, c);
	else if (chunk_as_new(sp, c))
		idle_put_locked(sp, c);
	else
		chunk_release(sp, c);
}

CUresult mapping_new_locked(struct space *sp, CUdeviceptr addr, struct space_chunk *c,
			    struct mapping **ret_map)
{
	_cleanup_free_ struct mapping *m = calloc(1, sizeof(*m));
	CUresult r;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = chunk_map(sp, c, addr);
	if (r != CUDA_SUCCESS)
		return r;
	count_entry(sp, 1);
	c->refs++;
	c->n_mappings++;
	list_append(&c->mappings, &m->in_chunk);
	chunk_count_locked(sp, c);
	if (sp->env->touch->pages)
		touch_new(sp->env->touch, addr, c->size);
	m->addr = addr;
	m->chunk = c;
	m->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	m->id = ++sp->next_id;
	*ret_map = steal(m);
	return CUDA_SUCCESS;
}

void mapping_free_locked(struct space *sp, struct mapping *m)
{
	if (!m)
		return;
	count_entry(sp, -1);
	chunk_unmap(sp, m->chunk, m->addr);
	list_remove(&m->in_chunk);
	m->chunk->n_mappings--;
	chunk_unmapped_locked(sp, m->chunk);
	chunk_put_locked(sp, m->chunk);
	free(m);
}

struct mapping *mapping_at_locked(struct space *sp, CUdeviceptr addr)
{
	struct page *p = page_at_locked(sp, addr);

	if (!p || !p->region)
		return NULL;
	return p->region->kind == REGION_RANGE ? p->map : p->region->map;
}

CUresult region_new_locked(struct space *sp, enum region_kind kind, uint64_t size,
			   uint64_t align, uint64_t addr, struct region **ret_region)
{
	const struct mem_env *e = sp->env;
	_cleanup_free_ struct region *r = calloc(1, sizeof(*r));
	CUresult res;

	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = e->ops->reserve(e->dev, size, align, addr, &r->base);
	if (res != CUDA_SUCCESS)
		return res;
	r->kind = kind;
	r->size = size;
	r->id = ++sp->next_id;
	list_init(&r->link);
	if (pages_set_locked(sp, r->base, size, r) < 0) {
		e->ops->unreserve(e->dev, r->base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	count_entry(sp, 1);
	*ret_region = steal(r);
	return CUDA_SUCCESS;
}

CUresult region_backed_locked(struct space *sp, enum region_kind kind,
			      struct space_chunk *c, struct region **ret_region)
{
	struct region *rg;
	CUresult r = region_new_locked(sp, kind, c->size, SPACE_PAGE, 0, &rg);

	if (r != CUDA_SUCCESS)
		return r;
	r = mapping_new_locked(sp, rg->base, c, &rg->map);
	if (r == CUDA_SUCCESS)
		r = chunk_set_access(sp, c, rg->base, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (r != CUDA_SUCCESS) {
		region_free_locked(sp, rg);
		return r;
	}
	rg->map->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	*ret_region = rg;
	return CUDA_SUCCESS;
}

/* What the guest mapped into a range and never unmapped. */
static void unmap_all(struct space *sp, struct region *r)
{
	for (uint64_t at = 0; at < r->size;) {
		struct mapping *m = page_at_locked(sp, r->base + at)->map;

		/* All pages of a mapping lead to it; the first one comes first. */
		at += m ? m->chunk->size : SPACE_PAGE;
		mapping_free_locked(sp, m);
	}
}

void region_free_locked(struct space *sp, struct region *r)
{
	if (r->kind == REGION_RANGE)
		unmap_all(sp, r);
	mapping_free_locked(sp, r->map);
	pages_set_locked(sp, r->base, r->size, NULL);
	sp->env->ops->unreserve(sp->env->dev, r->base, r->size);
	list_remove(&r->link);
	count_entry(sp, -1);
	if (r->slab)
		wmem_put(sp->env->accounts, sizeof(*r->slab));
	free(r->slab);
	free(r);
}
