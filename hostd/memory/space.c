/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations. Small ones share a slab, the fullest that has room, in one of three groups
 * by size; larger ones are extents with one handle, because mapping costs are per handle
 * whatever its size.
 */
#include <errno.h>
#include <stdlib.h>

#include "memory/grant.h"
#include "memory/hostpool.h"
#include "memory/ledger.h"
#include "memory/region.h"

/* In the ids of small allocations, which count by themselves; pools have bit 62. */
#define SMALL_ID (1ull << 61)

int space_new(const struct mem_env *env, struct space **ret_space)
{
	struct space *sp = calloc(1, sizeof(*sp));

	if (!sp)
		return -ENOMEM;
	sp->env = env;
	pthread_mutex_init(&sp->lock, NULL);
	for (unsigned i = 0; i < SPACE_CLASSES; i++)
		list_init(&sp->slabs[i]);
	list_init(&sp->regions);
	list_init(&sp->backings);
	list_init(&sp->all);
	list_init(&sp->idle);
	sp->piece_bytes = MAX(SPACE_PIECE, env->granularity);
	sp->extent_bytes = DEVICE_BAND_SIZE;
	pthread_cond_init(&sp->moved_cond, NULL);
	pthread_cond_init(&sp->reaper_cond, NULL);
	sp->hostpool = hostpool_new(env, space_host_wants, sp);
	if (!sp->hostpool) {
		space_free(sp);
		return -ENOMEM;
	}
	*ret_space = sp;
	return 0;
}

static void free_list(struct space *sp, struct list *l)
{
	struct region *r, *tmp;

	list_for_each_safe (r, tmp, l, link)
		region_free_locked(sp, r);
}

void space_free(struct space *sp)
{
	if (!sp)
		return;
	pthread_mutex_lock(&sp->lock); /* the reaper still runs */
	for (unsigned i = 0; i < SPACE_CLASSES; i++)
		free_list(sp, &sp->slabs[i]);
	free_list(sp, &sp->regions);
	if (sp->spare)
		region_free_locked(sp, sp->spare);
	pthread_mutex_unlock(&sp->lock);
	idle_end(sp);
	hostpool_free(sp->hostpool);
	for (unsigned i = 0; i < SPACE_L1; i++)
		free(sp->l1[i]);
	free(sp->globals);
	pthread_cond_destroy(&sp->reaper_cond);
	pthread_cond_destroy(&sp->moved_cond);
	pthread_mutex_destroy(&sp->lock);
	free(sp);
}

static bool unmapped(struct space *sp, const struct backing *c, const struct piece *p)
{
	const struct mapping *m;

	list_for_each (m, &c->mappings, in_backing) {
		if (sp->env->ops->memory.unmap(sp->env->dev, m->addr + p->offset,
					       p->size))
			return false;
	}
	return true;
}

/* Gives back and uncharges what c has on the device, unless other sessions have c, too,
 * or it is moving. */
static void give_back_locked(struct space *sp, struct backing *c)
{
	uint64_t bytes = c->bytes[PIECE_RESIDENT];

	if (!c->charged || c->share != BACKING_OWN || c->in_host_memory || c->moving)
		return;
	for (unsigned i = 0; i < c->n_pieces; i++) {
		struct piece *p = &c->piece[i];

		if (p->state != PIECE_RESIDENT || !unmapped(sp, c, p))
			continue;
		sp->env->ops->memory.release(sp->env->dev, steal(p->dev));
		piece_set_state(c, p, PIECE_FREE);
	}
	backing_count_locked(sp, c);
	ledger_uncharge_locked(sp, bytes - c->bytes[PIECE_RESIDENT]);
}

void space_give_back(struct space *sp)
{
	struct backing *c;

	pthread_mutex_lock(&sp->lock);
	list_for_each (c, &sp->all, in_space)
		give_back_locked(sp, c);
	idle_flush_locked(sp);
	pthread_mutex_unlock(&sp->lock);
}

