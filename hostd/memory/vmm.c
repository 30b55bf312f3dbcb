/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's own mappings: addresses it reserves, memory it creates, and what it maps
 * where. A handle is mapped whole, as the real driver demands below a handle's size.
 */
#include <errno.h>
#include <stdlib.h>

#include "memory/grant.h"
#include "memory/region.h"

static bool whole_pages(uint64_t addr, uint64_t size)
{
	return size && !(addr % SPACE_PAGE) && !(size % SPACE_PAGE) &&
	       size <= DEVICE_BAND_SIZE;
}

CUresult space_reserve(struct space *sp, uint64_t size, uint64_t align, uint64_t addr,
		       CUdeviceptr *ret_addr)
{
	struct region *rg;
	CUresult r;

	if (align & (align - 1) || !whole_pages(0, size))
		return CUDA_ERROR_INVALID_VALUE;
	/* The address is a wish: what cannot be granted is ignored. */
	if (addr % SPACE_PAGE || addr - DEVICE_BAND_BASE >= DEVICE_BAND_SIZE)
		addr = 0;
	r = space_entry(sp);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sp->lock);
	r = region_new_locked(sp, REGION_RANGE, size, MAX(align, (uint64_t)SPACE_PAGE),
			      addr, &rg);
	if (r != CUDA_SUCCESS && addr)
		r = region_new_locked(sp, REGION_RANGE, size,
				      MAX(align, (uint64_t)SPACE_PAGE), 0, &rg);
	if (r == CUDA_SUCCESS) {
		list_append(&sp->regions, &rg->link);
		*ret_addr = rg->base;
	}
	pthread_mutex_unlock(&sp->lock);
	return r;
}

static struct region *range_at(struct space *sp, CUdeviceptr addr)
{
	struct page *p = page_at_locked(sp, addr);

	return p && p->region && p->region->kind == REGION_RANGE ? p->region : NULL;
}

static bool has_mapping(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	for (uint64_t at = 0; at < size; at += SPACE_PAGE) {
		if (page_at_locked(sp, addr + at)->map)
			return true;
	}
	return false;
}

static CUresult unreserve_locked(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	struct region *rg = range_at(sp, addr);

	if (!rg || rg->base != addr || rg->size != size || has_mapping(sp, addr, size))
		return CUDA_ERROR_INVALID_VALUE;
	region_free_locked(sp, rg);
	return CUDA_SUCCESS;
}

