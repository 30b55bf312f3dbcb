/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other sessions of the tenant map too. What is shared is the chunk behind an
 * allocation, so others see its neighbours in a slab, as with the real driver. A chunk is
 * exported once, under a name that the broker gives; it is charged here until it is
 * freed, and there it is charged to nobody. Each opened allocation is a region of its
 * own.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "memory/region.h"

static CUresult export_chunk_locked(struct space *sp, struct space_chunk *c)
{
	const struct sess_broker *b = &sp->s->broker;
	struct sess_ipc x = {.kind = SESS_IPC_MEMORY, .fd = -1, .bytes = c->size};
	CUresult r;
	int e;

	if (c->share == CHUNK_EXPORTED)
		return CUDA_SUCCESS;
	if (!b->ipc_export)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (sp->n_exported == SPACE_SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sp->s->ops->chunk_export(sp->s->dev, c->dev, &x.fd);
	if (r != CUDA_SUCCESS)
		return r;
	e = b->ipc_export(b->arg, &x, c->name);
	closep(&x.fd);
	if (e < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->share = CHUNK_EXPORTED;
	sp->n_exported++;
	return CUDA_SUCCESS;
}

CUresult space_export(struct space *sp, CUdeviceptr addr, struct space_share *ret_share)
{
	struct space_range range;
	struct region *rg;
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	r = space_find_locked(sp, addr, &range);
	if (r == CUDA_SUCCESS && range.kind != SPACE_ALLOCATION)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS) {
		rg = page_at_locked(sp, addr)->region;
		r = export_chunk_locked(sp, rg->map->chunk);
	}
	if (r == CUDA_SUCCESS) {
		memcpy(ret_share->name, rg->map->chunk->name, sizeof(ret_share->name));
		ret_share->offset = range.base - rg->base;
		ret_share->bytes = range.size;
	}
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

/* The chunk behind a name; the caller holds a reference. */
static CUresult chunk_open_locked(struct space *sp, const struct space_share *h,
				  struct space_chunk **ret_chunk)
{
	const struct sess_broker *b = &sp->s->broker;
	_cleanup_free_ struct space_chunk *c = calloc(1, sizeof(*c));
	struct sess_ipc x = {.kind = SESS_IPC_MEMORY, .fd = -1};
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	int e;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!b->ipc_open)
		return CUDA_ERROR_NOT_SUPPORTED;
	e = b->ipc_open(b->arg, h->name, &x);
	if (e < 0)
		return as_result(e);
	if (x.fd >= 0 && !(x.bytes % SPACE_PAGE) && inside(h, x.bytes))
		r = sp->s->ops->chunk_import(sp->s->dev, x.fd, x.bytes, &c->dev);
	closep(&x.fd);
	if (r != CUDA_SUCCESS) {
		b->ipc_close(b->arg, h->name);
		return r;
	}
	list_init(&c->idle);
	list_init(&c->link);
	c->size = x.bytes;
	c->refs = 1;
	c->id = ++sp->next_id;
	c->share = CHUNK_IMPORTED;
	memcpy(c->name, h->name, sizeof(c->name));
	sp->n_imported++;
	*ret_chunk = steal(c);
	return CUDA_SUCCESS;
}

static CUresult import_locked(struct space *sp, const struct space_share *h,
			      unsigned owner, CUdeviceptr *ret_addr)
{
	struct space_chunk *c;
	struct region *rg;
	CUresult r;

	if (sp->n_imported == SPACE_SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = chunk_open_locked(sp, h, &c);
	if (r != CUDA_SUCCESS)
		return r;
	r = region_backed_locked(sp, REGION_IMPORT, c, &rg);
	chunk_put_locked(sp, c); /* the mapping holds its own reference */
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

/* What the context has opened already. */
static struct region *find_import(struct space *sp, const struct space_share *h,
				  unsigned owner)
{
	struct region *rg;

	list_for_each (rg, &sp->regions, link) {
		if (rg->kind == REGION_IMPORT && rg->owner == owner &&
		    rg->offset == h->offset && rg->bytes == h->bytes &&
		    !memcmp(rg->map->chunk->name, h->name, sizeof(h->name)))
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

/* ---- the end of a chunk that is shared ---- */

void share_end_locked(struct space *sp, struct space_chunk *c)
{
	const struct sess_broker *b = &sp->s->broker;

	sp->s->ops->chunk_release(sp->s->dev, c->dev);
	if (c->share == CHUNK_IMPORTED) {
		sp->n_imported--;
		b->ipc_close(b->arg, c->name);
	} else {
		sp->n_exported--;
		uncharged_locked(sp, c->size);
		b->ipc_drop(b->arg, c->name);
	}
	free(c);
}
