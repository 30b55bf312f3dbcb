/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/plugin.h"
#include "broker/compute/slices.h"
#include "broker/compute/turns.h"
#include "broker/tenant.h"
#include "policies/placement.h"
#include "policies/time.h"

/* From one look to the next. */
#define IDLE_MOST_NS (2 * NSEC_PER_MSEC)
/* Looks at whether one leaves the device idle in its turn. */
#define SEEN 64u

static uint32_t us_since(uint64_t ns, uint64_t now_ns)
{
	return (uint32_t)MIN((now_ns - MIN(ns, now_ns)) / NSEC_PER_USEC,
			     (uint64_t)UINT32_MAX);
}

static void see_cap(const struct tenant *t, uint64_t now_ns, struct time_tenant *ret)
{
	const struct cap_state *c = &t->pace.cap;
	uint64_t end = c->period_ns + t->compute.max.period_us * NSEC_PER_USEC;

	ret->quota_us = t->compute.max.quota_us;
	ret->ends_us = us_since(now_ns, end);
	if (!c->period_ns || now_ns >= end)
		ret->left_us = ret->quota_us;
	else if (c->left_ns > 0)
		ret->left_us = (uint32_t)((uint64_t)c->left_ns / NSEC_PER_USEC);
}

/* Per mille of the last SEEN looks, more or less. */
static uint32_t see_pending(struct pace_tenant *p)
{
	bool pending = p->n_pending || p->n_shared || p->n_copying;

	if (!p->stopped && p->sessions && !p->out) {
		if (p->n_seen < SEEN)
			p->n_seen++;
		else
			p->pending -= p->pending / SEEN;
		p->pending += pending ? 1000 : 0;
	}
	return p->n_seen < SEEN ? TIME_UNSEEN : p->pending / SEEN;
}

/* Less is out than there has been, or it has just left. What goes to and fro with what another one
 * allocates is no progress, and all of it is out again when a fourth has left. */
static void see_coming(struct pace_tenant *p, uint64_t now_ns)
{
	uint64_t fourth = (p->set - MIN(p->set, p->fixed)) / 4;
	bool left = !p->out_least && p->out > fourth;

	p->out_least = MAX(p->out_least, p->out - MIN(p->out, fourth));
	if (left || p->out < p->out_least)
		p->less_ns = now_ns;
	p->out_least = MIN(p->out_least, p->out);
}

static struct time_tenant see(struct tenant *t, uint64_t now_ns)
{
	struct pace_tenant *p = &t->pace;
	struct time_tenant v = {
		.weight = t->compute.weight,
		.priority = t->compute.priority,
		.latency_us = t->compute.latency,
		.sessions = p->sessions,
		.pending = see_pending(p),
		.busy = TIME_UNSEEN,
		.set = p->set,
		.all = p->all,
		.fixed = p->fixed,
		.asks = t->held,
		/* One that allocates goes: nothing comes in before it has that. */
		.out = t->held ? 0 : p->out,
		.works = p->works,
		.goes = !p->stopped,
		.for_us = us_since(p->since_ns, now_ns)};

	/* As far as it was looked: a look may be late. */
	p->idle_ns = p->works ? 0 : p->idle_ns + MIN(now_ns - p->seen_ns, IDLE_MOST_NS);
	p->seen_ns = now_ns;
	v.idle_us = (uint32_t)MIN(p->idle_ns / NSEC_PER_USEC, (uint64_t)UINT32_MAX);
	/* Memory that it allocates in its turn may be out for a moment. */
	if (p->out && p->stopped)
		p->in_ns = 0;
	else if (!p->out && !p->in_ns)
		p->in_ns = now_ns;
	v.in_us = p->in_ns ? us_since(p->in_ns, now_ns) : 0;
	see_coming(p, now_ns);
	v.still_us = us_since(p->less_ns, now_ns);
	v.first_us = p->stopped && !p->place ? us_since(p->first_ns, now_ns) : 0;
	see_cap(t, now_ns, &v);
	return v;
}

/* A session that did not get quiet in its turn is asked again: after that it will. One that waits
 * at its gate says so itself. */
static void ask_again(const struct tenant *t, uint64_t now_ns)
{
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link) {
		if (!w->move.at_gate)
			w->move.busy_ns = MIN(w->move.busy_ns, now_ns);
	}
}

