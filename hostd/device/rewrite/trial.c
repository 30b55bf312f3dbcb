/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that are timed by events before and behind them. */
#include "device/rewrite/code.h"

/* Takes what the last one has shown. Returns false while it runs. */
static bool take(struct kernel *k)
{
	struct trial *t = &k->trial;
	float ms;

	if (!t->runs)
		return true;
	if (codes.under->event.query(t->to) == CUDA_ERROR_NOT_READY)
		return false;
	t->runs = false;
	if (codes.under->event.elapsed(t->from, t->to, &ms) == CUDA_SUCCESS)
		cost_note(&t->cost, t->form, t->blocks, (double)ms * 1e6);
	atomic_store_explicit(&k->block_ps, (uint64_t)(t->cost.ns[COST_PARTS] * 1000),
			      memory_order_relaxed);
	atomic_store_explicit(&k->verdict, cost_verdict(&t->cost), memory_order_relaxed);
	if (cost_next(&t->cost) == COST_FORMS && !atomic_load(&k->beside))
		atomic_store_explicit(&k->timed, true, memory_order_relaxed);
	return true;
}

static bool has_events(struct trial *t, struct dev_ctx *ctx)
{
	const struct device_event_ops *ops = &codes.under->event;

	if (!t->from && ops->create(ctx, 0, &t->from) != CUDA_SUCCESS)
		t->from = NULL;
	if (t->from && !t->to && ops->create(ctx, 0, &t->to) != CUDA_SUCCESS)
		t->to = NULL;
	return t->to;
}

unsigned trial_begin(struct kernel *k, struct dev_ctx *ctx, struct dev_stream *st,
		     uint64_t blocks, bool beside)
{
	struct trial *t = &k->trial;
	unsigned form = COST_FORMS;

	/* Another lane times one. */
	if (pthread_mutex_trylock(&codes.trial_lock))
		return COST_FORMS;
	if (take(k)) {
		if (!beside && atomic_load(&k->beside)) {
			t->cost = (struct cost){0};
			atomic_store(&k->verdict, COST_OPEN);
			atomic_store(&k->beside, false);
		}
		if (!beside || cost_verdict(&t->cost) == COST_OPEN)
			form = cost_next(&t->cost);
	}
	if (form != COST_FORMS && has_events(t, ctx) &&
	    codes.under->event.record(ctx, t->from, st) == CUDA_SUCCESS) {
		t->form = form;
		t->blocks = blocks;
		if (beside)
			atomic_store(&k->beside, true);
		return form; /* with the lock */
	}
	pthread_mutex_unlock(&codes.trial_lock);
	return COST_FORMS;
}

void trial_end(struct kernel *k, struct dev_ctx *ctx, struct dev_stream *st, bool ran)
{
	struct trial *t = &k->trial;

	t->runs = ran && codes.under->event.record(ctx, t->to, st) == CUDA_SUCCESS;
	pthread_mutex_unlock(&codes.trial_lock);
}

void trial_drop(struct kernel *k)
{
	pthread_mutex_lock(&codes.trial_lock);
	form_drop_locked(k);
	if (k->trial.from)
		codes.under->event.destroy(k->trial.from);
	if (k->trial.to)
		codes.under->event.destroy(k->trial.to);
	pthread_mutex_unlock(&codes.trial_lock);
}
