/* SPDX-License-Identifier: Apache-2.0 */
/* Pools and what is allocated from them; pool.h has the theory of operation. */
#include <errno.h>
#include <stdlib.h>

#include "memory/pool/private.h"

/* ---- pools ---- */

static struct pool *pool_make(struct pools *p, uint64_t handle, uint64_t max_bytes,
			      uint64_t step)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->refs = 1;
	pool->n_queues = &p->n_queues;
	pool->handle = handle;
	pool->step = step;
	pool->max_bytes = UINT64_MAX;
	if (max_bytes && max_bytes < UINT64_MAX - POOL_STEP)
		pool->max_bytes = ALIGN_UP(max_bytes, POOL_STEP); /* as the real driver */
	for (unsigned i = 0; i < ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = true; /* CUDA's defaults */
	list_init(&pool->arenas);
	list_init(&pool->queues);
	list_init(&pool->busy);
	return pool;
}

struct pool *pool_new(struct pools *p, uint64_t handle, uint64_t max_bytes)
{
	struct pool *pool = pool_make(p, handle, max_bytes, POOL_STEP);

	if (!pool)
		return NULL;
	pthread_mutex_lock(&p->lock);
	if (p->n_pools < POOLS_MAX) {
		list_append(&p->all, &pool->link);
		p->n_pools++;
	} else {
		free(steal(pool));
	}
	pthread_mutex_unlock(&p->lock);
	return pool;
}

int pools_new(const struct mem_env *env, struct space *space, struct pools **ret_p)
{
	struct pools *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->standard = pool_make(p, 0, 0, POOL_STEP);
	p->graphs = pool_make(p, 0, 0, SPACE_SLAB);
	if (!p->standard || !p->graphs) {
		free(p->standard);
		free(p->graphs);
		free(p);
		return -ENOMEM;
	}
	p->env = env;
	p->space = space;
	pthread_mutex_init(&p->lock, NULL);
	list_init(&p->all);
	list_init(&p->waits);
	list_append(&p->all, &p->standard->link);
	list_append(&p->all, &p->graphs->link);
	p->n_pools = 2;
	*ret_p = p;
	return 0;
}

struct pool *pools_default(struct pools *p)
{
	return p->standard;
}

struct pool *pools_graphs(struct pools *p)
{
	return p->graphs;
}

static void arena_drop(struct pools *p, struct arena *a)
{
	list_remove(&a->link);
	a->pool->reserved -= a->size;
	space_arena_free(p->space, a->addr);
	arena_fini(a);
	free(a);
}

static void pool_free(struct pools *p, struct pool *pool)
{
	struct pool_queue *q, *tmp_q;
	struct arena *a, *tmp;

	list_for_each_safe (q, tmp_q, &pool->queues, link)
		queue_free(p->env->ops, q);
	list_for_each_safe (a, tmp, &pool->arenas, link)
		arena_drop(p, a);
	list_remove(&pool->link);
	p->n_pools--;
	free(pool);
}

