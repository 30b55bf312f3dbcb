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
	if (!chunk_whole(c)) /* it has given way, and one name is one piece */
		return CUDA_ERROR_NOT_SUPPORTED;
	if (sp->n_exported == SPACE_SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sp->s->ops->chunk_export(sp->s->dev, chunk_whole(c), &x.fd);
	if (r != CUDA_SUCCESS)
		return r;
	e = b->ipc_export(b->arg, &x, c->name);
	closep(&x.fd);
	if (e < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->share = CHUNK_EXPORTED;
	chunk_count_locked(sp, c);
	sp->n_exported++;
	return CUDA_SUCCESS;
}

static CUresult export_part_locked(struct space *sp, CUdeviceptr addr, uint64_t bytes,
				   struct space_share *ret_share)
{
	const struct region *rg = page_at_locked(sp, addr)->region;
	struct space_chunk *c = rg->map->chunk;
	CUresult r = export_chunk_locked(sp, c);

	if (r != CUDA_SUCCESS)
		return r;
	memcpy(ret_share->name, c->name, sizeof(ret_share->name));
	ret_share->offset = addr - rg->base;
	ret_share->bytes = bytes;
	return CUDA_SUCCESS;
}

static bool settle(struct space *sp, CUdeviceptr addr)
{
	struct mapping *m = mapping_at_locked(sp, addr);

	return m && chunk_settle_locked(sp, m->chunk);
}

CUresult space_export(struct space *sp, CUdeviceptr addr, struct space_share *ret_share)
{
	struct space_range range;
	CUresult r;

	pthread_mutex_lock(&sp->lock);
	do {
		r = space_find_locked(sp, addr, &range);
	} while (r == CUDA_SUCCESS && settle(sp, addr));
	if (r == CUDA_SUCCESS && range.kind != SPACE_ALLOCATION)
		r = CUDA_ERROR_INVALID_VALUE;
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
	do {
		r = space_find_locked(sp, addr, &range);
	} while (r == CUDA_SUCCESS && settle(sp, addr));
	if (r == CUDA_SUCCESS &&
	    (range.kind != SPACE_ARENA || bytes > range.size - (addr - range.base)))
		r = CUDA_ERROR_INVALID_VALUE; /* it has gone since it was looked up */
	if (r == CUDA_SUCCESS)
		r = export_part_locked(sp, addr, bytes, ret_share);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

CUresult space_chunk_export(struct space *sp, struct space_chunk *c, uint8_t ret_name[16])
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sp->lock);
	while (chunk_settle_locked(sp, c)) /* the caller holds a reference */
		;
	if (c->share == CHUNK_OWN)
		r = c->in_host_memory ? CUDA_ERROR_NOT_SUPPORTED
				      : export_chunk_locked(sp, c);
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

static CUresult chunk_import(struct space *sp, int fd, uint64_t size,
			     struct space_chunk **ret_chunk)
{
	struct session *s = sp->s;
	struct dev_chunk *dev;
	CUresult r = s->ops->chunk_import(s->dev, fd, size, &dev);

	if (r != CUDA_SUCCESS)
		return r;
	*ret_chunk = chunk_alloc(size, size);
	if (!*ret_chunk) {
		s->ops->chunk_release(s->dev, dev);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	(*ret_chunk)->piece->dev = dev;
	return CUDA_SUCCESS;
}

/* The chunk behind a name; the caller holds a reference. */
static CUresult chunk_open_locked(struct space *sp, const struct space_share *h,
				  struct space_chunk **ret_chunk)
{
	const struct sess_broker *b = &sp->s->broker;
	struct sess_ipc x = {.kind = SESS_IPC_MEMORY, .fd = -1};
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct space_chunk *c;
	int e;

	if (!b->ipc_open)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (sp->n_imported == SPACE_SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = b->ipc_open(b->arg, h->name, &x);
	if (e < 0)
		return as_result(e);
	if (x.fd >= 0 && !(x.bytes % SPACE_PAGE) && inside(h, x.bytes))
		r = chunk_import(sp, x.fd, x.bytes, &c);
	closep(&x.fd);
	if (r != CUDA_SUCCESS) {
		b->ipc_close(b->arg, h->name);
		return r;
	}
	c->refs = 1;
	c->id = ++sp->next_id;
	c->share = CHUNK_IMPORTED;
	memcpy(c->name, h->name, sizeof(c->name));
	sp->n_imported++;
	*ret_chunk = c;
	return CUDA_SUCCESS;
}

static CUresult import_locked(struct space *sp, const struct space_share *h,
			      unsigned owner, CUdeviceptr *ret_addr)
{
	struct space_chunk *c;
	struct region *rg;
	CUresult r = chunk_open_locked(sp, h, &c);

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

CUresult space_chunk_open(struct space *sp, const uint8_t name[16],
			  struct space_chunk **ret_chunk)
{
	struct space_share h = {.bytes = SPACE_PAGE}; /* of which there is one at least */
	CUresult r;

	memcpy(h.name, name, sizeof(h.name));
	pthread_mutex_lock(&sp->lock);
	r = chunk_open_locked(sp, &h, ret_chunk);
	if (r == CUDA_SUCCESS)
		list_append(&sp->chunks, &(*ret_chunk)->link);
	pthread_mutex_unlock(&sp->lock);
	return r;
}

/* ---- the end of a chunk that is shared ---- */

void share_end_locked(struct space *sp, struct space_chunk *c)
{
	const struct sess_broker *b = &sp->s->broker;
	struct space_chunk was = *c;

	chunk_release(sp, c); /* before anybody is told that it is free */
	if (was.share == CHUNK_IMPORTED) {
		sp->n_imported--;
		b->ipc_close(b->arg, was.name);
	} else {
		sp->n_exported--;
		uncharged_locked(sp, was.size);
		b->ipc_drop(b->arg, was.name);
	}
}
