/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory behind a grant, and its end. */
#include <time.h>

#include "memory/grant.h"
#include "memory/ledger.h"
#include "memory/region.h"

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
		r = sp->env->ops->memory.chunk_create(sp->env->dev, size, memory,
						      ret_dev);
	}
	return r;
}

/* Makes device memory for the pieces of c that are resident; on failure frees c. */
static CUresult fill(struct space *sp, struct space_chunk *c)
{
	const struct mem_env *e = sp->env;
	CUresult r = CUDA_SUCCESS;

	idle_trim_locked(sp, c->bytes[PIECE_RESIDENT]);
	for (unsigned i = 0; i < c->n_pieces && r == CUDA_SUCCESS; i++) {
		struct piece *p = &c->piece[i];

		if (p->state != PIECE_RESIDENT)
			continue;
		r = e->ops->memory.chunk_create(e->dev, p->size, chunk_memory(c),
						&p->dev);
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

CUresult backing_new_locked(struct space *sp, struct grant *g,
			    struct space_chunk **ret_chunk)
{
	struct space_chunk *c = steal(g->chunk);
	CUresult r = CUDA_SUCCESS;

	if (c)
		r = fill(sp, c);
	else if (g->in_host_memory || !(c = idle_take_locked(sp, g->bytes)))
		r = create(sp, g->bytes, g->in_host_memory, &c);
	if (r != CUDA_SUCCESS)
		return r;
	g->bytes = g->away = 0;
	enter(sp, c);
	*ret_chunk = c;
	return CUDA_SUCCESS;
}

void chunk_put_locked(struct space *sp, struct space_chunk *c)
{
	if (!c || --c->refs)
		return;
	list_remove(&c->link);
	list_remove(&c->in_space);
	if (c->share == CHUNK_OWN && c->charged)
		ledger_uncharge_part_locked(sp, c->size - c->bytes[PIECE_FREE],
					    chunk_away(c));
	c->charged = false;
	chunk_count_locked(sp, c);
	if (c->share != CHUNK_OWN)
		share_end_locked(sp, c);
	else if (chunk_as_new(sp, c))
		idle_put_locked(sp, c);
	else
		chunk_release(sp, c);
}
