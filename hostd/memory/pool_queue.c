/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/macros.h"
#include "memory/pool_private.h"

/* Of the blocks that another stream has freed so many are looked at. */
#define LOOK_AT 64

struct pool_queue *queue_of(const struct device_ops *ops, struct pool *pool,
			    struct dev_ctx *ctx, struct dev_stream *st)
{
	struct pool_queue *q;

	list_for_each (q, &pool->queues, link) {
		if (q->ctx == ctx && q->st == st && !q->gone)
			return q;
	}
	q = *pool->n_queues < QUEUES_MAX ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return NULL;
	++*pool->n_queues;
	if (ops->event_create(ctx, CU_EVENT_DISABLE_TIMING, &q->marker) != CUDA_SUCCESS)
		q->marker =
			NULL; /* a lost context, or one without room: see stream_done() */
	q->pool = pool;
	q->ctx = ctx;
	q->st = st;
	q->current = 1;
	bins_init(&q->bins);
	list_init(&q->waiting);
	list_append(&pool->queues, &q->link);
	return q;
}

static void take_out(struct pool_queue *q, struct block *k)
{
	bins_remove(&q->bins, k);
	list_remove(&k->link);
}

static void put_in(struct pool_queue *q, struct block *k)
{
	bins_add(&q->bins, k);
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
	struct block *rest;

	bins_remove(&q->bins, k);
	rest = block_split(k, size);
	if (rest) {
		list_insert_after(&k->link, &rest->link);
		bins_add(&q->bins, rest);
	}
	list_remove(&k->link);
	return k;
}

struct block *queue_take(struct pool_queue *q, uint64_t size)
{
	struct block *k = bins_find(&q->bins, size);

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
		pool_block_free(q->pool, k);
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
	if (!q->marker || ops->event_record(q->ctx, q->marker, q->st) != CUDA_SUCCESS)
		return false;
	q->covers = q->current++;
	q->marked = true;
	return true;
}

static bool lost(const struct device_ops *ops, const struct pool_queue *q)
{
	return ops->ctx_status(q->ctx) != CUDA_SUCCESS;
}

bool queue_poll(const struct device_ops *ops, struct pool_queue *q)
{
	bool any = false;
	CUresult r;

	if (list_empty(&q->waiting))
		return false;
	if (q->marked) {
		r = ops->event_query(q->marker);
		if (r == CUDA_ERROR_NOT_READY)
			return false;
		q->marked = false;
		any = free_up_to(q, r == CUDA_SUCCESS ? q->covers : UINT64_MAX);
		if (list_empty(&q->waiting))
			return any;
	}
	r = q->gone ? CUDA_ERROR_NOT_READY : ops->stream_query(q->ctx, q->st);
	if (r == CUDA_SUCCESS || (r != CUDA_ERROR_NOT_READY && lost(ops, q)))
		return free_up_to(q, UINT64_MAX) || any;
	if (!q->gone)
		mark(ops, q);
	return any;
}

struct block *queue_borrow(const struct device_ops *ops, struct pool_queue *q,
			   uint64_t size, struct dev_ctx *ctx, struct dev_stream *st)
{
	struct block *k = bins_find(&q->bins, size);

	if (!k)
		return NULL;
	if (!q->marked || k->mark > q->covers) {
		if (q->gone || !mark(ops, q))
			return NULL;
	}
	if (ops->stream_wait_event(ctx, st, q->marker) != CUDA_SUCCESS)
		return NULL;
	return queue_take(q, size);
}

void queue_leave(const struct device_ops *ops, struct pool_queue *q)
{
	/* The marker moves behind everything; it outlives the stream. */
	if (!list_empty(&q->waiting) && !mark(ops, q)) {
		(void)ops->stream_synchronize(q->ctx, q->st);
		queue_finish(q);
	}
	q->gone = true;
	q->st = NULL;
}

void queue_free(const struct device_ops *ops, struct pool_queue *q)
{
	if (q->marker)
		ops->event_destroy(q->marker);
	--*q->pool->n_queues;
	list_remove(&q->link);
	free(q);
}
