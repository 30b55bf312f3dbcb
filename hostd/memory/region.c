/* SPDX-License-Identifier: Apache-2.0 */
/* Pages, backings, mappings and regions: what allocations and reserved ranges share. */
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

struct page *page_at_locked(const struct space *sp, CUdeviceptr addr)
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

void pages_set_map_locked(struct space *sp, CUdeviceptr addr, uint64_t size,
			  struct mapping *m)
{
	for (uint64_t at = 0; at < size; at += SPACE_PAGE)
		page_at_locked(sp, addr + at)->map = m;
}

CUresult mapping_new_locked(struct space *sp, CUdeviceptr addr, struct backing *c,
			    struct mapping **ret_map)
{
	_cleanup_free_ struct mapping *m = calloc(1, sizeof(*m));
	CUresult r;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = backing_map(sp, c, addr);
	if (r != CUDA_SUCCESS)
		return r;
	count_entry(sp, 1);
	c->refs++;
	c->n_mappings++;
	list_append(&c->mappings, &m->in_backing);
	backing_count_locked(sp, c);
	if (sp->env->touch->pages)
		touch_new(sp->env->touch, addr, c->size);
	m->addr = addr;
	m->backing = c;
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
	if (sp->env->touch->pages)
		touch_gone(sp->env->touch, m->addr, m->backing->size);
	backing_unmap(sp, m->backing, m->addr);
	list_remove(&m->in_backing);
	m->backing->n_mappings--;
	backing_unmapped_locked(sp, m->backing);
	backing_put_locked(sp, m->backing);
	free(m);
}

struct mapping *mapping_at_locked(struct space *sp, CUdeviceptr addr)
{
	struct page *p = page_at_locked(sp, addr);

	if (!p || !p->region)
		return NULL;
	return region_by_page(p->region) ? p->map : p->region->map;
}

uint32_t named_before_locked(const struct space *sp, const struct mapping *m)
{
	const struct page *p = page_at_locked(sp, m->addr);
	const struct region *r = p ? p->region : NULL;

	if (!r || !region_by_page(r) || m->addr == r->base)
		return 0;
	p = page_at_locked(sp, m->addr - SPACE_PAGE);
	return p && p->map ? p->map->named : 0;
}

CUresult region_new_locked(struct space *sp, enum region_kind kind, uint64_t size,
			   uint64_t align, uint64_t addr, struct region **ret_region)
{
	const struct mem_env *e = sp->env;
	_cleanup_free_ struct region *r = calloc(1, sizeof(*r));
	CUresult res;

	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = e->ops->memory.reserve(e->dev, size, align, addr, &r->base);
	if (res != CUDA_SUCCESS)
		return res;
	r->kind = kind;
	r->size = size;
	r->id = ++sp->next_id;
	list_init(&r->link);
	if (pages_set_locked(sp, r->base, size, r) < 0) {
		e->ops->memory.unreserve(e->dev, r->base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	count_entry(sp, 1);
	*ret_region = steal(r);
	return CUDA_SUCCESS;
}

CUresult region_backed_locked(struct space *sp, enum region_kind kind, struct backing *c,
			      struct region **ret_region)
{
	struct region *rg;
	CUresult r = region_new_locked(sp, kind, c->size, SPACE_PAGE, 0, &rg);

	if (r != CUDA_SUCCESS)
		return r;
	r = mapping_new_locked(sp, rg->base, c, &rg->map);
	if (r == CUDA_SUCCESS)
		r = backing_set_access(sp, c, rg->base,
				       CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (r != CUDA_SUCCESS) {
		region_free_locked(sp, rg);
		return r;
	}
	rg->map->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	*ret_region = rg;
	return CUDA_SUCCESS;
}

/* Frees the mappings that the guest made in a range and never unmapped. */
static void unmap_all(struct space *sp, struct region *r)
{
	for (uint64_t at = 0; at < r->size;) {
		struct mapping *m = page_at_locked(sp, r->base + at)->map;

		/* All pages of a mapping lead to it; the first one comes first. */
		at += m ? m->backing->size : SPACE_PAGE;
		mapping_free_locked(sp, m);
	}
}

void region_free_locked(struct space *sp, struct region *r)
{
	if (region_by_page(r))
		unmap_all(sp, r);
	mapping_free_locked(sp, r->map);
	pages_set_locked(sp, r->base, r->size, NULL);
	sp->env->ops->memory.unreserve(sp->env->dev, r->base, r->size);
	list_remove(&r->link);
	count_entry(sp, -1);
	if (r->slab)
		wmem_put(sp->env->accounts, sizeof(*r->slab));
	free(r->slab);
	free(r);
}

void space_flush_locked(struct space *sp)
{
	if (sp->spare)
		region_free_locked(sp, steal(sp->spare));
	idle_flush_locked(sp);
}

void space_flush(struct space *sp)
{
	pthread_mutex_lock(&sp->lock);
	space_flush_locked(sp);
	pthread_mutex_unlock(&sp->lock);
}
