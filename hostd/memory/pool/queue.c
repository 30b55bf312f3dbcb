/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/macros.h"
#include "memory/pool/private.h"

/* Blocks that are looked at, of those that another stream has freed. */
#define LOOK_AT 64

/* The legacy stream is one of each context. */
static uint64_t key_of(const struct dev_ctx *ctx, const struct dev_stream *st)
{
	return st ? (uintptr_t)st : (uintptr_t)ctx;
}

struct pool_queue *queue_find(const struct pool *pool, const struct dev_ctx *ctx,
			      const struct dev_stream *st)
{
	struct tree_node *n = tree_at_least(&pool->streams, key_of(ctx, st));

	for (; n && n->key == key_of(ctx, st); n = tree_next(&pool->streams, n)) {
		struct pool_queue *q = container_of(n, struct pool_queue, stream);

		if (q->st == st && (st || q->ctx == ctx))
			return q;
	}
	return NULL;
}

struct pool_queue *queue_of(const struct device_ops *ops, struct pool *pool,
			    struct dev_ctx *ctx, struct dev_stream *st)
{
	struct pool_queue *q = queue_find(pool, ctx, st);

	if (q)
		return q;
	q = *pool->n_queues < QUEUES_MAX ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return NULL;
	++*pool->n_queues;
	if (ops->event.create(ctx, CU_EVENT_DISABLE_TIMING, &q->marker) != CUDA_SUCCESS)
		q->marker =
			NULL; /* a lost context, or one without room: see stream_done() */
	q->pool = pool;
	q->ctx = ctx;
	q->st = st;
	q->current = 1;
	list_init(&q->waiting);
	list_init(&q->busy);
	list_append(&pool->queues, &q->link);
	q->stream.key = key_of(ctx, st);
	tree_insert(&pool->streams, &q->stream);
	return q;
}

static void take_out(struct pool_queue *q, struct block *k)
{
	sizes_remove(&q->sizes, k);
	list_remove(&k->link);
	if (list_empty(&q->waiting))
		list_remove(&q->busy);
}

static void put_in(struct pool_queue *q, struct block *k)
{
	if (list_empty(&q->waiting))
		list_append(&q->pool->busy, &q->busy);
	sizes_add(&q->sizes, k);
	list_append(&q->waiting, &k->link);
}

void queue_add(struct pool_queue *q, struct block *k)
{
	struct block *other;

	k->state = BLOCK_WAITING;
	k->queue = q;
	k->mark = q->current;
	while ((other = block_next(k))) {
		take_out(q, other);
		block_merge(k, other);
	}
	while ((other = block_prev(k))) {
		take_out(q, other);
		block_merge(other, k);
		k = other;
	}
	put_in(q, k);
}

/* The first part of a waiting block; what is left waits where it has waited. */
static struct block *cut(struct pool_queue *q, struct block *k, uint64_t size)
{
	struct list *before = k->link.prev;
	struct block *rest;

	take_out(q, k);
	rest = block_split(k, size);
	if (rest) {
		put_in(q, rest);
		list_remove(&rest->link);
		list_insert_after(before, &rest->link);
	}
	return k;
}

struct block *queue_take(struct pool_queue *q, uint64_t size)
{
	struct block *k = sizes_find(&q->sizes, size);

	return k ? cut(q, k, size) : NULL;
}

struct block *queue_take_older(struct pool_queue *q, uint64_t size, uint64_t at)
{
	struct block *k;
	unsigned n = 0;

	list_for_each (k, &q->waiting, link) {
		if (k->freed > at || ++n > LOOK_AT)
			return NULL;
		if (k->size >= size)
			return cut(q, k, size);
	}
	return NULL;
}

static bool free_up_to(struct pool_queue *q, uint64_t mark)
{
	bool any = false;

	while (!list_empty(&q->waiting)) {
		struct block *k = list_entry(q->waiting.next, struct block, link);

		if (k->mark > mark)
			break;
		take_out(q, k);
		block_make_free(&q->pool->free, k);
		any = true;
	}
	return any;
}

void queue_finish(struct pool_queue *q)
{
	free_up_to(q, UINT64_MAX);
	q->marked = false;
}

static bool mark(const struct device_ops *ops, struct pool_queue *q)
{
	if (!q->marker || ops->event.record(q->ctx, q->marker, q->st) != CUDA_SUCCESS)
		return false;
	q->covers = q->current++;
	q->marked = true;
	return true;
}

static bool lost(const struct device_ops *ops, const struct pool_queue *q)
{
	return ops->ctx.status(q->ctx) != CUDA_SUCCESS;
}

bool queue_poll(const struct device_ops *ops, struct pool_queue *q)
{
	bool any = false;
	CUresult r;

	if (list_empty(&q->waiting))
		return false;
	if (q->marked) {
		r = ops->event.query(q->marker);
		if (r == CUDA_ERROR_NOT_READY)
			return false;
		q->marked = false;
		any = free_up_to(q, r == CUDA_SUCCESS ? q->covers : UINT64_MAX);
		if (list_empty(&q->waiting))
			return any;
	}
	r = q->gone ? CUDA_ERROR_NOT_READY : ops->stream.query(q->ctx, q->st);
	if (r == CUDA_SUCCESS || (r != CUDA_ERROR_NOT_READY && lost(ops, q)))
		return free_up_to(q, UINT64_MAX) || any;
	if (!q->gone)
		mark(ops, q);
	return any;
}

struct block *queue_borrow(const struct device_ops *ops, struct pool_queue *q,
			   uint64_t size, struct dev_ctx *ctx, struct dev_stream *st)
{
	struct block *k = sizes_find(&q->sizes, size);

	if (!k)
		return NULL;
	if (!q->marked || k->mark > q->covers) {
		if (q->gone || !mark(ops, q))
			return NULL;
	}
	if (ops->stream.wait_event(ctx, st, q->marker) != CUDA_SUCCESS)
		return NULL;
	return queue_take(q, size);
}

void queue_leave(const struct device_ops *ops, struct pool_queue *q)
{
	/* The marker moves behind everything; it outlives the stream. */
	if (!list_empty(&q->waiting) && !mark(ops, q)) {
		(void)ops->stream.synchronize(q->ctx, q->st);
		queue_finish(q);
	}
	q->gone = true;
	q->st = NULL;
	tree_remove(&q->pool->streams, &q->stream);
}

void queue_free(const struct device_ops *ops, struct pool_queue *q)
{
	if (q->marker)
		ops->event.destroy(q->marker);
	--*q->pool->n_queues;
	if (!q->gone)
		tree_remove(&q->pool->streams, &q->stream);
	list_remove(&q->busy);
	list_remove(&q->link);
	free(q);
}
