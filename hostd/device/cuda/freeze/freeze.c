/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: ioctl */
#include "base/log.h"
#include "device/cuda/freeze/freeze.h"
#include "device/cuda/rm/freezer.h"

/* ---- runs of kernels ---- */

static bool make_events(struct dev_ctx *ctx, struct cuda_run *r)
{
	scoped_lock(&ctx->dev->lock);
	if (!r->since && cu.cuEventCreate(&r->since, CU_EVENT_DISABLE_TIMING))
		r->since = NULL;
	if (!r->until && cu.cuEventCreate(&r->until, CU_EVENT_DISABLE_TIMING))
		r->until = NULL;
	return r->since && r->until;
}

static bool is_done(CUevent ev)
{
	return cu.cuEventQuery(ev) == CUDA_SUCCESS;
}

void cuda_run_begins(struct dev_ctx *ctx, struct dev_stream *st, struct cuda_run *r)
{
	/* In the run before, or it could not be said when this one begins: nothing is known of what
	 * is behind that. */
	if (!make_events(ctx, r) || (atomic_load(&r->until_set) && !is_done(r->until)) ||
	    cu.cuEventRecord(r->since, cuda_stream_of(st)))
		return;
	atomic_store(&r->since_set, true);
	atomic_store(&r->until_set, false);
	atomic_store(&r->others, false);
}

void cuda_run_ends(struct dev_ctx *ctx, struct dev_stream *st, struct cuda_run *r)
{
	if (make_events(ctx, r) && !cu.cuEventRecord(r->until, cuda_stream_of(st)))
		atomic_store(&r->until_set, true);
	atomic_store(&r->others, true);
}

/* While kernels stand still: whether a stream has nothing else to do before one has ended. */
static bool stands_locked(struct dev_stream *st, struct cuda_run *r)
{
	bool in_run = !atomic_load(&r->since_set) || is_done(r->since);

	if (!atomic_load(&r->others))
		return in_run;
	if (in_run && atomic_load(&r->until_set) && !is_done(r->until))
		return true;
	return cu.cuStreamQuery(cuda_stream_of(st)) == CUDA_SUCCESS;
}

static bool ctx_stands_locked(struct dev_ctx *ctx)
{
	struct dev_stream *st;

	if (cuda_enter(ctx) || atomic_load(&ctx->unknown) != atomic_load(&ctx->known) ||
	    !stands_locked(NULL, &ctx->run))
		return false;
	list_for_each (st, &ctx->streams, link) {
		if (!stands_locked(st, &st->run))
			return false;
	}
	return true;
}

/* A host function may let go on what seems to stand. */
static bool has_host_ops(struct device *dev)
{
	scoped_lock(&dev->host_lock);
	return !list_empty(&dev->host_ops);
}

static bool all_stand(struct device *dev)
{
	struct dev_ctx *ctx;

	scoped_lock(&dev->lock);
	list_for_each (ctx, &dev->contexts, link) {
		if (!ctx_stands_locked(ctx))
			return false;
	}
	return true;
}

void cuda_run_leave(struct dev_stream *st)
{
	const struct cuda_run *r = &st->run;

	if ((r->since || atomic_load(&r->others)) && cu.cuStreamQuery(st->cu))
		atomic_fetch_add(&st->ctx->unknown, 1);
}

void cuda_run_drop(struct cuda_run *r)
{
	if (r->since)
		cu.cuEventDestroy(r->since);
	if (r->until)
		cu.cuEventDestroy(r->until);
}

unsigned cuda_unknown(const struct dev_ctx *ctx)
{
	return atomic_load(&ctx->unknown);
}

void cuda_known_until(struct dev_ctx *ctx, unsigned unknown)
{
	atomic_store(&ctx->known, unknown);
}

/* ---- freezing ---- */

static bool are_off_locked(const struct cuda_still *s)
{
	return s->frozen || s->preempted;
}

struct device *cuda_thawed_begin(struct device *dev)
{
	struct cuda_still *s = &dev->still;

	pthread_mutex_lock(&s->lock);
	while (are_off_locked(s))
		pthread_cond_wait(&s->changed, &s->lock);
	s->n_thawed++;
	pthread_mutex_unlock(&s->lock);
	return dev;
}

void cuda_thawed_endp(struct device **dev)
{
	struct cuda_still *s = &(*dev)->still;

	pthread_mutex_lock(&s->lock);
	s->n_thawed--;
	pthread_mutex_unlock(&s->lock);
}

/* Takes kernels off for one of two reasons. */
static bool take_off(struct device *dev, bool *reason)
{
	struct cuda_still *s = &dev->still;

	/* Channels of class shared are other processes' as well. */
	if (dev->cfg.shared)
		return false;
	scoped_lock(&s->lock);
	if (s->n_thawed)
		return false;
	/* Also if they are off already: there may be new ones. */
	*reason = cuda_freezer_freeze();
	return *reason;
}

static void put_on(struct device *dev, bool *reason)
{
	struct cuda_still *s = &dev->still;

	scoped_lock(&s->lock);
	*reason = false;
	if (are_off_locked(s))
		return;
	cuda_freezer_thaw();
	pthread_cond_broadcast(&s->changed);
}

bool cuda_freeze(struct device *dev)
{
	if (has_host_ops(dev) || !take_off(dev, &dev->still.frozen))
		return false;
	/* Kernels that were about to end have ended by now, and may have let something begin. */
	if (all_stand(dev))
		return true;
	log_debug("cuda: kernels are not frozen: something else may be under way");
	put_on(dev, &dev->still.frozen);
	return false;
}

void cuda_thaw(struct device *dev)
{
	put_on(dev, &dev->still.frozen);
}

bool cuda_preempt(struct device *dev, bool on)
{
	if (on)
		return take_off(dev, &dev->still.preempted);
	put_on(dev, &dev->still.preempted);
	return false;
}