void pools_free_all(struct pools *p)
{
	struct pool *pool, *tmp;

	if (!p)
		return;
	p->used = (struct tree){0};
	list_for_each_safe (pool, tmp, &p->all, link)
		pool_free(p, pool);
	pool_forget_waits(p, NULL);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- giving back ---- */

static bool poll_all(struct pools *p, struct pool *pool)
{
	struct pool_queue *q, *tmp;
	bool any = false;

	list_for_each_safe (q, tmp, &pool->busy, busy) {
		any |= queue_poll(p->env->ops, q);
		if (q->gone && list_empty(&q->waiting))
			queue_free(p->env->ops, q);
	}
	return any;
}

/* Gives back arenas nobody uses as long as `keep` bytes remain. */
static bool release(struct pools *p, struct pool *pool, uint64_t keep)
{
	struct arena *a, *tmp;
	bool any = false;

	if (pool->reserved <= keep)
		return false;
	list_for_each_safe (a, tmp, &pool->arenas, link) {
		if (!arena_is_free(a) || pool->reserved - a->size < keep)
			continue;
		sizes_remove(&pool->free,
			     list_entry(a->blocks.next, struct block, in_arena));
		arena_drop(p, a);
		any = true;
	}
	return any;
}

static uint64_t to_keep(const struct pool *pool)
{
	return pool->destroyed ? 0 : pool->threshold;
}

void pools_synced(struct pools *p)
{
	struct pool *pool, *tmp;
	bool excess = false;

	if (likely(!atomic_load_explicit(&p->excess, memory_order_relaxed)))
		return;
	pthread_mutex_lock(&p->lock);
	list_for_each_safe (pool, tmp, &p->all, link) {
		if (pool->reserved > to_keep(pool)) {
			poll_all(p, pool);
			release(p, pool, to_keep(pool));
		}
		excess |= pool->reserved > to_keep(pool);
		if (pool->destroyed && !pool->refs && list_empty(&pool->arenas))
			pool_free(p, pool);
	}
	atomic_store_explicit(&p->excess, excess, memory_order_relaxed);
	pthread_mutex_unlock(&p->lock);
}

static bool reclaim_locked(struct pools *p)
{
	struct pool *pool;
	bool any = false;

	list_for_each (pool, &p->all, link) {
		poll_all(p, pool);
		any |= release(p, pool, 0);
	}
	return any;
}

bool pools_reclaim(struct pools *p)
{
	bool any;

	pthread_mutex_lock(&p->lock);
	any = reclaim_locked(p);
	pthread_mutex_unlock(&p->lock);
	return any;
}

void pool_trim(struct pools *p, struct pool *pool, uint64_t keep)
{
	pthread_mutex_lock(&p->lock);
	poll_all(p, pool);
	release(p, pool, keep);
	pthread_mutex_unlock(&p->lock);
}

void pool_note_excess(struct pools *p, const struct pool *pool)
{
	if (pool->reserved > to_keep(pool))
		atomic_store_explicit(&p->excess, true, memory_order_relaxed);
}

void pool_destroy(struct pools *p, struct pool *pool)
{
	pthread_mutex_lock(&p->lock);
	pool->destroyed = true;
	pool->handle = 0;
	pool->refs--;
	atomic_store_explicit(&p->excess, true, memory_order_relaxed);
	pthread_mutex_unlock(&p->lock);
	pools_synced(p);
}

/* ---- looking up ---- */

/* The used block that begins last, up to addr. */
static struct block *used_locked(struct pools *p, CUdeviceptr addr)
{
	struct tree_node *n = tree_at_most(&p->used, addr);

	return n ? container_of(n, struct block, node) : NULL;
}

/* The used block that begins at addr. */
static struct block *find_locked(struct pools *p, CUdeviceptr addr)
{
	struct block *k = used_locked(p, addr);

	return k && k->addr == addr ? k : NULL;
}

bool pools_have(struct pools *p, CUdeviceptr addr)
{
	bool found;

	pthread_mutex_lock(&p->lock);
	found = find_locked(p, addr);
	pthread_mutex_unlock(&p->lock);
	return found;
}

CUresult pools_find(struct pools *p, CUdeviceptr addr, struct space_range *ret_range,
		    uint64_t *ret_pool)
{
	const struct block *k;
	struct space_range range;
	CUresult r;

	pthread_mutex_lock(&p->lock);
	r = space_find(p->space, addr, &range);
	if (r == CUDA_SUCCESS && range.kind == SPACE_ARENA) {
		k = used_locked(p, addr);
		if (k && addr - k->addr < k->bytes) {
			range.kind = SPACE_ALLOCATION;
			range.base = k->addr;
			range.size = k->bytes;
			range.id = k->id | 1ull << 62; /* not the space's */
			*ret_pool = k->arena->pool->handle ? k->arena->pool->handle
							   : POOL_DEFAULT_MEMORY;
		} else {
			r = CUDA_ERROR_INVALID_VALUE;
		}
	} else {
		*ret_pool = 0;
	}
	pthread_mutex_unlock(&p->lock);
	if (r == CUDA_SUCCESS)
		*ret_range = range;
	return r;
}

/* ---- allocation ---- */

/* Gives a block of at least size bytes, in no list and no tree, to the program. */
static void use(struct pools *p, struct pool *pool, struct block *k, uint64_t bytes,
		CUdeviceptr *ret_addr)
{
	k->state = BLOCK_USED;
	k->queue = NULL;
	k->bytes = bytes;
	k->id = ++p->next_id;
	k->node.key = k->addr;
	tree_insert(&p->used, &k->node);
	pool->used += bytes;
	pool->used_high = MAX(pool->used_high, pool->used);
	pool->refs++;
	*ret_addr = k->addr;
}

/* An arena of the session's memory; without the lock. NULL: there is none to be had. */
static struct arena *arena_new(struct pools *p, uint64_t size)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	list_init(&a->blocks); /* none: pools_find() may come upon it */
	if (space_arena_new(p->space, size, a, &a->addr) != CUDA_SUCCESS)
		free(steal(a));
	return a;
}

