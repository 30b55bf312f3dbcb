/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/blocks.h"
#include "broker/compute/filler.h"
#include "broker/compute/pace.h"
#include "broker/compute/slices.h"
#include "broker/compute/turns.h"
#include "broker/loop/outbox.h"
#include "broker/memory/ledger.h"
#include "broker/memory/snapshot.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "policies/time.h"
#include "util/conf.h"

#define LOOK_NS NSEC_PER_MSEC
/* Where nobody is held it is looked so often, as workers do, to count. */
#define COUNT_NS (50 * NSEC_PER_MSEC)
/* More than that between two looks is not charged: weftd did not see it. */
#define LOOK_LATE_NS (4 * COUNT_NS)
/* A session that does not read what it is told hears of it later. */
#define AGAIN_NS (10 * NSEC_PER_MSEC)

/* A tenant's work that still runs so long after it has had its quota, or its turn, is taken off
 * the device: a long kernel, or the rest of what was queued (session/portion.h). By memory not
 * before its worker has waited for that to end (worker/moving.c), or what leaves would leave from
 * under it. Where that cannot be, slices are to take it back. */
#define PREEMPT_NS             NSEC_PER_MSEC
#define PREEMPT_TURN_NS        (4 * NSEC_PER_MSEC)
#define PREEMPT_MEMORY_TURN_NS (100 * NSEC_PER_MSEC)
#define LATE_NS                (4 * NSEC_PER_MSEC)
#define TURN_LATE_NS           (2 * NSEC_PER_SEC)
/* A session that is not to go is held for so long, and told again. */
#define HOLD_NS (100 * NSEC_PER_MSEC)

/* First version of the messages that has PACE, and whose PACE has preempt. */
#define VERSION_PACE    3u
#define VERSION_PREEMPT 4u

/* Slice of a session that has not been told one. */
#define DRIVER_SLICE_US 2048u

void pace_init(struct broker *b)
{
	if (strcmp(b->conf->device, "cuda") != 0)
		return;
	b->pace.load_us = TIME_LOAD_US;
	b->pace.switch_us = TIME_SWITCH_US;
	b->pace.preempt_us = TIME_PREEMPT_US;
}

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

/* ---- looking ---- */

/* The slice that a session was told; or what it had before, as long as its device has that,
 * and, on the average, goes on with it. */
static uint32_t slice_us(const struct worker *w, uint64_t now_ns)
{
	uint32_t was = w->slice_before_us;
	bool before = was && (now_ns < w->sliced_ns + was * NSEC_PER_USEC / 2 ||
			      atomic_load(&w->count->slice_us) == was);
	uint32_t us = before ? was : w->slice_us;

	return us ? us : DRIVER_SLICE_US;
}

/* Part of what a tenant has that does not count as out: the last of it may come in its turn. */
#define REST_PART 64

/* Memory that a session computes with: not what it has not named for long. */
static void add_set(const struct worker *w, struct pace_tenant *p)
{
	uint64_t out = w->evicted - snapshot_cold_out(w), here = account_worker(w);

	p->out += out;
	p->all += w->evicted + here - MIN(here, w->move.returning);
	p->set += out + here - MIN(here, w->move.returning + snapshot_cold(w));
	p->fixed += MIN(w->overhead, here);
}

static void look_at_had(struct worker *w)
{
	uint64_t had = atomic_load(&w->count->had_ns), seen = w->had_seen_ns;

	w->is_told = seen && had >= seen;
	w->had_ns = w->is_told ? had - seen : 0;
	w->had_seen_ns = had;
}

/* Notes what a session has to do. A worker's page may change at any time: all that is
 * decided is by this one look. */
static void look_at_session(struct worker *w, uint64_t now_ns)
{
	const struct worker_page *page = w->count;
	struct pace_tenant *p = &w->tenant->pace;
	/* A driver may take a second for one that ends, which does nothing any more. */
	bool computes = !w->ending_ns && atomic_load(&page->computing);
	uint64_t pending = computes ? atomic_load(&page->pending) : PAGE_NO_WORK;

	look_at_had(w);
	w->worked = w->works_us;
	w->wants = pending || (computes && atomic_load(&page->waiting));
	w->copies = pending == PAGE_COPIES;
	w->works_us = pending && !w->copies ? slice_us(w, now_ns) : 0;
	p->sessions += computes;
	if (computes)
		add_set(w, p);
	w->b->pace.lacks |= computes && w->evicted;
	p->n_copying += w->copies;
	p->n_shared += w->kind == WORKER_SHARED && w->works_us;
	if (w->kind != WORKER_SHARED) {
		p->n_pending += w->works_us != 0;
		p->pending_us += w->works_us;
	}
	p->works |= w->wants;
}

static void look_at(struct tenant *t, uint64_t now_ns)
{
	struct pace_tenant *p = &t->pace;
	struct worker *w;

	p->sessions = p->n_pending = p->n_copying = p->n_shared = 0;
	p->pending_us = p->set = p->out = p->all = p->fixed = 0;
	/* One that allocates in its turn goes on when it has that. */
	p->works = t->held && t->b->time->by_memory;
	list_for_each (w, &t->workers, tenant_link)
		look_at_session(w, now_ns);
	if (p->out <= p->set / REST_PART)
		p->out = 0;
}