static void let_go(struct tenant *t, bool go, uint64_t now_ns)
{
	if (t->pace.stopped == !go)
		return;
	if (!go && t->b->time->by_memory)
		ask_again(t, now_ns);
	t->pace.stopped = !go;
	t->pace.since_ns = now_ns;
	t->pace.n_turns += go;
	if (t->b->time->by_memory)
		slices_due(t->b);
}

uint64_t turns_drain_ns(const struct broker *b)
{
	return (b->time->by_memory ? TIME_DRAIN_MEMORY_US : TIME_DRAIN_US) *
	       NSEC_PER_USEC;
}

/* Whether something runs of those who are not to go, and is still waited for. */
static bool drains(const struct broker *b, uint64_t now_ns)
{
	const struct tenant *t;

	if (now_ns >= b->pace.drain_ns)
		return false;
	list_for_each (t, &b->tenants, link) {
		if (t->pace.stopped &&
		    (t->pace.n_pending || t->pace.n_copying || t->pace.n_shared))
			return true;
	}
	return false;
}

static void go_on(struct broker *b, uint64_t now_ns)
{
	struct tenant *t;

	b->pace.drain_ns = 0;
	list_for_each (t, &b->tenants, link) {
		if (t->pace.is_next)
			let_go(t, true, now_ns);
	}
}

/* ---- the line ---- */

/* The first that is to begin after `from`. */
static uint32_t begins_after(const struct broker *b, uint32_t n, uint32_t from)
{
	const struct time_turn *turn = b->asked.turns;
	uint32_t first = TIME_NEVER;

	for (uint32_t i = 0; i < n; i++) {
		if (turn[i].begins_us > from && turn[i].begins_us < first)
			first = turn[i].begins_us;
	}
	return first;
}

static void set_place(struct tenant *t, uint32_t place, uint64_t now_ns)
{
	if (t->pace.place == place)
		return;
	t->pace.place = place;
	if (!place)
		t->pace.first_ns = now_ns;
	t->b->reclaim_due = true; /* memory of others is to move now */
}

/* Has placement know who is next: memory moves in that order. */
static void line_up(struct broker *b, uint32_t n, uint64_t now_ns)
{
	uint32_t begins = 0, i;
	struct tenant *t;

	for (uint32_t place = 0; place < PLACEMENT_TURNS; place++) {
		i = 0;
		list_for_each (t, &b->tenants, link) {
			uint32_t its = b->asked.turns[i++].begins_us;

			if (its == begins ||
			    (its > begins && place == PLACEMENT_TURNS - 1))
				set_place(t,
					  its == TIME_NEVER ? PLACEMENT_TURNS - 1 : place,
					  now_ns);
		}
		if (begins == TIME_NEVER)
			return;
		begins = begins_after(b, n, begins);
	}
}

/* ---- deciding ---- */

static void decide(struct broker *b, uint32_t n, uint64_t now_ns)
{
	struct pace *p = &b->pace;
	struct tenant *t;
	uint32_t i = 0;

	plugin_turns(b, n);
	p->turns = false;
	list_for_each (t, &b->tenants, link) {
		t->pace.is_next = b->asked.turns[i++].go;
		p->turns |= !t->pace.is_next;
		if (t->pace.is_next || t->pace.stopped)
			continue;
		let_go(t, false, now_ns);
		p->drain_ns = now_ns + turns_drain_ns(b);
	}
	line_up(b, n, now_ns);
	if (!drains(b, now_ns))
		go_on(b, now_ns);
}

void turns_take(struct broker *b, uint64_t now_ns)
{
	struct pace *p = &b->pace;
	struct tenant *t;
	uint32_t n, i = 0;

	if (!b->time->turns) {
		turns_end(b, now_ns);
		return;
	}
	if (!plugin_room(b, &n))
		return;
	list_for_each (t, &b->tenants, link)
		b->asked.tenants[i++] = see(t, now_ns);
	/* Not before what was decided has come about: nobody goes until then. */
	if (p->drain_ns && drains(b, now_ns))
		return;
	if (p->drain_ns)
		go_on(b, now_ns);
	else
		decide(b, n, now_ns);
}

void turns_end(struct broker *b, uint64_t now_ns)
{
	struct tenant *t;

	b->pace.turns = false;
	list_for_each (t, &b->tenants, link) {
		let_go(t, true, now_ns);
		set_place(t, 0, now_ns);
	}
}

bool turns_are_on(const struct broker *b)
{
	return b->time->turns && (b->pace.turns || !b->time->by_memory);
}
