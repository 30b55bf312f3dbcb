/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "memory/hostpool.h"
#include "memory/ledger.h"
#include "memory/region.h"

static const uint8_t piece_next[] = {
	[PIECE_FREE] = 1 << PIECE_RESIDENT | 1 << PIECE_MAPPED,
	[PIECE_RESIDENT] = 1 << PIECE_LEAVING | 1 << PIECE_FREE,
	[PIECE_LEAVING] = 1 << PIECE_MAPPED | 1 << PIECE_SWAPPED | 1 << PIECE_RESIDENT,
	[PIECE_MAPPED] = 1 << PIECE_RETURNING | 1 << PIECE_FREE,
	[PIECE_SWAPPED] = 1 << PIECE_RETURNING | 1 << PIECE_MAPPED | 1 << PIECE_FREE,
	[PIECE_RETURNING] = 1 << PIECE_RESIDENT | 1 << PIECE_MAPPED | 1 << PIECE_SWAPPED,
};
static_assert(ARRAY_SIZE(piece_next) == PIECE_NUM_STATES, "every state leads somewhere");

static const char *const piece_names[] = {
	[PIECE_FREE] = "FREE",       [PIECE_RESIDENT] = "RESIDENT",
	[PIECE_LEAVING] = "LEAVING", [PIECE_MAPPED] = "MAPPED",
	[PIECE_SWAPPED] = "SWAPPED", [PIECE_RETURNING] = "RETURNING",
};
static_assert(ARRAY_SIZE(piece_names) == PIECE_NUM_STATES, "a name for each");

void piece_set_state(struct backing *c, struct piece *p, enum piece_state to)
{
	assert(piece_next[p->state] >> to & 1);
	log_debug("backing %llu, %llu bytes from %llu: %s, was %s",
		  (unsigned long long)c->id, (unsigned long long)p->size,
		  (unsigned long long)p->offset, piece_names[to], piece_names[p->state]);
	c->bytes[p->state] -= p->size;
	c->bytes[to] += p->size;
	p->state = to;
}

struct backing *backing_blank(uint64_t size, unsigned n)
{
	struct backing *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	list_init(&c->idle);
	list_init(&c->link);
	list_init(&c->in_space);
	list_init(&c->mappings);
	c->size = size;
	c->piece = n == 1 ? &c->one : calloc(n, sizeof(*c->piece));
	if (!c->piece) {
		free(c);
		return NULL;
	}
	c->room = n;
	c->bytes[PIECE_FREE] = size;
	return c;
}

struct backing *backing_alloc(uint64_t size, uint64_t extent)
{
	unsigned n = (unsigned)((size - 1) / extent) + 1;
	struct backing *c = backing_blank(size, n);

	if (!c)
		return NULL;
	c->n_pieces = n;
	for (unsigned i = 0; i < n; i++) {
		c->piece[i].offset = i * extent;
		c->piece[i].size = MIN(extent, size - i * extent);
		piece_set_state(c, &c->piece[i], PIECE_RESIDENT);
	}
	return c;
}

struct dev_mem *backing_strip(struct backing *c)
{
	struct dev_mem *dev = c->piece->dev;

	if (c->piece != &c->one)
		free(c->piece);
	free(c);
	return dev;
}

void mem_release(struct space *sp, struct backing *c)
{
	for (unsigned i = 0; i < c->n_pieces; i++) {
		struct piece *p = &c->piece[i];

		if (p->state == PIECE_FREE)
			continue;
		if (p->dev)
			sp->env->ops->memory.release(sp->env->dev, p->dev);
		if (p->host)
			hostpool_put(sp->hostpool, p->host);
		piece_set_state(c, p, PIECE_FREE);
	}
	if (c->piece != &c->one)
		free(c->piece);
	free(c);
}

struct dev_mem *backing_whole(const struct backing *c)
{
	return c->n_pieces == 1 && c->piece->state == PIECE_RESIDENT ? c->piece->dev
								     : NULL;
}

enum dev_memory backing_memory(const struct backing *c)
{
	return c->in_host_memory ? DEV_MEMORY_HOST
	       : c->compressible ? DEV_MEMORY_COMPRESSIBLE
				 : DEV_MEMORY_DEVICE;
}

bool backing_as_new(const struct space *sp, const struct backing *c)
{
	return backing_memory(c) == DEV_MEMORY_DEVICE &&
	       c->bytes[PIECE_RESIDENT] == c->size &&
	       c->n_pieces == (c->size - 1) / sp->extent_bytes + 1;
}

