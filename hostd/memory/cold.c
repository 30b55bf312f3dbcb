/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "ipc/page.h"
#include "memory/cold.h"
#include "memory/region.h"
#include "memory/touch.h"

/* Shorter turns are one period. */
#define PERIOD_NS (100 * NSEC_PER_MSEC)
/* Part of what is missed of all there is, from which on memory is taken to be cold later. */
#define MISSED_PART 256

struct found {
	uint64_t here, out, missed, all;
};

static void count_piece(const struct piece *p, uint32_t named, uint32_t since,
			uint32_t last, struct found *f)
{
	f->all += p->size;
	if (p->state == PIECE_MAPPED && named > last)
		f->missed += p->size;
	if (!since || named > since)
		return;
	if (p->state == PIECE_RESIDENT)
		f->here += p->size;
	else if (p->state == PIECE_MAPPED || p->state == PIECE_SWAPPED)
		f->out += p->size;
}

/* Looks at all that may move; `last` is when the last period began. */
static struct found find_locked(const struct space *sp, uint32_t since, uint32_t last)
{
	const struct backing *c;
	struct found f = {0};

	list_for_each (c, &sp->all, in_space) {
		uint32_t before = 0, latest;
		struct mapping *m;

		if (!c->charged || c->share != BACKING_OWN || c->n_mappings != 1)
			continue;
		m = list_entry(c->mappings.next, struct mapping, in_backing);
		latest = named_before_locked(sp, m);
		for (unsigned i = 0; i < c->n_pieces; i++) {
			const struct piece *p = &c->piece[i];
			CUdeviceptr addr = m->addr + p->offset;
			uint32_t named =
				touch_latest(sp->env->touch, addr, p->size, &before);

			latest = MAX(latest, named);
			named = MAX(latest, touch_reached(sp->env->touch, addr, p->size));
			count_piece(p, named, since, last, &f);
		}
		m->named = latest;
	}
	return f;
}

/* Begins a period, and forgets the oldest. */
static void begin_period(struct cold *c, uint32_t now, uint64_t now_ns)
{
	if (c->n == ARRAY_SIZE(c->begins)) {
		for (unsigned i = 1; i < c->n; i++)
			c->begins[i - 1] = c->begins[i];
		c->n--;
	}
	c->begins[c->n++] = now;
	c->began_ns = now_ns;
}

static void publish_locked(const struct space *sp, const struct found *f)
{
	struct worker_page *page = sp->env->count;

	atomic_store_explicit(&page->cold_bytes, f->here, memory_order_relaxed);
	atomic_store_explicit(&page->cold_out_bytes, f->out, memory_order_relaxed);
}

static void look(struct space *sp, uint64_t now_ns)
{
	struct worker_page *page = sp->env->count;
	struct cold *c = &sp->cold;
	uint32_t last = c->n ? c->begins[c->n - 1] : UINT32_MAX;
	uint32_t now = touch_now(sp->env->touch);
	bool some_was = c->since;
	struct found f;

	/* Nothing was launched: what was last, which may still run, is not cold for that. */
	if (now == last)
		return;
	begin_period(c, now, now_ns);
	c->periods = c->periods ? c->periods : COLD_PERIODS;
	pthread_mutex_lock(&sp->lock);
	/* The launch at which a period begins is the last of the one before. */
	c->since = c->n > c->periods ? c->begins[c->n - 1 - c->periods] : 0;
	if (c->since <
	    atomic_load_explicit(&sp->env->touch->followed, memory_order_relaxed))
		c->since = 0;
	f = find_locked(sp, c->since, last);
	publish_locked(sp, &f);
	pthread_mutex_unlock(&sp->lock);
	/* Memory that was mapped before anything was cold was no mistake. */
	if (some_was && f.missed > f.all / MISSED_PART)
		c->periods = MIN(2 * c->periods, COLD_PERIODS_MAX);
	atomic_fetch_add_explicit(&page->missed_bytes, f.missed, memory_order_relaxed);
}

void cold_moved(struct space *sp)
{
	struct found f;

	pthread_mutex_lock(&sp->lock);
	if (sp->cold.since) {
		f = find_locked(sp, sp->cold.since, UINT32_MAX);
		publish_locked(sp, &f);
	}
	pthread_mutex_unlock(&sp->lock);
}

void cold_turn_ended(struct space *sp, uint64_t now_ns)
{
	if (sp->turns && sp->env->touch->pages && now_ns >= sp->cold.began_ns + PERIOD_NS)
		look(sp, now_ns);
}

void cold_tick(struct space *sp, uint64_t now_ns)
{
	if (sp->cold.began_ns)
		cold_turn_ended(sp, now_ns);
}

bool cold_is(const struct space *sp, uint64_t age)
{
	uint32_t since = sp->cold.since;

	return since && age >= touch_now(sp->env->touch) - since;
}
