/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "memory/grant.h"
#include "memory/hostpool.h"
#include "memory/ledger.h"
#include "memory/pieces.h"
#include "memory/region.h"

static unsigned count_pieces(const struct space *sp, uint64_t here, uint64_t evicted)
{
	unsigned n = here ? (unsigned)((here - 1) / sp->extent_bytes) + 1 : 0;

	for (; evicted; evicted -= piece_size(sp, evicted))
		n++;
	return n;
}

static struct piece *next_piece(struct backing *c, uint64_t offset, uint64_t size)
{
	struct piece *p = &c->piece[c->n_pieces++];

	*p = (struct piece){.offset = offset, .size = size};
	return p;
}

/* A backing of which the last bytes lie in host memory; the rest is still to be made. */
static struct backing *spilled_new(struct space *sp, uint64_t size, uint64_t evicted)
{
	uint64_t here = size - evicted;
	struct backing *c = backing_blank(size, count_pieces(sp, here, evicted));
	struct piece *p;

	if (!c)
		return NULL;
	for (uint64_t at = 0; at < here; at += p->size) {
		p = next_piece(c, at, MIN(sp->extent_bytes, here - at));
		piece_set_state(c, p, PIECE_RESIDENT);
	}
	for (uint64_t at = here; at < size; at += p->size) {
		p = next_piece(c, at, piece_size(sp, size - at));
		p->host = hostpool_take(sp->hostpool, p->size);
		if (!p->host) {
			c->n_pieces--;
			mem_release(sp, c);
			return NULL;
		}
		piece_set_state(c, p, PIECE_MAPPED);
	}
	return c;
}

static CUresult take(struct space *sp, uint64_t bytes, bool spare, struct grant *ret_g)
{
	CUresult r;

	*ret_g = (struct grant){0};
	r = ledger_charge_part(sp, bytes, spare, &ret_g->evicted);
	if (r != CUDA_SUCCESS)
		return r;
	ret_g->bytes = bytes;
	if (!ret_g->evicted)
		return CUDA_SUCCESS;
	ret_g->backing = spilled_new(sp, bytes, ret_g->evicted);
	if (ret_g->backing)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sp->lock);
	grant_drop_locked(sp, ret_g);
	pthread_mutex_unlock(&sp->lock);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult grant_take(struct space *sp, uint64_t bytes, struct grant *ret_g)
{
	return take(sp, bytes, false, ret_g);
}

CUresult grant_take_spare(struct space *sp, uint64_t bytes, struct grant *ret_g)
{
	return take(sp, bytes, true, ret_g);
}

CUresult grant_take_host(struct space *sp, uint64_t bytes, struct grant *ret_g)
{
	CUresult r = space_charge(sp, bytes);

	*ret_g = (struct grant){.bytes = r ? 0 : bytes, .in_host_memory = true};
	return r;
}

void grant_drop_locked(struct space *sp, struct grant *g)
{
	if (g->backing)
		mem_release(sp, steal(g->backing));
	ledger_uncharge_part_locked(sp, g->bytes, g->evicted);
	g->bytes = g->evicted = 0;
}

/* ---- the memory behind it ---- */

/* Granted, but the device has none: other sessions may keep what they freed just now.
 * Lets go of the lock in between; the backing that the memory is for is in no list yet.
 * */
static CUresult create_again(struct space *sp, uint64_t size, enum dev_memory memory,
			     struct dev_mem **ret_dev)
{
	const struct timespec pause = {.tv_nsec = SPACE_IDLE_NS / 4};
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	for (unsigned i = 0; i < 8 && r == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		if (i) {
			pthread_mutex_unlock(&sp->lock);
			nanosleep(&pause, NULL);
			pthread_mutex_lock(&sp->lock);
		}
		space_flush_locked(sp);
		r = sp->env->ops->memory.create(sp->env->dev, size, memory, ret_dev);
	}
	return r;
}

/* Makes device memory for the pieces of c that are resident; on failure frees c. */
static CUresult fill(struct space *sp, struct backing *c)
{
	const struct mem_env *e = sp->env;
	CUresult r = CUDA_SUCCESS;

	idle_trim_locked(sp, c->bytes[PIECE_RESIDENT]);
	for (unsigned i = 0; i < c->n_pieces && r == CUDA_SUCCESS; i++) {
		struct piece *p = &c->piece[i];

		if (p->state != PIECE_RESIDENT)
			continue;
		r = e->ops->memory.create(e->dev, p->size, backing_memory(c), &p->dev);
		if (r == CUDA_ERROR_OUT_OF_MEMORY && !c->in_host_memory)
			r = create_again(sp, p->size, backing_memory(c), &p->dev);
	}
	if (r != CUDA_SUCCESS)
		mem_release(sp, c);
	return r;
}

static CUresult create(struct space *sp, uint64_t size, bool in_host_memory,
		       struct backing **ret_backing)
{
	uint64_t extent = in_host_memory ? size : sp->extent_bytes;
	struct backing *c = backing_alloc(size, extent);
	CUresult r;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->in_host_memory = in_host_memory;
	r = fill(sp, c);
	if (r == CUDA_SUCCESS)
		*ret_backing = c;
	return r;
}

static void enter(struct space *sp, struct backing *c)
{
	c->refs = 1;
	c->handle = 0;
	c->id = ++sp->next_id;
	c->charged = true;
	list_append(&sp->all, &c->in_space);
	backing_count_locked(sp, c);
}

CUresult backing_new_locked(struct space *sp, struct grant *g,
			    struct backing **ret_backing)
{
	struct backing *c = steal(g->backing);
	CUresult r = CUDA_SUCCESS;

	if (c)
		r = fill(sp, c);
	else if (g->in_host_memory || !(c = idle_take_locked(sp, g->bytes)))
		r = create(sp, g->bytes, g->in_host_memory, &c);
	if (r != CUDA_SUCCESS)
		return r;
	g->bytes = g->evicted = 0;
	enter(sp, c);
	*ret_backing = c;
	return CUDA_SUCCESS;
}