/* Bytes that those which do not compute keep on the device in any case. */
static uint64_t fixed(const struct tenant *t)
{
	const struct worker *w;
	uint64_t bytes = t->shared;

	list_for_each (w, &t->workers, tenant_link) {
		uint64_t movable = snapshot_movable(w, SNAPSHOT_QUIET);
		uint64_t has = atomic_load(&w->count->computing) ? 0 : account_worker(w);

		bytes += has - MIN(movable, has);
	}
	return bytes;
}

static void look(struct broker *b, uint64_t now_ns)
{
	struct time_device *d = &b->asked.device;
	uint64_t kept, missing;
	struct tenant *t;

	kept = account_set_aside(b, &missing) + b->reserve;
	b->pace.lacks = false;
	list_for_each (t, &b->tenants, link) {
		look_at(t, now_ns);
		kept += fixed(t);
	}
	d->memory = b->swap ? b->device_total - MIN(kept, b->device_total) : 0;
}

/* ---- charging ---- */

/* How the device was used since the last look: what it took to go round among the sessions
 * with kernels, and how many have those, or only copies, which others' kernels do not
 * stop. Where the device tells how long each had it that is what counts. */
struct round {
	uint64_t ns, all_us;
	uint32_t n_pending, n_copying;
};

/* Whether a session has the device only while it has kernels: anybody else has some, now or at the
 * look before, or what it had was taken off. */
static bool has_exactly(const struct worker *w, const struct round *r)
{
	return r->n_pending > (w->works_us != 0) || w->b->pace.n_worked > w->worked ||
	       (w->tenant->pace.preempt && (w->works_us || w->worked));
}

/* The device's time that a session had, but for what it was charged of that by the clock, and what it
 * takes to take it off and to load it again: one of the tenant's is on it. */
static uint64_t had_ns(const struct worker *w)
{
	struct pace_tenant *p = &w->tenant->pace;
	bool off = p->preempt && !p->is_off && w->worked && !w->works_us;
	uint64_t cost = w->ahead_ns + (off ? w->b->pace.preempt_us * NSEC_PER_USEC : 0);

	p->is_off |= off;
	return MIN(w->had_ns - MIN(cost, w->had_ns), LOOK_LATE_NS);
}

static uint64_t by_clock_ns(const struct worker *w, const struct round *r)
{
	uint32_t us = w->works_us - MIN(w->b->pace.load_us, w->works_us);

	if (!w->works_us)
		return 0;
	return r->n_pending > 1 ? r->ns * us / r->all_us : r->ns;
}

static uint64_t part_ns(struct worker *w, const struct round *r)
{
	bool exact = w->is_told && has_exactly(w, r);
	uint64_t own;

	if (w->copies)
		return r->ns / MAX(r->n_copying, 1u);
	own = exact ? had_ns(w) : by_clock_ns(w, r);
	if (!w->is_told || w->had_ns)
		w->ahead_ns = 0;
	else if (!exact)
		w->ahead_ns += own;
	return own;
}

/* Returns what a tenant's sessions have had of the device. What a session did not have, which
 * had work, it stalled. */
static uint64_t use(struct tenant *t, const struct round *r)
{
	uint64_t used = 0, own, stalled;
	struct worker *w;

	list_for_each (w, &t->workers, tenant_link) {
		own = part_ns(w, r);
		stalled = w->wants ? r->ns - MIN(own, r->ns) : 0;
		w->used_time_ns += own;
		w->stalled_ns += stalled;
		t->pace.stalled_ns += stalled;
		used += own;
	}
	return used;
}

static void charge(struct tenant *t, uint64_t used_ns, uint64_t ns, uint64_t now_ns)
{
	struct pace_tenant *p = &t->pace;
	bool was = p->cap.until_ns;

	p->used_ns += used_ns;
	p->waited_ns += p->stopped && p->works ? ns : 0;
	p->held_ns += was ? ns : 0;
	if (!cap_charge(&p->cap, &t->compute.max, now_ns, used_ns) || was)
		return;
	p->n_held++;
	p->cap_since_ns = now_ns;
}

/* Whether any session of class shared has kernels: all of them have one slice, side by side, and
 * each is charged that. */
static bool shared_work(const struct broker *b)
{
	const struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (t->pace.n_shared)
			return true;
	}
	return false;
}

static void charge_all(struct broker *b, uint64_t ns, uint64_t now_ns)
{
	struct round r = {.ns = ns, .n_pending = filler_works(b) + shared_work(b)};
	struct tenant *t;

	r.all_us = r.n_pending * (uint64_t)DRIVER_SLICE_US;
	list_for_each (t, &b->tenants, link) {
		r.all_us += t->pace.pending_us;
		r.n_pending += t->pace.n_pending;
		r.n_copying += t->pace.n_copying;
	}
	r.all_us += (uint64_t)r.n_pending * b->pace.switch_us;
	list_for_each (t, &b->tenants, link)
		charge(t, use(t, &r), ns, now_ns);
	b->pace.n_worked = r.n_pending;
}