/* Lets go of the lock while it asks for memory: others may free, and the pool's blocks
 * and queues change. The caller's command keeps the pool. */
static struct block *grow_by(struct pools *p, struct pool *pool, uint64_t arena_size,
			     uint64_t size)
{
	uint64_t have = pool->reserved + pool->growing;
	struct arena *a;
	struct block *k;

	if (arena_size > pool->max_bytes || have > pool->max_bytes - arena_size)
		return NULL;
	pool->growing += arena_size;
	pthread_mutex_unlock(&p->lock);
	a = arena_new(p, arena_size);
	pthread_mutex_lock(&p->lock);
	pool->growing -= arena_size;
	if (!a)
		return NULL;
	k = arena_init(a, a->addr, arena_size, &p->n_blocks);
	if (!k) {
		space_arena_free(p->space, a->addr);
		free(a);
		return NULL;
	}
	a->pool = pool;
	list_insert_after(&pool->arenas, &a->link);
	sizes_add(&pool->free, k);
	pool->reserved += arena_size;
	pool->reserved_high = MAX(pool->reserved_high, pool->reserved);
	return block_take_free(&pool->free, size);
}

/* New memory: a step or, where that does not fit any more, what is needed now. */
static struct block *grow(struct pools *p, struct pool *pool, uint64_t size)
{
	uint64_t whole = ALIGN_UP(size, pool->step), need = ALIGN_UP(size, SPACE_SLAB);
	struct block *k = grow_by(p, pool, whole, size);

	return !k && need < whole ? grow_by(p, pool, need, size) : k;
}

static struct block *borrow(struct pools *p, struct pool *pool, struct pool_queue *own,
			    uint64_t size)
{
	struct pool_queue *q;
	struct block *k = NULL;

	list_for_each (q, &pool->busy, busy) {
		if (q != own)
			k = queue_borrow(p->env->ops, q, size, own->ctx, own->st);
		if (k)
			break;
	}
	return k;
}

/* Takes a block that another stream freed before an event that the own one waits for. */
static struct block *follow(struct pools *p, struct pool *pool, struct pool_queue *own,
			    uint64_t size)
{
	const struct pool_wait *w;
	struct block *k = NULL;

	if (!own || !own->st)
		return NULL;
	list_for_each (w, &p->waits, link) {
		struct pool_queue *q =
			w->who == own->st ? queue_find(pool, own->ctx, w->whom) : NULL;

		if (q)
			k = queue_take_older(q, size, w->at);
		if (k)
			break;
	}
	return k;
}

/* Takes a block without waiting: a free one, another stream's, or new memory. */
static struct block *find_room(struct pools *p, struct pool *pool, struct pool_queue *own,
			       uint64_t size)
{
	struct block *k = own ? queue_take(own, size) : NULL;

	if (!k)
		k = block_take_free(&pool->free, size);
	if (!k && pool->reuse[0])
		k = follow(p, pool, own, size);
	/* Blocks that others are done with; own ones may grow together by that. */
	if (!k && pool->reuse[1] && poll_all(p, pool))
		k = block_take_free(&pool->free, size);
	if (!k)
		k = grow(p, pool, size);
	if (!k && own && pool->reuse[2])
		k = borrow(p, pool, own, size);
	if (!k && reclaim_locked(p))
		k = grow(p, pool, size);
	return k;
}

/* True if waiting for the context's streams will make something free. */
static bool worth_waiting(struct pools *p, const struct dev_ctx *ctx)
{
	struct pool_queue *q;
	struct pool *pool;
	bool any = false;

	pthread_mutex_lock(&p->lock);
	list_for_each (pool, &p->all, link) {
		list_for_each (q, &pool->busy, busy)
			any |= q->ctx == ctx;
	}
	pthread_mutex_unlock(&p->lock);
	return any;
}

/* Charges worker memory for the blocks of one more allocation, which may be two, as what
 * is left of an arena is one as well. Takes the lock; not, if this fails. */