/* Makes a region with memory of its own, readable and writable, and lets go of what of
 * the grant it did not need. */
static CUresult backed_new(struct space *sp, enum region_kind kind, struct grant *g,
			   struct region **ret_region)
{
	struct backing *c;
	CUresult r = backing_new_locked(sp, g, &c);

	grant_drop_locked(sp, g);
	if (r != CUDA_SUCCESS)
		return r;
	r = region_backed_locked(sp, kind, c, ret_region);
	backing_put_locked(sp, c); /* the mapping holds its own reference */
	return r;
}

static unsigned class_of(uint64_t bytes)
{
	return bytes <= 8u << 10 ? 0 : bytes <= 128u << 10 ? 1 : 2;
}

/* A slab that has been charged, in worker memory as well. */
static CUresult slab_region_new(struct space *sp, struct grant *g,
				struct region **ret_region)
{
	struct slab *slab;
	CUresult r;

	if (sp->spare && !g->evicted) {
		wmem_put(sp->env->accounts, sizeof(*slab)); /* it has its own */
		*ret_region = steal(sp->spare);
		(*ret_region)->map->backing->charged = true; /* has the grant's */
		*g = (struct grant){0};
		backing_count_locked(sp, (*ret_region)->map->backing);
		return CUDA_SUCCESS;
	}
	slab = malloc(sizeof(*slab));
	if (!slab) {
		wmem_put(sp->env->accounts, sizeof(*slab));
		grant_drop_locked(sp, g);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = backed_new(sp, REGION_SLAB, g, ret_region);
	if (r != CUDA_SUCCESS) {
		wmem_put(sp->env->accounts, sizeof(*slab));
		free(slab);
		return r;
	}
	slab_init(slab);
	(*ret_region)->slab = slab;
	return CUDA_SUCCESS;
}

/* False if there is no room in rg. */
static bool slab_piece(struct space *sp, struct region *rg, uint32_t bytes,
		       CUdeviceptr *ret_addr)
{
	int64_t at = slab_alloc(rg->slab, bytes);

	if (at < 0)
		return false;
	rg->slab->id[at / SLAB_UNIT] = ++sp->next_small | SMALL_ID;
	*ret_addr = rg->base + (uint64_t)at;
	return true;
}

/* An owner's slabs are together, the fullest first. */
static uint64_t room_key(unsigned owner, uint32_t units)
{
	static_assert(SLAB_UNITS < 1 << 16, "they fit below the owner");
	return (uint64_t)owner << 16 | units;
}

static void enter_room(struct space *sp, struct region *rg)
{
	rg->room.key = room_key(rg->owner, slab_room(rg->slab));
	tree_insert(&sp->rooms[rg->slab_class], &rg->room);
}

static void leave_room(struct space *sp, struct region *rg)
{
	tree_remove(&sp->rooms[rg->slab_class], &rg->room);
}

/* After something of the slab has changed. */
static void note_room(struct space *sp, struct region *rg)
{
	if (rg->room.key == room_key(rg->owner, slab_room(rg->slab)))
		return;
	leave_room(sp, rg);
	enter_room(sp, rg);
}

static void slab_region_free(struct space *sp, struct region *rg)
{
	leave_room(sp, rg);
	region_free_locked(sp, rg);
}

/* A slab in which there may be room. */
static struct region *roomy_slab(const struct space *sp, uint32_t bytes, unsigned owner)
{
	struct tree_node *n = tree_at_least(&sp->rooms[class_of(bytes)],
					    room_key(owner, slab_units(bytes)));
	struct region *rg = n ? container_of(n, struct region, room) : NULL;

