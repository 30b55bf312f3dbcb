/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/pace.h"
#include "broker/loop/outbox.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "util/conf.h"

#define LOOK_NS NSEC_PER_MSEC
/* More than that between two looks is not charged: weftd did not see it. */
#define LOOK_LATE_NS (20 * NSEC_PER_MSEC)
/* A session that does not read what it is told hears of it later. */
#define AGAIN_NS (10 * NSEC_PER_MSEC)

/* First version of the messages that has PACE. */
#define VERSION_PACE 3u

/* Slice of a session that has not been told one. */
#define DRIVER_SLICE_US 2048u

void pace_due(struct broker *b)
{
	b->pace.due = true;
}

void pace_changed(struct tenant *t)
{
	t->pace.cap = (struct cap_state){0};
	pace_due(t->b);
}

static bool has_cap(const struct tenant *t)
{
	return t->compute.max.quota_us != 0;
}

/* ---- charging ---- */

static uint64_t slice_us(const struct worker *w)
{
	return w->slice_us ? w->slice_us : DRIVER_SLICE_US;
}

/* The slices of those of a tenant's sessions that have work. */
static uint64_t pending_us(const struct tenant *t)
{
	const struct worker *w;
	uint64_t us = 0;

	list_for_each (w, &t->workers, tenant_link) {
		if (atomic_load(&w->count->computing) && atomic_load(&w->count->pending))
			us += slice_us(w);
	}
	return us;
}

static void charge(struct tenant *t, uint64_t used_ns, uint64_t now_ns)
{
	struct pace_tenant *p = &t->pace;
	uint64_t until = cap_charge(&p->cap, &t->compute.max, now_ns, used_ns);

	if (until && !p->held_until_ns)
		p->n_held++;
	p->held_until_ns = until;
}

static void charge_all(struct broker *b, uint64_t ns, uint64_t now_ns)
{
	uint64_t all = 0, own;
	struct tenant *t;

	list_for_each (t, &b->tenants, link)
		all += pending_us(t);
	list_for_each (t, &b->tenants, link) {
		own = pending_us(t);
		if (t->pace.held_until_ns)
			t->pace.held_ns += ns;
		if (has_cap(t))
			charge(t, all ? ns * MIN(own, all) / all : 0, now_ns);
		else
			t->pace.held_until_ns = 0;
	}
}

/* ---- telling ---- */

static struct msg message(const struct worker *w, bool looks)
{
	const struct tenant *t = w->tenant;

	return (struct msg){
		.type = MSG_PACE,
		.pace = {.held_until_ns = t->pace.held_until_ns,
			 .look_us = looks ? LOOK_NS / NSEC_PER_USEC : 0,
			 .bound = has_cap(t)},
	};
}

/* Returns false if it has to hear of it later. */
static bool tell(struct worker *w, bool looks)
{
	const struct msg m = message(w, looks);

	if (w->version < VERSION_PACE ||
	    (!w->pace_unsure && !memcmp(&w->pace, &m.pace, sizeof(w->pace))))
		return true;
	if (w->resume_id || !outbox_is_read(&w->out) ||
	    outbox_tell(&w->out, &m, -1, -1) < 0)
		return false;
	w->pace = m.pace;
	w->pace_unsure = false;
	return true;
}

static bool tell_all(struct broker *b, bool looks)
{
	const struct tenant *t;
	bool told = true;
	struct worker *w;

	list_for_each (t, &b->tenants, link) {
		list_for_each (w, &t->workers, tenant_link)
			told &= tell(w, looks);
	}
	return told;
}

/* ---- the timer ---- */

/* Whether it has to be looked: somebody with a cap computes. */
static bool computes(const struct broker *b)
{
	const struct tenant *t;
	const struct worker *w;

	list_for_each (t, &b->tenants, link) {
		if (!has_cap(t))
			continue;
		list_for_each (w, &t->workers, tenant_link) {
			if (atomic_load(&w->count->computing))
				return true;
		}
	}
	return false;
}

uint64_t pace_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct pace *p = &b->pace;
	bool looks;

	if (!p->due && now_ns < p->at_ns)
		return p->at_ns;
	p->due = false;
	looks = computes(b);
	if (p->looked_ns)
		charge_all(b, MIN(now_ns - p->looked_ns, LOOK_LATE_NS), now_ns);
	p->looked_ns = looks ? now_ns : 0;
	p->at_ns = !tell_all(b, looks) ? now_ns + AGAIN_NS : UINT64_MAX;
	if (looks)
		p->at_ns = now_ns + LOOK_NS;
	return p->at_ns;
}
