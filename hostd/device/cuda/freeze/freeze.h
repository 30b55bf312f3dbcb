/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that stand still (rm/freezer.h). Copies go on meanwhile, so none may be under way, nor
 * begin: each stream must have nothing else than kernels, or stand at one, which no longer ends.
 *
 * So a stream has two events around a run of its kernels: `since`, after whatever was before them,
 * and `until`, before whatever is after them. While the stream is in such a run the events stay
 * where they are; what follows the run cannot begin. Where a stream waits for another one, that
 * one stands as well.
 */
#ifndef WEFT_DEVICE_CUDA_FREEZE_H
#define WEFT_DEVICE_CUDA_FREEZE_H

#include "device/cuda/device.h"

bool cuda_freeze(struct device *dev);
void cuda_thaw(struct device *dev);
bool cuda_preempt(struct device *dev, bool on);

/* The other way than the operation before: see below. */
void cuda_run_begins(struct dev_ctx *ctx, struct dev_stream *st, struct cuda_run *r);
void cuda_run_ends(struct dev_ctx *ctx, struct dev_stream *st, struct cuda_run *r);

static inline struct cuda_run *cuda_run_of(struct dev_ctx *ctx, struct dev_stream *st)
{
	return st ? &st->run : &ctx->run;
}

/* A kernel is about to be queued. */
static inline void cuda_is_kernel(struct dev_ctx *ctx, struct dev_stream *st)
{
	struct cuda_run *r = cuda_run_of(ctx, st);

	if (unlikely(atomic_load_explicit(&r->others, memory_order_relaxed)))
		cuda_run_begins(ctx, st, r);
}

/* Something else is about to be queued: a copy, a fill, a graph, words to wait for. */
static inline void cuda_is_other(struct dev_ctx *ctx, struct dev_stream *st)
{
	struct cuda_run *r = cuda_run_of(ctx, st);

	if (!atomic_load_explicit(&r->others, memory_order_relaxed))
		cuda_run_ends(ctx, st, r);
}

/* Has been queued: another thread may have begun a run meanwhile. */
static inline void cuda_was_other(struct dev_ctx *ctx, struct dev_stream *st)
{
	atomic_store_explicit(&cuda_run_of(ctx, st)->others, true, memory_order_relaxed);
}

/* The stream is about to leave its context's list; what it has goes on, and is unknown then. */
void cuda_run_leave(struct dev_stream *st);
/* The events of a stream or a context that is in no list any more. */
void cuda_run_drop(struct cuda_run *r);
/* Around waiting for all that a context has: how many streams have ended so. */
unsigned cuda_unknown(const struct dev_ctx *ctx);
void cuda_known_until(struct dev_ctx *ctx, unsigned unknown);

#endif