/* ---- work that does not end in time ---- */

/* Work on the device when a tenant had had its quota should have ended. */
static bool has_overdrawn(const struct tenant *t, uint64_t for_ns, uint64_t now_ns)
{
	return now_ns < t->pace.cap.until_ns && now_ns >= t->pace.cap_since_ns + for_ns &&
	       t->pace.n_pending;
}

/* Or what it had when its turn ended; what was queued before there were turns may take long, and
 * its memory moves when that is done. */
static bool has_overrun(const struct tenant *t, uint64_t for_ns, uint64_t now_ns)
{
	return t->pace.stopped && t->pace.n_pending &&
	       now_ns >= t->pace.since_ns + for_ns;
}

static bool is_late(const struct tenant *t, uint64_t now_ns)
{
	return has_overrun(t, TURN_LATE_NS, now_ns) || has_overdrawn(t, LATE_NS, now_ns);
}

/* Work of a tenant that is seen to go on is taken off until it may. */
static void preempt(struct broker *b, uint64_t now_ns)
{
	uint64_t turn_ns = b->time->by_memory ? PREEMPT_MEMORY_TURN_NS : PREEMPT_TURN_NS;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		struct pace_tenant *p = &t->pace;
		bool may = now_ns >= p->cap.until_ns && !p->stopped;

		p->preempt =
			!may && (p->preempt || has_overdrawn(t, PREEMPT_NS, now_ns) ||
				 has_overrun(t, turn_ns, now_ns));
		p->is_off &= p->preempt;
	}
}

/* A late tenant has the shortest slices, and others have the rest: somebody with work or, if
 * nobody has any and it is for a cap, the filler. A session of class shared is never late:
 * its slice is that of all of them. */
static void take_back(struct broker *b, uint64_t now_ns)
{
	bool any = false, others = false;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		bool late = is_late(t, now_ns);

		if (late != t->pace.late)
			slices_due(b);
		t->pace.late = late;
		any |= has_overdrawn(t, LATE_NS, now_ns);
		others |= !late && (t->pace.n_pending || t->pace.n_shared);
	}
	filler_set(b, any && !others);
}

/* ---- telling ---- */

/* Has those who do not go told so again before they would go on by themselves. */
static void hold(struct broker *b, uint64_t now_ns)
{
	struct pace *p = &b->pace;
	struct tenant *t;

	if (p->hold_ns < now_ns + HOLD_NS / 2)
		p->hold_ns = now_ns + HOLD_NS;
	list_for_each (t, &b->tenants, link)
		t->pace.held_until_ns =
			MAX(t->pace.cap.until_ns, t->pace.stopped ? p->hold_ns : 0);
}

/* Whether sessions are to have little queued: who computes may have to stop. Where not all fits that
 * those have, already before anybody does. */
static bool is_bound(const struct tenant *t)
{
	const struct broker *b = t->b;

	return has_cap(t) || turns_are_on(b) || (b->time->by_memory && b->pace.lacks);
}

static struct msg message(const struct worker *w, bool looks)
{
	const struct tenant *t = w->tenant;

	return (struct msg){
		.type = MSG_PACE,
		.pace = {.held_until_ns = t->pace.held_until_ns,
			 .look_us = looks ? LOOK_NS / NSEC_PER_USEC : 0,
			 .bound = is_bound(t),
			 .preempt = t->pace.preempt && w->version >= VERSION_PREEMPT},
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

/* How often it has to be looked: often if somebody with a cap computes, or anybody where
 * there are turns; now and then, to count, if anybody does; 0: not at all. */
static uint64_t look_ns(const struct broker *b)
{
	const struct tenant *t;
	uint64_t ns = 0;

	list_for_each (t, &b->tenants, link) {
		if (!t->pace.sessions)
			continue;
		if (has_cap(t) || turns_are_on(b))
			return LOOK_NS;
		ns = COUNT_NS;
	}
	return ns;
}

uint64_t pace_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct pace *p = &b->pace;
	uint64_t ns;

	if (!p->due && now_ns < p->at_ns)
		return p->at_ns;
	p->due = false;
	look(b, now_ns);
	blocks_look(b, now_ns);
	ns = look_ns(b);
	if (p->looked_ns)
		charge_all(b, MIN(now_ns - p->looked_ns, LOOK_LATE_NS), now_ns);
	p->looked_ns = ns ? now_ns : 0;
	take_back(b, now_ns);
	if (ns)
		turns_take(b, now_ns);
	else
		turns_end(b, now_ns);
	preempt(b, now_ns);
	hold(b, now_ns);
	p->at_ns = !tell_all(b, ns == LOOK_NS) ? now_ns + AGAIN_NS : UINT64_MAX;
	if (ns)
		p->at_ns = MIN(p->at_ns, now_ns + ns);
	return p->at_ns;
}