	return rg && rg->owner == owner ? rg : NULL;
}

/* In a slab that is there. One that is found to have no room is not found again until
 * something in it is freed. */
static bool alloc_in_slab(struct space *sp, uint32_t bytes, unsigned owner,
			  CUdeviceptr *ret_addr)
{
	struct region *rg;
	bool done = false;

	while (!done && (rg = roomy_slab(sp, bytes, owner))) {
		done = slab_piece(sp, rg, bytes, ret_addr);
		note_room(sp, rg);
	}
	return done;
}

static CUresult alloc_small_locked(struct space *sp, struct grant *g, uint32_t bytes,
				   unsigned owner, CUdeviceptr *ret_addr)
{
	struct region *rg;
	CUresult r;

	if (alloc_in_slab(sp, bytes, owner, ret_addr)) { /* new since the charge */
		wmem_put(sp->env->accounts, sizeof(struct slab));
		grant_drop_locked(sp, g);
		return CUDA_SUCCESS;
	}
	r = slab_region_new(sp, g, &rg);
	if (r != CUDA_SUCCESS)
		return r;
	rg->owner = owner;
	rg->slab_class = class_of(bytes);
	list_append(&sp->slabs[rg->slab_class], &rg->link);
	(void)slab_piece(sp, rg, bytes, ret_addr);
	enter_room(sp, rg);
	return CUDA_SUCCESS;
}

/* Memory for a slab, and for what is known of it. Waits. */
static CUresult slab_charge(struct space *sp, struct grant *ret_g)
{
	CUresult r = space_entry(sp);

	if (r == CUDA_SUCCESS && wmem_take(sp->env->accounts, sizeof(struct slab)) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS)
		return r;
	r = grant_take(sp, SLAB_BYTES, ret_g);
	if (r != CUDA_SUCCESS)
		wmem_put(sp->env->accounts, sizeof(struct slab));
	return r;
}

static CUresult alloc_small(struct space *sp, uint32_t bytes, unsigned owner,
			    CUdeviceptr *ret_addr)
{
	CUresult r = CUDA_SUCCESS;
	struct grant g;
	bool done;

	pthread_mutex_lock(&sp->lock);
	done = alloc_in_slab(sp, bytes, owner, ret_addr);
	pthread_mutex_unlock(&sp->lock);
	if (!done)
		r = slab_charge(sp, &g);
	if (done || r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sp->lock);
	r = alloc_small_locked(sp, &g, bytes, owner, ret_addr);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

/* One allocation or arena with an extent of its own. */
static CUresult extent_new(struct space *sp, const struct region *what,
			   CUdeviceptr *ret_addr)
{
	uint64_t size = ALIGN_UP(what->bytes, SPACE_PAGE);
	struct grant g;
	struct region *rg;
	CUresult r;

	if (what->bytes > DEVICE_BAND_SIZE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = space_entry(sp);
	if (r == CUDA_SUCCESS)
		r = grant_take(sp, size, &g);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sp->lock);
	r = backed_new(sp, what->kind, &g, &rg);
	if (r == CUDA_SUCCESS) {
		rg->bytes = what->bytes;
		rg->owner = what->owner;
		rg->arena = what->arena;
		list_append(&sp->regions, &rg->link);
		*ret_addr = rg->base;
	}
	pthread_mutex_unlock(&sp->lock);
	return r;
}

CUresult space_arena_new(struct space *sp, uint64_t size, struct arena *arena,
			 CUdeviceptr *ret_addr)
{
	const struct region what = {.kind = REGION_ARENA, .bytes = size, .arena = arena};

	return extent_new(sp, &what, ret_addr);
}

CUresult space_alloc(struct space *sp, uint64_t bytes, unsigned owner,
		     CUdeviceptr *ret_addr)
{
	const struct region what = {.kind = REGION_LARGE, .bytes = bytes, .owner = owner};

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes <= SPACE_SMALL_MAX)
		return alloc_small(sp, (uint32_t)bytes, owner, ret_addr);
	return extent_new(sp, &what, ret_addr);
}

/* An empty slab: keep one, which is charged to nobody, give the others back. */
static void retire_slab(struct space *sp, struct region *rg)
{
	leave_room(sp, rg);
	list_remove(&rg->link);
	if (sp->spare || rg->map->backing->share != BACKING_OWN ||
	    !backing_whole(rg->map->backing)) {
		region_free_locked(sp, rg);
		return;
	}
	ledger_uncharge_locked(sp, SLAB_BYTES);
	rg->map->backing->charged = false;
	backing_count_locked(sp, rg->map->backing);
	slab_init(rg->slab);
	rg->owner = 0;
	sp->spare = rg;
}

static struct region *region_at(struct space *sp, CUdeviceptr addr)
{
	struct page *p = page_at_locked(sp, addr);