static bool pay_and_lock(struct pools *p)
{
	uint64_t n;

	pthread_mutex_lock(&p->lock);
	while (unlikely((n = p->n_blocks + 2) >= atomic_load(&p->many.paid))) {
		pthread_mutex_unlock(&p->lock);
		if (wmem_many(p->env->accounts, &p->many, n, sizeof(struct block)) < 0)
			return false;
		pthread_mutex_lock(&p->lock);
	}
	return true;
}

static CUresult try_alloc(struct pools *p, struct pool *pool, struct dev_ctx *ctx,
			  struct dev_stream *st, uint64_t bytes, CUdeviceptr *ret_addr)
{
	uint64_t size = ALIGN_UP(bytes, (uint64_t)BLOCK_UNIT);
	struct pool_queue *own;
	struct block *k = NULL;

	if (!pay_and_lock(p))
		return CUDA_ERROR_OUT_OF_MEMORY;
	own = ctx ? queue_of(p->env->ops, pool, ctx, st) : NULL;
	if (p->n_blocks < BLOCKS_MAX)
		k = find_room(p, pool, own, size);
	if (k)
		use(p, pool, k, bytes, ret_addr);
	pthread_mutex_unlock(&p->lock);
	return k ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pool_alloc(struct pools *p, struct pool *pool, struct dev_ctx *ctx,
		    struct dev_stream *st, uint64_t bytes, CUdeviceptr *ret_addr)
{
	CUresult r;

	if (bytes > DEVICE_BAND_SIZE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = try_alloc(p, pool, ctx, st, bytes, ret_addr);
	if (r != CUDA_ERROR_OUT_OF_MEMORY || !ctx || !worth_waiting(p, ctx))
		return r;
	(void)p->env->ops->ctx.synchronize(ctx);
	return try_alloc(p, pool, ctx, st, bytes, ret_addr);
}

/* Takes a used block away from the program. */
static struct block *unuse(struct pools *p, CUdeviceptr addr)
{
	struct block *k = find_locked(p, addr);

	if (!k)
		return NULL;
	tree_remove(&p->used, &k->node);
	k->arena->pool->used -= k->bytes;
	k->arena->pool->refs--;
	return k;
}

CUresult pools_free_async(struct pools *p, struct dev_ctx *ctx, struct dev_stream *st,
			  CUdeviceptr addr)
{
	struct pool_queue *q;
	struct block *k;

	pthread_mutex_lock(&p->lock);
	k = unuse(p, addr);
	if (k) {
		struct pool *pool = k->arena->pool;

		q = queue_of(p->env->ops, pool, ctx, st);
		/* release: pairs with pools_moment(). */
		k->freed =
			atomic_fetch_add_explicit(&p->clock, 1, memory_order_release) + 1;
		if (q) {
			queue_add(q, k);
		} else { /* too many streams, or no memory for one more */
			(void)p->env->ops->stream.synchronize(ctx, st);
			block_make_free(&pool->free, k);
		}
		pool_note_excess(p, pool);
	}
	pthread_mutex_unlock(&p->lock);
	return k ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool pools_free(struct pools *p, CUdeviceptr addr)
{
	struct block *k;

	pthread_mutex_lock(&p->lock);
	k = unuse(p, addr);
	if (k) {
		pool_note_excess(p, k->arena->pool);
		block_make_free(&k->arena->pool->free, k);
	}
	pthread_mutex_unlock(&p->lock);
	if (k)
		pools_synced(p);
	return k;
}

/* ---- streams and contexts that end ---- */

void pools_stream_gone(struct pools *p, struct dev_ctx *ctx, struct dev_stream *st)
{
	struct pool_queue *q;
	struct pool *pool;

	pthread_mutex_lock(&p->lock);
	pool_forget_waits(p, st);
	list_for_each (pool, &p->all, link) {
		q = queue_find(pool, ctx, st);
		if (!q)
			continue;
		queue_leave(p->env->ops, q);
		if (list_empty(&q->waiting))
			queue_free(p->env->ops, q);
	}
	pthread_mutex_unlock(&p->lock);
}

void pools_ctx_gone(struct pools *p, struct dev_ctx *ctx)
{
	struct pool_queue *q, *tmp;
	struct pool *pool;

	pthread_mutex_lock(&p->lock);
	list_for_each (pool, &p->all, link) {
		list_for_each_safe (q, tmp, &pool->queues, link) {
			if (q->ctx != ctx)
				continue;
			queue_finish(q);
			queue_free(p->env->ops, q);
		}
	}
	pthread_mutex_unlock(&p->lock);
	pools_synced(p);
}
