/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other sessions of the tenant map too. What is shared is the backing behind
 * an allocation, so others see its neighbours in a slab, as with the real driver. A
 * backing is exported once, under a name that the broker gives, a descriptor for each of
 * its pieces; it is charged here until it is freed, and there it is charged to nobody.
 * Each opened allocation is a region of its own.
 *
 * What is shared does not move any more, so what is evicted becomes resident first. If
 * there is no room for it on the device, or work does not end in time (it may wait for
 * the very process that is to have the memory), it is shared where it lies, in host
 * memory.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "ipc/share.h"
#include "memory/hostpool.h"
#include "memory/region.h"

/* Attempts to bring a backing back: rarely less comes than was evicted when it was asked
 * for.
 */
#define RESIDENT_TRIES 3

/* ---- becoming resident ---- */

/* The caller has looked it up; the lock is let go of meanwhile. */
static int make_resident_locked(struct space *sp, struct backing *c)
{
	uint64_t evicted = backing_evicted(c);
	struct region *hidden = NULL;
	int r;

	if (!sp->make_resident)
		return -ENOMEM;
	/* A backing that is mapped nowhere cannot be copied to. */
	if (!c->n_mappings &&
	    region_backed_locked(sp, REGION_HIDDEN, c, &hidden) != CUDA_SUCCESS)
		return -ENOMEM;
	c->refs++;
	c->kept++;
	backing_count_locked(sp, c);
	pthread_mutex_unlock(&sp->lock);
	r = sp->make_resident(sp->make_resident_arg, c, evicted);
	pthread_mutex_lock(&sp->lock);
	while (backing_wait_locked(sp, c))
		;
	if (hidden)
		region_free_locked(sp, hidden);
	c->kept--;
	backing_count_locked(sp, c);
	backing_put_locked(sp, c);
	return r;
}

/* True if the caller has to look it up again: all may have changed. */
static bool prepare_locked(struct space *sp, struct backing *c, unsigned *tries)
{
	if (backing_wait_locked(sp, c))
		return true;
	if (c->share != BACKING_OWN || !backing_evicted(c) || !*tries)
		return false;
	*tries = make_resident_locked(sp, c) < 0 ? 0 : *tries - 1;
	return true;
}

/* ---- exporting ---- */

static CUresult export_piece(struct space *sp, struct backing *c, unsigned i)
{
	const struct accounts *b = sp->env->accounts;
	struct piece *p = &c->piece[i];
	struct share_part x = {.kind = SHARE_MEMORY,
			       .fd = -1,
			       .part = i,
			       .n_parts = c->n_pieces,
			       .bytes = p->size,
			       .evicted = p->host};
	CUresult r;
	int e;

	r = sp->env->ops->memory.export(sp->env->dev, p->host ? p->host->dev : p->dev,
					&x.fd);
	if (r != CUDA_SUCCESS)
		return r;
	e = b->ipc_export(b->arg, &x, c->name);
	closep(&x.fd);
	if (e == 0 && p->host)
		p->host->shared = true;
	return e < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult export_backing_locked(struct space *sp, struct backing *c)
{
	const struct accounts *b = sp->env->accounts;
	CUresult r = CUDA_SUCCESS;
	unsigned i;

	if (c->share == BACKING_EXPORTED)
		return CUDA_SUCCESS;
	if (!b->ipc_export)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (c->bytes[PIECE_SWAPPED] || c->n_pieces > SPACE_SHARES_MAX - sp->n_exported)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; i < c->n_pieces && r == CUDA_SUCCESS; i++)
		r = export_piece(sp, c, i);
	if (r != CUDA_SUCCESS) {
		if (i > 1) /* there is a name */
			b->ipc_drop(b->arg, c->name);
		return r;
	}
	c->share = BACKING_EXPORTED;
	backing_count_locked(sp, c);
	sp->n_exported += c->n_pieces;
	return CUDA_SUCCESS;
}

static CUresult export_part_locked(struct space *sp, CUdeviceptr addr, uint64_t bytes,
				   struct space_share *ret_share)
{
	const struct region *rg = page_at_locked(sp, addr)->region;
	struct backing *c = rg->map->backing;
	CUresult r = export_backing_locked(sp, c);

	if (r != CUDA_SUCCESS)
		return r;
	memcpy(ret_share->name, c->name, sizeof(ret_share->name));
	ret_share->offset = addr - rg->base;
	ret_share->bytes = bytes;
	return CUDA_SUCCESS;
}