	return p ? p->region : NULL;
}

/* Returns the region at addr, once nothing of it moves, or NULL. */
static struct region *region_at_last(struct space *sp, CUdeviceptr addr)
{
	struct region *rg;

	do {
		rg = region_at(sp, addr);
	} while (rg && rg->map && backing_wait_locked(sp, rg->map->backing));
	return rg;
}

static CUresult release_locked(struct space *sp, CUdeviceptr addr)
{
	struct region *rg = region_at_last(sp, addr);

	if (!rg || (rg->kind != REGION_SLAB && rg->kind != REGION_LARGE))
		return CUDA_ERROR_INVALID_VALUE;
	if (rg->kind == REGION_LARGE) {
		if (addr != rg->base)
			return CUDA_ERROR_INVALID_VALUE;
		region_free_locked(sp, rg);
		return CUDA_SUCCESS;
	}
	if (slab_free(rg->slab, (uint32_t)(addr - rg->base)) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (rg->slab->live)
		note_room(sp, rg);
	else
		retire_slab(sp, rg);
	return CUDA_SUCCESS;
}

CUresult space_release(struct space *sp, CUdeviceptr addr)
{
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = release_locked(sp, addr);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

void space_arena_free(struct space *sp, CUdeviceptr addr)
{
	struct region *rg;

	pthread_mutex_lock(&sp->lock);
	rg = region_at_last(sp, addr);
	if (rg && rg->kind == REGION_ARENA && rg->base == addr)
		region_free_locked(sp, rg);
	pthread_mutex_unlock(&sp->lock);
}

bool space_is_alloc(struct space *sp, CUdeviceptr addr)
{
	struct space_range range;

	return space_find(sp, addr, &range) == CUDA_SUCCESS && range.base == addr &&
	       range.kind == SPACE_ALLOCATION;
}

/* True if it had to wait for something of a context's: look again. */
static bool wait_owned(struct space *sp, struct list *regions, unsigned owner)
{
	struct region *r;

	list_for_each (r, regions, link) {
		if (r->owner == owner && r->map &&
		    backing_wait_locked(sp, r->map->backing))
			return true;
	}
	return false;
}

static bool wait_owner(struct space *sp, unsigned owner)
{
	for (unsigned i = 0; i < SPACE_CLASSES; i++) {
		if (wait_owned(sp, &sp->slabs[i], owner))
			return true;
	}
	return wait_owned(sp, &sp->regions, owner);
}

void space_release_owner(struct space *sp, unsigned owner)
{
	struct region *r, *tmp;

	pthread_mutex_lock(&sp->lock);
	while (wait_owner(sp, owner))
		;
	for (unsigned i = 0; i < SPACE_CLASSES; i++) {
		list_for_each_safe (r, tmp, &sp->slabs[i], link) {
			if (r->owner == owner)
				slab_region_free(sp, r);
		}
	}
	list_for_each_safe (r, tmp, &sp->regions, link) {
		if ((r->kind == REGION_LARGE || r->kind == REGION_IMPORT) &&
		    r->owner == owner)
			region_free_locked(sp, r);
	}
	pthread_mutex_unlock(&sp->lock);
}

/* ---- looking up ---- */

static CUresult find_in_slab(const struct region *rg, CUdeviceptr addr,
			     struct space_range *ret_range)
{
	uint32_t base, bytes;

	if (slab_find(rg->slab, (uint32_t)(addr - rg->base), &base, &bytes) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_range = (struct space_range){
		.kind = SPACE_ALLOCATION,
		.base = rg->base + base,
		.size = bytes,
		.owner = rg->owner,
		.id = rg->slab->id[base / SLAB_UNIT],
		.mapped = true,
	};
	return CUDA_SUCCESS;
}

static CUresult find_in_range(const struct region *rg, const struct mapping *m,
			      struct space_range *ret_range)
{
	*ret_range = (struct space_range){
		.kind = SPACE_RESERVED,
		.base = m ? m->addr : rg->base,
		.size = m ? m->backing->size : rg->size,
		.id = m ? m->id : rg->id,
		.mapped = m,
		.in_host_memory = m && m->backing->in_host_memory,
	};
	return CUDA_SUCCESS;
}

static CUresult find_global(const struct space *sp, CUdeviceptr addr,
			    struct space_range *ret_range)
{
	for (size_t i = 0; i < sp->n_globals; i++) {
		const struct global *g = &sp->globals[i];

		if (addr - g->addr >= g->size)
			continue;
		*ret_range = (struct space_range){
			.kind = SPACE_GLOBAL,
			.base = g->addr,
			.size = g->size,
			.owner = g->owner,
			.id = g->id,
			.mapped = true,
		};
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static enum space_kind kind_of(const struct region *rg)
{
	return rg->kind == REGION_ARENA     ? SPACE_ARENA
	       : rg->kind == REGION_IMPORT  ? SPACE_IMPORT
	       : rg->kind == REGION_MANAGED ? SPACE_MANAGED
					    : SPACE_ALLOCATION;
}

CUresult space_find_locked(struct space *sp, CUdeviceptr addr,
			   struct space_range *ret_range)
{
	struct page *p = page_at_locked(sp, addr);
	struct region *rg = p ? p->region : NULL;

	if (!rg)
		return find_global(sp, addr, ret_range);
	if (rg == sp->spare || rg->kind == REGION_HIDDEN)
		return CUDA_ERROR_INVALID_VALUE;
	if (rg->kind == REGION_SLAB)
		return find_in_slab(rg, addr, ret_range);
	if (rg->kind == REGION_RANGE)
		return find_in_range(rg, p->map, ret_range);
	if (addr - (rg->base + rg->offset) >= rg->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_range = (struct space_range){
		.kind = kind_of(rg),
		.base = rg->base + rg->offset,
		.size = rg->bytes,
		.owner = rg->owner,
		.id = rg->id,
		.mapped = true,
		.arena = rg->arena,
	};
	return CUDA_SUCCESS;
}

CUresult space_find(struct space *sp, CUdeviceptr addr, struct space_range *ret_range)
{
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = space_find_locked(sp, addr, ret_range);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

static CUresult global_add_locked(struct space *sp, const struct global *g)
{
	for (size_t i = 0; i < sp->n_globals; i++) {
		if (sp->globals[i].addr == g->addr && sp->globals[i].module == g->module)
			return CUDA_SUCCESS;
	}
	if (sp->n_globals == sp->room_globals) {
		size_t room = MAX(2 * sp->room_globals, (size_t)16);
		void *p = reallocarray(sp->globals, room, sizeof(*sp->globals));

		if (!p)
			return CUDA_ERROR_OUT_OF_MEMORY;
		sp->globals = p;
		sp->room_globals = room;
	}
	sp->globals[sp->n_globals] = *g;
	sp->globals[sp->n_globals++].id = ++sp->next_id;
	return CUDA_SUCCESS;
}

CUresult space_global_add(struct space *sp, CUdeviceptr addr, uint64_t size,
			  unsigned owner, const void *module)
{
	struct global g = {.addr = addr, .size = size, .owner = owner, .module = module};
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = global_add_locked(sp, &g);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

void space_global_drop(struct space *sp, const void *module)
{
	size_t n = 0;

	pthread_mutex_lock(&sp->lock);
	for (size_t i = 0; i < sp->n_globals; i++) {
		if (sp->globals[i].module != module)
			sp->globals[n++] = sp->globals[i];
	}
	sp->n_globals = n;
	pthread_mutex_unlock(&sp->lock);
}
