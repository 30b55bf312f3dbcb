/* SPDX-License-Identifier: Apache-2.0 */
/* Pages, chunks, mappings and regions: what allocations and reserved ranges share. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "memory/region.h"

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

static void tell_usage(struct space *sp)
{
	struct sess_counters *c = sp->s->count;

	atomic_store_explicit(&c->memory_bytes, sp->used, memory_order_relaxed);
	atomic_store_explicit(&c->memory_peak_bytes, sp->peak, memory_order_relaxed);
}

static int ask(struct space *sp, uint64_t bytes)
{
	const struct sess_broker *b = &sp->s->broker;

	return b->charge ? b->charge(b->arg, bytes) : 0;
}

CUresult charge_locked(struct space *sp, uint64_t bytes)
{
	if (ask(sp, bytes) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sp->used += bytes;
	sp->peak = MAX(sp->peak, sp->used);
	tell_usage(sp);
	return CUDA_SUCCESS;
}

void uncharged_locked(struct space *sp, uint64_t bytes)
{
	sp->used -= bytes;
	tell_usage(sp);
}

void uncharge_locked(struct space *sp, uint64_t bytes)
{
	const struct sess_broker *b = &sp->s->broker;

	uncharged_locked(sp, bytes);
	if (b->uncharge)
		b->uncharge(b->arg, bytes);
}

/* Granted, but the device has none: other sessions may keep what they freed just now. */
static CUresult create_again(struct space *sp, uint64_t size, struct dev_chunk **ret_dev)
{
	const struct timespec pause = {.tv_nsec = SPACE_IDLE_NS / 4};
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (sp->spare)
		region_free_locked(sp, steal(sp->spare));
	idle_flush_locked(sp);
	for (unsigned i = 0; i < 8 && r == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		r = sp->s->ops->chunk_create(sp->s->dev, size, false, ret_dev);
		if (r == CUDA_ERROR_OUT_OF_MEMORY)
			nanosleep(&pause, NULL);
	}
	return r;
}

static CUresult create(struct space *sp, uint64_t size, bool in_host_memory,
		       struct space_chunk **ret_chunk)
{
	struct session *s = sp->s;
	_cleanup_free_ struct space_chunk *c = calloc(1, sizeof(*c));
	CUresult r;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&c->idle);
	list_init(&c->link);
	c->size = size;
	c->in_host_memory = in_host_memory;
	idle_trim_locked(sp, size);
	r = s->ops->chunk_create(s->dev, size, in_host_memory, &c->dev);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && !in_host_memory)
		r = create_again(sp, size, &c->dev);
	if (r == CUDA_SUCCESS)
		*ret_chunk = steal(c);
	return r;
}

CUresult chunk_new_locked(struct space *sp, uint64_t size, bool in_host_memory,
			  struct space_chunk **ret_chunk)
{
	CUresult r = charge_locked(sp, size);
	struct space_chunk *c;

	if (r != CUDA_SUCCESS)
		return r;
	c = in_host_memory ? NULL : idle_take_locked(sp, size);
	if (!c)
		r = create(sp, size, in_host_memory, &c);
	if (r != CUDA_SUCCESS) {
		uncharge_locked(sp, size);
		return r;
	}
	c->refs = 1;
	c->handle = 0;
	c->id = ++sp->next_id;
	c->charged = true;
	*ret_chunk = c;
	return CUDA_SUCCESS;
}

void chunk_put_locked(struct space *sp, struct space_chunk *c)
{
	if (!c || --c->refs)
		return;
	list_remove(&c->link);
	if (c->share != CHUNK_OWN) {
		share_end_locked(sp, c);
		return;
	}
	if (c->charged)
		uncharge_locked(sp, c->size);
	c->charged = false;
	if (!c->in_host_memory) {
		idle_put_locked(sp, c);
		return;
	}
	sp->s->ops->chunk_release(sp->s->dev, c->dev);
	free(c);
}

CUresult mapping_new_locked(struct space *sp, CUdeviceptr addr, struct space_chunk *c,
			    struct mapping **ret_map)
{
	_cleanup_free_ struct mapping *m = calloc(1, sizeof(*m));
	CUresult r;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sp->s->ops->map(sp->s->dev, addr, c->dev);
	if (r != CUDA_SUCCESS)
		return r;
	c->refs++;
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
	sp->s->ops->unmap(sp->s->dev, m->addr, m->chunk->size);
	chunk_put_locked(sp, m->chunk);
	free(m);
}

CUresult region_new_locked(struct space *sp, enum region_kind kind, uint64_t size,
			   uint64_t align, uint64_t addr, struct region **ret_region)
{
	struct session *s = sp->s;
	_cleanup_free_ struct region *r = calloc(1, sizeof(*r));
	CUresult res;

	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = s->ops->reserve(s->dev, size, align, addr, &r->base);
	if (res != CUDA_SUCCESS)
		return res;
	r->kind = kind;
	r->size = size;
	r->id = ++sp->next_id;
	list_init(&r->link);
	if (pages_set_locked(sp, r->base, size, r) < 0) {
		s->ops->unreserve(s->dev, r->base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_region = steal(r);
	return CUDA_SUCCESS;
}

CUresult region_backed_locked(struct space *sp, enum region_kind kind,
			      struct space_chunk *c, struct region **ret_region)
{
	struct session *s = sp->s;
	struct region *rg;
	CUresult r = region_new_locked(sp, kind, c->size, SPACE_PAGE, 0, &rg);

	if (r != CUDA_SUCCESS)
		return r;
	r = mapping_new_locked(sp, rg->base, c, &rg->map);
	if (r == CUDA_SUCCESS)
		r = s->ops->set_access(s->dev, rg->base, c->size,
				       CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
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
	sp->s->ops->unreserve(sp->s->dev, r->base, r->size);
	list_remove(&r->link);
	free(r->slab);
	free(r);
}