CUresult space_unreserve(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = unreserve_locked(sp, addr, size);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

/* ---- physical memory ---- */

/* To be made so; NULL: no room to ask for it. */
static struct backing *compressible_new(const struct space *sp, uint64_t size)
{
	struct backing *c = backing_alloc(size, sp->extent_bytes);

	if (c)
		c->compressible = true;
	return c;
}

/* True if the device made all of c compressible; else c is as other memory from now. */
static bool made_compressible(struct space *sp, const struct backing *c)
{
	for (unsigned i = 0; i < c->n_pieces; i++) {
		const struct dev_mem *dev = c->piece[i].dev;

		if (!dev || !sp->env->ops->memory.compressible(sp->env->dev, dev))
			return false;
	}
	return true;
}

static CUresult backing_is_made_locked(struct space *sp, struct grant *g,
				       struct backing **ret_backing)
{
	CUresult r = backing_new_locked(sp, g, ret_backing);

	grant_drop_locked(sp, g);
	if (r == CUDA_SUCCESS && (*ret_backing)->compressible)
		(*ret_backing)->compressible = made_compressible(sp, *ret_backing);
	return r;
}

static CUresult backing_of(struct space *sp, struct grant *g,
			   struct backing **ret_backing)
{
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = backing_is_made_locked(sp, g, ret_backing);
	if (r == CUDA_SUCCESS)
		list_append(&sp->backings, &(*ret_backing)->link);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

CUresult backing_new(struct space *sp, uint64_t size, enum dev_memory memory,
		     struct backing **ret_backing)
{
	struct grant g;
	CUresult r;

	if (!size || size % SPACE_PAGE)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > DEVICE_BAND_SIZE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = memory == DEV_MEMORY_HOST ? grant_take_host(sp, size, &g)
				      : grant_take(sp, size, &g);
	if (r != CUDA_SUCCESS)
		return r;
	if (memory == DEV_MEMORY_COMPRESSIBLE && !g.backing)
		g.backing = compressible_new(sp, size);
	return backing_of(sp, &g, ret_backing);
}

CUresult backing_new_spare(struct space *sp, uint64_t size, struct backing **ret_backing)
{
	struct grant g;
	CUresult r = grant_take_spare(sp, size, &g);

	return r ? r : backing_of(sp, &g, ret_backing);
}

void backing_put(struct space *sp, struct backing *c)
{
	pthread_mutex_lock(&sp->lock);
	backing_put_locked(sp, c);
	pthread_mutex_unlock(&sp->lock);
}

uint64_t backing_size(const struct backing *c)
{
	return c->size;
}

bool backing_compressible(const struct backing *c)
{
	return c->compressible;
}

uint64_t backing_set_handle(struct space *sp, struct backing *c, uint64_t handle)
{
	pthread_mutex_lock(&sp->lock);
	c->handle = handle;
	pthread_mutex_unlock(&sp->lock);
	return c->id;
}

void backing_drop_handle(struct space *sp, struct backing *c, uint64_t handle)
{
	pthread_mutex_lock(&sp->lock);
	if (c->handle == handle)
		c->handle = 0;
	pthread_mutex_unlock(&sp->lock);
}

struct backing *backing_get(struct space *sp, uint64_t id, uint64_t handle)
{
	struct backing *c, *found = NULL;

	pthread_mutex_lock(&sp->lock);
	list_for_each (c, &sp->backings, link) {
		if (c->id == id)
			found = c;
	}
	if (found) {
		found->refs++;
		if (!found->handle)
			found->handle = handle;
	}
	pthread_mutex_unlock(&sp->lock);
	return found;
}

/* ---- mapping ---- */

/* The reserved range that holds all of [addr, addr + size), which are whole pages. */
static struct region *range_around(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	struct region *rg = whole_pages(addr, size) ? range_at(sp, addr) : NULL;

	return rg && size <= rg->size - (addr - rg->base) ? rg : NULL;
}

static CUresult map_locked(struct space *sp, CUdeviceptr addr, uint64_t size,
			   struct backing *c)
{
	struct mapping *m;
	CUresult r;

	while (backing_wait_locked(sp, c)) /* the caller holds a reference */
		;
	if (size != c->size || !range_around(sp, addr, size) ||
	    has_mapping(sp, addr, size))
		return CUDA_ERROR_INVALID_VALUE;
	r = mapping_new_locked(sp, addr, c, &m);
	if (r == CUDA_SUCCESS)
		pages_set_map_locked(sp, addr, size, m);
	return r;
}

CUresult space_map(struct space *sp, CUdeviceptr addr, uint64_t size, struct backing *c)
{
	CUresult r = space_entry(sp);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sp->lock);
	r = map_locked(sp, addr, size, c);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

/* True if [addr, addr + size) is mapped throughout and no mapping crosses its ends. */
static bool covers_mappings(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	uint64_t at = 0;

	if (!range_around(sp, addr, size))
		return false;
	while (at < size) {
		struct mapping *m = page_at_locked(sp, addr + at)->map;

		if (!m || m->addr != addr + at || m->backing->size > size - at)
			return false;
		at += m->backing->size;
	}
	return true;
}

/* True if something in a range that covers_mappings() is not moving any more: all may
 * have changed. */
static bool wait_mappings(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	for (uint64_t at = 0; at < size;) {
		struct mapping *m = page_at_locked(sp, addr + at)->map;

		if (backing_wait_locked(sp, m->backing))
			return true;
		at += m->backing->size;
	}
	return false;
}

/* As covers_mappings(), and nothing of it moves. */
static bool covers_at_last(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	bool covers;

	do {
		covers = covers_mappings(sp, addr, size);
	} while (covers && wait_mappings(sp, addr, size));
	return covers;
}

CUresult space_unmap(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&sp->lock);
	if (covers_at_last(sp, addr, size)) {
		for (uint64_t at = 0; at < size;) {
			struct mapping *m = page_at_locked(sp, addr + at)->map;
			uint64_t step = m->backing->size;

			pages_set_map_locked(sp, addr + at, step, NULL);
			mapping_free_locked(sp, m);
			at += step;
		}
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&sp->lock);
	return r;
}

static bool has_swapped(struct space *sp, CUdeviceptr addr, uint64_t size)
{
	for (uint64_t at = 0; at < size;) {
		const struct backing *c = page_at_locked(sp, addr + at)->map->backing;

		if (c->bytes[PIECE_SWAPPED])
			return true;
		at += c->size;
	}
	return false;
}

/* Sets the access of what is mapped now; the rest gets it when it returns. */
static CUresult set_access_of_mapped(struct space *sp, CUdeviceptr addr, uint64_t size,
				     CUmemAccess_flags access)
{
	CUresult r = CUDA_SUCCESS;

	for (uint64_t at = 0; at < size && r == CUDA_SUCCESS;) {
		const struct backing *c = page_at_locked(sp, addr + at)->map->backing;

		r = backing_set_access(sp, c, addr + at, access);
		at += c->size;
	}
	return r;
}

static bool is_access(CUmemAccess_flags access)
{
	return access == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
	       access == CU_MEM_ACCESS_FLAGS_PROT_READ ||
	       access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static CUresult set_access_locked(struct space *sp, CUdeviceptr addr, uint64_t size,
				  CUmemAccess_flags access)
{
	CUresult r;

	if (!is_access(access) || !covers_at_last(sp, addr, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (has_swapped(sp, addr, size))
		r = set_access_of_mapped(sp, addr, size, access);
	else
		r = sp->env->ops->memory.set_access(sp->env->dev, addr, size, access);
	if (r != CUDA_SUCCESS)
		return r;
	for (uint64_t at = 0; at < size; at += SPACE_PAGE)
		page_at_locked(sp, addr + at)->map->access = access;
	return CUDA_SUCCESS;
}

CUresult space_set_access(struct space *sp, CUdeviceptr addr, uint64_t size,
			  CUmemAccess_flags access)
{
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = set_access_locked(sp, addr, size, access);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

CUresult space_get_access(struct space *sp, CUdeviceptr addr,
			  CUmemAccess_flags *ret_access)
{
	struct mapping *m;

	pthread_mutex_lock(&sp->lock);
	m = mapping_at_locked(sp, addr);
	if (m)
		*ret_access = m->access;
	pthread_mutex_unlock(&sp->lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult space_handle_at(struct space *sp, CUdeviceptr addr, uint64_t *ret_handle,
			 uint64_t *ret_id, enum dev_memory *ret_memory)
{
	struct page *p;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&sp->lock);
	p = page_at_locked(sp, addr);
	if (p && p->map) {
		*ret_handle = p->map->backing->handle;
		*ret_id = p->map->backing->id;
		*ret_memory = backing_memory(p->map->backing);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&sp->lock);
	return r;
}