/* Looks up what covers addr, of that kind, once it can be exported. */
static CUresult find_prepared_locked(struct space *sp, CUdeviceptr addr,
				     enum space_kind kind, struct space_range *ret_range)
{
	unsigned tries = RESIDENT_TRIES;
	CUresult r;

	do {
		r = space_find_locked(sp, addr, ret_range);
		if (r == CUDA_SUCCESS && ret_range->kind != kind)
			r = CUDA_ERROR_INVALID_VALUE;
	} while (r == CUDA_SUCCESS &&
		 prepare_locked(sp, mapping_at_locked(sp, addr)->backing, &tries));
	return r;
}

CUresult space_export(struct space *sp, CUdeviceptr addr, struct space_share *ret_share)
{
	struct space_range range;
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = find_prepared_locked(sp, addr, SPACE_ALLOCATION, &range);
	if (r == CUDA_SUCCESS)
		r = export_part_locked(sp, range.base, range.size, ret_share);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

CUresult space_export_arena(struct space *sp, CUdeviceptr addr, uint64_t bytes,
			    struct space_share *ret_share)
{
	struct space_range range;
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = find_prepared_locked(sp, addr, SPACE_ARENA, &range);
	if (r == CUDA_SUCCESS && bytes > range.size - (addr - range.base))
		r = CUDA_ERROR_INVALID_VALUE; /* it has gone since it was looked up */
	if (r == CUDA_SUCCESS)
		r = export_part_locked(sp, addr, bytes, ret_share);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

CUresult backing_export(struct space *sp, struct backing *c, uint8_t ret_name[16])
{
	unsigned tries = RESIDENT_TRIES;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sp->lock);
	while (prepare_locked(sp, c, &tries)) /* the caller holds a reference */
		;
	if (c->share == BACKING_OWN)
		r = c->in_host_memory ? CUDA_ERROR_NOT_SUPPORTED
				      : export_backing_locked(sp, c);
	if (r == CUDA_SUCCESS)
		memcpy(ret_name, c->name, sizeof(c->name));
	pthread_mutex_unlock(&sp->lock);
	return r;
}

/* ---- the other side ---- */

static CUresult as_result(int e)
{
	switch (e) {
	case -EDEADLK: /* what the driver says of memory of the process itself */
		return CUDA_ERROR_INVALID_CONTEXT;
	case -EINVAL:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

static bool inside(const struct space_share *h, uint64_t size)
{
	return h->bytes && h->offset < size && h->bytes <= size - h->offset;
}

/* The next part of the backing behind a name. */
static CUresult import_piece(struct space *sp, struct backing *c,
			     const struct share_part *x)
{
	struct piece *p = &c->piece[c->n_pieces];
	const struct mem_env *e = sp->env;
	CUresult r;

	if (x->fd < 0 || x->bytes > DEVICE_BAND_SIZE - c->size || x->n_parts != c->room)
		return CUDA_ERROR_INVALID_VALUE;
	*p = (struct piece){.offset = c->size, .size = x->bytes};
	r = e->ops->memory.import(e->dev, x->fd, x->bytes, &p->dev);
	if (r != CUDA_SUCCESS)
		return r;
	c->n_pieces++;
	c->size += x->bytes;
	c->bytes[PIECE_FREE] += x->bytes;
	piece_set_state(c, p, PIECE_RESIDENT);
	return CUDA_SUCCESS;
}

/* The first part has been opened, and is in x. */
static CUresult import_pieces(struct space *sp, const uint8_t *name, struct share_part *x,
			      struct backing *c)
{
	const struct accounts *b = sp->env->accounts;
	CUresult r = import_piece(sp, c, x);
	int e = 0;

	while (r == CUDA_SUCCESS && e == 0 && c->n_pieces < c->room) {
		closep(&x->fd);
		*x = (struct share_part){
			.kind = SHARE_MEMORY, .fd = -1, .part = c->n_pieces};
		e = b->ipc_open(b->arg, name, x);
		r = e < 0 ? as_result(e) : import_piece(sp, c, x);
	}
	return r;
}

/* The backing behind a name; the caller holds a reference. */
static CUresult backing_open_locked(struct space *sp, const struct space_share *h,
				    struct backing **ret_backing)
{
	const struct accounts *b = sp->env->accounts;
	struct share_part x = {.kind = SHARE_MEMORY, .fd = -1};
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	struct backing *c = NULL;
	int e;

	if (!b->ipc_open)
		return CUDA_ERROR_NOT_SUPPORTED;
	e = b->ipc_open(b->arg, h->name, &x);
	if (e < 0)
		return as_result(e);
	if (x.n_parts && x.n_parts <= SPACE_SHARES_MAX - sp->n_imported)
		c = backing_blank(0, x.n_parts);
	if (c)
		r = import_pieces(sp, h->name, &x, c);
	closep(&x.fd);
	if (r == CUDA_SUCCESS && (c->size % SPACE_PAGE || !inside(h, c->size)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS) {
		if (c)
			mem_release(sp, c);
		b->ipc_close(b->arg, h->name);
		return r;
	}
	c->refs = 1;
	c->id = ++sp->next_id;
	c->share = BACKING_IMPORTED;
	memcpy(c->name, h->name, sizeof(c->name));
	sp->n_imported += c->n_pieces;
	*ret_backing = c;
	return CUDA_SUCCESS;
}

static CUresult import_locked(struct space *sp, const struct space_share *h,
			      unsigned owner, CUdeviceptr *ret_addr)
{
	struct backing *c;
	struct region *rg;
	CUresult r = backing_open_locked(sp, h, &c);

	if (r != CUDA_SUCCESS)
		return r;
	r = region_backed_locked(sp, REGION_IMPORT, c, &rg);
	backing_put_locked(sp, c); /* the mapping holds its own reference */
	if (r != CUDA_SUCCESS)
		return r;
	rg->offset = h->offset;
	rg->bytes = h->bytes;
	rg->owner = owner;
	rg->opened = 1;
	list_append(&sp->regions, &rg->link);
	*ret_addr = rg->base + rg->offset;
	return CUDA_SUCCESS;
}

/* Finds the import of h that the context `owner` has already, or returns NULL. */
static struct region *find_import(struct space *sp, const struct space_share *h,
				  unsigned owner)
{
	struct region *rg;

	list_for_each (rg, &sp->regions, link) {
		if (rg->kind == REGION_IMPORT && rg->owner == owner &&
		    rg->offset == h->offset && rg->bytes == h->bytes &&
		    !memcmp(rg->map->backing->name, h->name, sizeof(h->name)))
			return rg;
	}
	return NULL;
}

CUresult space_import(struct space *sp, const struct space_share *h, unsigned owner,
		      CUdeviceptr *ret_addr)
{
	CUresult r = CUDA_SUCCESS;
	struct region *rg;

	pthread_mutex_lock(&sp->lock);
	rg = find_import(sp, h, owner);
	if (!rg) {
		r = import_locked(sp, h, owner, ret_addr);
	} else if (rg->opened == UINT_MAX) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		rg->opened++;
		*ret_addr = rg->base + rg->offset;
	}
	pthread_mutex_unlock(&sp->lock);
	return r;
}

static struct region *import_at(struct space *sp, CUdeviceptr addr)
{
	struct page *p = page_at_locked(sp, addr);
	struct region *rg = p ? p->region : NULL;

	return rg && rg->kind == REGION_IMPORT && addr == rg->base + rg->offset ? rg
										: NULL;
}

bool space_is_import(struct space *sp, CUdeviceptr addr)
{
	bool is;

	pthread_mutex_lock(&sp->lock);
	is = import_at(sp, addr) != NULL;
	pthread_mutex_unlock(&sp->lock);
	return is;
}

CUresult space_import_close(struct space *sp, CUdeviceptr addr)
{
	struct region *rg;

	pthread_mutex_lock(&sp->lock);
	rg = import_at(sp, addr);
	if (rg && !--rg->opened)
		region_free_locked(sp, rg);
	pthread_mutex_unlock(&sp->lock);
	return rg ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult backing_open(struct space *sp, const uint8_t name[16],
		      struct backing **ret_backing)
{
	struct space_share h = {.bytes = SPACE_PAGE}; /* of which there is one at least */
	CUresult r;

	memcpy(h.name, name, sizeof(h.name));
	pthread_mutex_lock(&sp->lock);
	r = backing_open_locked(sp, &h, ret_backing);
	if (r == CUDA_SUCCESS)
		list_append(&sp->backings, &(*ret_backing)->link);
	pthread_mutex_unlock(&sp->lock);
	return r;
}
