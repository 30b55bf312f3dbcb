/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: a stream as a pool sees it, and what was freed in it.
 *
 * Memory freed in a stream may be used again by the same stream at once, by anybody else
 * only when the stream has got there. Nothing is asked of the device until somebody else
 * wants the memory: then a marker (an event) is put behind all that was freed so far, and
 * from then on queue_poll() sees it pass. A marker that comes late covers work that was
 * submitted after the free as well, which is safe and costs nothing but time.
 *
 * All functions expect pools.lock; none waits for the device.
 */
#ifndef WEFT_MEM_POOL_QUEUE_H
#define WEFT_MEM_POOL_QUEUE_H

#include "device/device.h"
#include "memory/block.h"

struct pool_queue {
	struct list link, busy; /* of the pool */
	struct tree_node stream;
	struct pool *pool;
	struct dev_ctx *ctx;
	struct dev_stream *st; /* NULL: the context's legacy stream */
	bool gone;             /* the stream has been destroyed */
	struct list waiting;   /* blocks, in the order of their freeing */
	struct tree sizes;     /* the same blocks */
	struct dev_event *marker;
	bool marked;      /* the marker is on its way */
	uint64_t covers;  /* it covers blocks up to this mark */
	uint64_t current; /* mark of what is freed now */
};

/* The queue of a stream; NULL: there is none yet. */
struct pool_queue *queue_find(const struct pool *pool, const struct dev_ctx *ctx,
			      const struct dev_stream *st);

/* As queue_find(), but makes one if need be. NULL: out of memory. */
struct pool_queue *queue_of(const struct device_ops *ops, struct pool *pool,
			    struct dev_ctx *ctx, struct dev_stream *st);

/* A used block was freed in the queue's stream. */
void queue_add(struct pool_queue *q, struct block *k);

/* A block for use in the queue's own stream; it is in no list and no tree. */
struct block *queue_take(struct pool_queue *q, uint64_t size);

/*
 * Makes free what the stream is done with; may put a marker into the stream. True if
 * something became free. A lost context's streams are done with everything.
 */
bool queue_poll(const struct device_ops *ops, struct pool_queue *q);

/* A block that was freed at clock `at` or before; in no list and no tree. */
struct block *queue_take_older(struct pool_queue *q, uint64_t size, uint64_t at);

/* Makes everything free: nothing runs any more. */
void queue_finish(struct pool_queue *q);

/*
 * A block of another stream's, for st after that has waited for the queue's. In no list
 * and no tree. NULL: there is none, or the streams cannot be ordered.
 */
struct block *queue_borrow(const struct device_ops *ops, struct pool_queue *q,
			   uint64_t size, struct dev_ctx *ctx, struct dev_stream *st);

/* The stream is about to be destroyed: its work still runs. */
void queue_leave(const struct device_ops *ops, struct pool_queue *q);

/* Nothing waits in it. */
void queue_free(const struct device_ops *ops, struct pool_queue *q);

#endif