bool backing_wait_locked(struct space *sp, struct backing *c)
{
	if (!c->moving)
		return false;
	c->wanted = sp->runs;
	pthread_cond_wait(&sp->moved_cond, &sp->lock);
	return true;
}

/* ---- books ---- */

uint64_t backing_evicted(const struct backing *c)
{
	return c->bytes[PIECE_MAPPED] + c->bytes[PIECE_SWAPPED] +
	       c->bytes[PIECE_RETURNING];
}

bool backing_movable(const struct backing *c)
{
	return c->charged && !c->in_host_memory && c->share == BACKING_OWN && !c->kept &&
	       c->n_mappings == 1;
}

void backing_count_locked(struct space *sp, struct backing *c)
{
	uint64_t here = c->bytes[PIECE_RESIDENT] + c->bytes[PIECE_LEAVING];
	struct space_residency *sum = &sp->residency, *was = &c->counted, now = {0};

	if (c->charged) {
		*(backing_movable(c) ? &now.movable : &now.pinned) = here;
		now.mapped = c->bytes[PIECE_MAPPED];
		now.swapped = c->bytes[PIECE_SWAPPED] + c->bytes[PIECE_RETURNING];
	}
	sum->movable += now.movable - was->movable;
	sum->mapped += now.mapped - was->mapped;
	sum->swapped += now.swapped - was->swapped;
	sum->pinned += now.pinned - was->pinned;
	if (now.movable > was->movable)
		hostpool_kick(sp->hostpool);
	*was = now;
	ledger_publish_locked(sp);
}

/* Swapped pieces of a backing that is mapped nowhere count as mapped: they are within
 * reach, nothing has to be done before they are used. */
void backing_unmapped_locked(struct space *sp, struct backing *c)
{
	for (unsigned i = 0; i < c->n_pieces && !c->n_mappings; i++) {
		if (c->piece[i].state == PIECE_SWAPPED)
			piece_set_state(c, &c->piece[i], PIECE_MAPPED);
	}
	backing_count_locked(sp, c);
}

/* ---- mapping ---- */

/* Returns the memory that is mapped for p where the backing is mapped; NULL: none. */
static struct dev_mem *mapped_memory(const struct piece *p)
{
	return p->state == PIECE_RESIDENT ? p->dev
	       : p->state == PIECE_MAPPED ? p->host->dev
					  : NULL;
}

/* The next run of pieces, from *i on, that are mapped; false: there is none. */
static bool next_run(const struct backing *c, unsigned *i, uint64_t *ret_offset,
		     uint64_t *ret_size)
{
	while (*i < c->n_pieces && !mapped_memory(&c->piece[*i]))
		++*i;
	if (*i == c->n_pieces)
		return false;
	*ret_offset = c->piece[*i].offset;
	*ret_size = 0;
	while (*i < c->n_pieces && mapped_memory(&c->piece[*i]))
		*ret_size += c->piece[(*i)++].size;
	return true;
}

static void unmap_some(struct space *sp, const struct backing *c, CUdeviceptr addr,
		       unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct piece *p = &c->piece[i];

		if (mapped_memory(p))
			sp->env->ops->memory.unmap(sp->env->dev, addr + p->offset,
						   p->size);
	}
}

CUresult backing_map(struct space *sp, const struct backing *c, CUdeviceptr addr)
{
	for (unsigned i = 0; i < c->n_pieces; i++) {
		struct dev_mem *memory = mapped_memory(&c->piece[i]);
		CUresult r = CUDA_SUCCESS;

		if (memory)
			r = sp->env->ops->memory.map(sp->env->dev,
						     addr + c->piece[i].offset, memory);
		if (r != CUDA_SUCCESS) {
			unmap_some(sp, c, addr, i);
			return r;
		}
	}
	return CUDA_SUCCESS;
}

CUresult backing_unmap(struct space *sp, const struct backing *c, CUdeviceptr addr)
{
	uint64_t offset, size;
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; r == CUDA_SUCCESS && next_run(c, &i, &offset, &size);)
		r = sp->env->ops->memory.unmap(sp->env->dev, addr + offset, size);
	return r;
}

CUresult backing_set_access(struct space *sp, const struct backing *c, CUdeviceptr addr,
			    CUmemAccess_flags access)
{
	uint64_t offset, size;
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; r == CUDA_SUCCESS && next_run(c, &i, &offset, &size);)
		r = sp->env->ops->memory.set_access(sp->env->dev, addr + offset, size,
						    access);
	return r;
}
