/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters are served in order of arrival. One behind others gets memory before them only
 * if its tenant stays within its share, or if it has been evicted itself: so a tenant
 * whose kernels keep its memory busy holds up those that want more than theirs, and no
 * one else.
 *
 * Looking at somebody costs time that all tenants wait for, so there is an end to how
 * many of a tenant are looked at: a few stand in b->waiters, and whoever comes after them
 * waits behind, in the tenant's own queue, until one of them has been answered. Only then
 * has it arrived, as far as the order between tenants goes: however many threads of a
 * tenant wait, another tenant waits behind those that stand. A pass over those who stand
 * reads credit and the snapshot once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/loop/outbox.h"
#include "broker/memory/ledger.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/snapshot.h"
#include "broker/memory/waiters.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "wire.h"

/* How long a charge is held, and a session that can do without what it wants; so long may work
 * in flight take that must end before memory can move. */
#define WAIT_NS     (30 * NSEC_PER_SEC)
#define NEED_NS     (1 * NSEC_PER_SEC)
/* In turns: those who are to give have nothing to do but to end. */
#define TURN_NEED_NS (3 * NSEC_PER_SEC)
#define OPERATOR_NS (10 * NSEC_PER_SEC)
/* Waiters of one worker: a charge for each of its threads, and some of its own. */
#define WAITERS_MAX (WIRE_SESSIONS_MAX + 16)
/* Waiters of one tenant that stand, of either queue: enough that several threads are
 * served at a time, and that a large allocation which must wait seldom stands before a
 * small one. */
#define STANDING_MAX 8u

bool waiter_is_early(const struct waiter *wt)
{
	return wt->kind == WAIT_NEED && (wt->t->pace.place || wt->w->move.in_id);
}

/* Returns the queue of wt. Who can do without waits for a second only, so those have a queue of
 * their own: in each the first one's time is up first. */
static struct waiter_queue *queue_of(const struct waiter *wt)
{
	return &wt->t->queues[wt->kind == WAIT_NEED || wt->kind == WAIT_SPARE];
}

void waiters_init(struct tenant *t)
{
	for (unsigned i = 0; i < ARRAY_SIZE(t->queues); i++)
		list_init(&t->queues[i].behind);
}

static void stand(struct waiter *wt)
{
	wt->stands = true;
	queue_of(wt)->n_standing++;
	list_append(&wt->t->b->waiters, &wt->link);
}

/* Operators are few, and do not queue. */
static void enqueue(struct waiter *wt)
{
	struct waiter_queue *q = queue_of(wt);

	if (wt->kind == WAIT_OPERATOR)
		list_append(&wt->t->b->waiters, &wt->link);
	else if (q->n_standing < STANDING_MAX && list_empty(&q->behind))
		stand(wt);
	else
		list_append(&q->behind, &wt->link);
}

bool waiters_move_up(struct broker *b)
{
	bool any = false;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		for (unsigned i = 0; i < ARRAY_SIZE(t->queues); i++) {
			struct waiter_queue *q = &t->queues[i];

			while (q->n_standing < STANDING_MAX && !list_empty(&q->behind)) {
				struct waiter *wt =
					list_entry(q->behind.next, struct waiter, link);

				list_remove(&wt->link);
				stand(wt);
				any = true;
			}
		}
	}
	return any;
}

static struct waiter *waiter_new(struct tenant *t, enum waiter_kind kind, uint64_t bytes,
				 uint64_t deadline_ns)
{
	struct waiter *wt = calloc(1, sizeof(*wt));

	if (!wt)
		return NULL;
	wt->t = t;
	wt->kind = kind;
	wt->bytes = bytes;
	wt->deadline_ns = deadline_ns;
	list_init(&wt->of_worker);
	enqueue(wt);
	if (kind == WAIT_CHARGE)
		t->held += bytes;
	t->b->reclaim_due = true;
	return wt;
}

static void set_worker(struct waiter *wt, struct worker *w, uint32_t id)
{
	wt->w = w;
	wt->id = id;
	if (!w->n_waiters++)
		list_init(&w->waiters);
	list_append(&w->waiters, &wt->of_worker);
}

static void waiter_free(struct waiter *wt)
{
	if (wt->kind == WAIT_CHARGE)
		wt->t->held -= wt->bytes;
	if (wt->kind == WAIT_NEED)
		wt->w->move.needs = false;
	if (wt->kind == WAIT_RESIDENT)
		wt->w->move.makes_resident = false;
	if (wt->w)
		wt->w->n_waiters--;
	if (wt->t->b->moving_for == wt)
		wt->t->b->moving_for = NULL;
	if (wt->stands)
		queue_of(wt)->n_standing--;
	list_remove(&wt->link);
	list_remove(&wt->of_worker);
	free(wt);
}

/* Answers a CHARGE. */
static int tell_charged(struct worker *w, uint32_t id, int result, uint64_t granted,
			uint64_t evicted)
{
	const struct msg a = {
		.type = MSG_CHARGED,
		.id = id,
		.charged = {.result = result, .bytes = granted, .evicted = evicted}};

	return outbox_tell(&w->out, &a, -1, -1);
}

/* Answers a NEED, which never fails. */
static int tell_need(struct worker *w, uint32_t id, uint64_t granted)
{
	const struct msg a = {
		.type = MSG_NEED_GRANTED, .id = id, .need_granted.bytes = granted};

	return outbox_tell(&w->out, &a, -1, -1);
}

/* Answers a MAKE_RESIDENT. */
static int tell_resident(struct worker *w, uint32_t id, int result, uint64_t granted)
{
	const struct msg a = {.type = MSG_RESIDENT_GRANTED,
			      .id = id,
			      .resident_granted = {.result = result, .bytes = granted}};

	return outbox_tell(&w->out, &a, -1, -1);
}

static int tell(struct worker *w, enum waiter_kind kind, uint32_t id, int result,
		uint64_t granted, uint64_t evicted)
{
	switch (kind) {
	case WAIT_CHARGE:
	case WAIT_SPARE:
		return tell_charged(w, id, result, granted, evicted);
	case WAIT_NEED:
		return tell_need(w, id, granted);
	case WAIT_RESIDENT:
		return tell_resident(w, id, result, granted);
	case WAIT_OPERATOR:
		break;
	}
	return 0;
}

/* Ends a wait. A worker that cannot be told is of no use any more. */
static void waiter_end(struct waiter *wt, int result, uint64_t granted, uint64_t evicted)
{
	enum waiter_kind kind = wt->kind;
	struct worker *w = wt->w;
	uint32_t id = wt->id;

	if (kind == WAIT_OPERATOR) {
		void (*done)(void *, uint64_t) = wt->done;
		void *arg = wt->arg;
		uint64_t made = wt->made;

		waiter_free(wt);
		done(arg, made);
		return;
	}
	waiter_free(wt);
	if (tell(w, kind, id, result, granted, evicted) < 0)
		child_kill(&w->child);
}

static uint64_t need_ns(const struct broker *b)
{
	return b->pace.turns ? TURN_NEED_NS : NEED_NS;
}

/* Behind those who wait already, or because the device is full. */
static int wait_charge(struct worker *w, enum waiter_kind kind, uint32_t id,
		       uint64_t bytes, bool part, uint64_t deadline_ns)
{
	struct waiter *wt;
	int r;

	if (w->n_waiters >= WAITERS_MAX)
		return -EPROTO;
	r = account_may(w, bytes);
	if (r < 0 && r != -EAGAIN)
		return tell_charged(w, id, r, 0, 0);
	wt = waiter_new(w->tenant, kind, bytes, deadline_ns);
	if (!wt)
		return tell_charged(w, id, -ENOMEM, 0, 0);
	wt->part = part;
	set_worker(wt, w, id);
	return 0;
}

static int charge(struct worker *w, enum waiter_kind kind, uint32_t id, uint64_t bytes,
		  bool part, uint64_t now_ns)
{
	uint64_t wait_ns = kind == WAIT_CHARGE ? WAIT_NS : need_ns(w->b);
	int r = list_empty(&w->b->waiters) ? account_charge(w, bytes, part) : -EAGAIN;

	w->b->charged_ns = now_ns;
	if (w->b->pressed && !w->b->moving && !w->b->coming)
		prealloc_pause(w->b, now_ns + PREALLOC_PAUSE_NS);
	if (w->b->pressed && r == 0)
		prealloc_mapping(w->b, now_ns + PAGE_MAPPING_NS);
	return r == -EAGAIN ? wait_charge(w, kind, id, bytes, part, now_ns + wait_ns)
			    : tell_charged(w, id, r, r < 0 ? 0 : bytes, 0);
}

int waiters_charge(struct worker *w, uint32_t id, uint64_t bytes, bool part,
		   uint64_t now_ns)
{
	return charge(w, WAIT_CHARGE, id, bytes, part, now_ns);
}

int waiters_charge_spare(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns)
{
	return charge(w, WAIT_SPARE, id, bytes, true, now_ns);
}

int waiters_need(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns)
{
	struct waiter *wt;

	if (w->move.needs)
		return -EPROTO;
	bytes = MIN(bytes, evicted_waiting(w));
	/* A worker that moves out waits for us, and we for it: the memory is mapped where it
	 * is. One whose memory comes was told so when it had asked already. */
	wt = !bytes || w->move.out_id
		     ? NULL
		     : waiter_new(w->tenant, WAIT_NEED, bytes, now_ns + need_ns(w->b));
	if (!wt)
		return tell_need(w, id, 0);
	set_worker(wt, w, id);
	w->move.needs = true;
	return 0;
}

void waiters_left(struct worker *w, uint64_t bytes)
{
	struct waiter *wt;

	if (!w->move.needs)
		return;
	list_for_each (wt, &w->waiters, of_worker)
		wt->bytes += wt->kind == WAIT_NEED ? bytes : 0;
}

int waiters_make_resident(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns)
{
	struct waiter *wt;

	if (w->move.makes_resident)
		return -EPROTO;
	wt = waiter_new(w->tenant, WAIT_RESIDENT, MIN(bytes, w->evicted),
			now_ns + WAIT_NS);
	if (!wt)
		return tell_resident(w, id, -ENOMEM, 0);
	set_worker(wt, w, id);
	w->move.makes_resident = true;
	return 0;
}

int waiters_operator(struct tenant *t, uint64_t bytes, uint64_t now_ns,
		     void (*done)(void *arg, uint64_t bytes), void *arg)
{
	struct waiter *wt = waiter_new(t, WAIT_OPERATOR, bytes, now_ns + OPERATOR_NS);

	if (!wt)
		return -ENOMEM;
	wt->done = done;
	wt->arg = arg;
	return 0;
}

void waiters_forget(struct broker *b, const void *arg)
{
	struct waiter *wt, *tmp;

	list_for_each_safe (wt, tmp, &b->waiters, link) {
		if (wt->kind == WAIT_OPERATOR && wt->arg == arg)
			waiter_free(wt);
	}
}

/* ---- who gets what is there ---- */

/* True if something moves: a worker is told of one thing at a time that returns. */
static bool is_moving(const struct worker *w)
{
	return w->move.in_id || w->move.out_id || w->move.needs;
}

/* Grants what is to return; the worker says later what has. */
static void give_back(struct waiter *wt, uint64_t bytes)
{
	struct worker *w = wt->w;
	uint32_t id = wt->id;

	bytes = MIN(bytes, evicted_waiting(w));
	if (evicted_return(w, bytes) < 0)
		bytes = 0;
	w->move.in_id = bytes ? id : 0;
	waiter_end(wt, 0, bytes, 0);
}

static bool is_first(const struct waiter *wt)
{
	const struct waiter *o;

	list_for_each (o, &wt->t->b->waiters, link) {
		if (o->kind != WAIT_OPERATOR)
			return o == wt;
	}
	return false;
}

/* Grants what there is now on the device, and the rest in host memory. Nothing is on its
 * way out meanwhile, for which host memory is promised. */
static int serve_in_part(struct waiter *wt)
{
	uint64_t evicted, here = account_gather(wt->t->b);
	int r = -ENOMEM;

	if (!is_first(wt)) /* what is there is for the first */
		here = MIN(here, wt->made);
	if (wt->part && wt->t->b->swap)
		r = account_charge_part(wt->w, wt->bytes, here, &evicted);
	if (r == 0)
		waiter_end(wt, 0, wt->bytes - evicted, evicted);
	return r;
}

void waiter_fail(struct waiter *wt, int result)
{
	switch (wt->kind) {
	case WAIT_CHARGE:
	case WAIT_SPARE:
		if (serve_in_part(wt) == 0)
			break;
		wt->t->events.oom += wt->kind == WAIT_CHARGE;
		waiter_end(wt, result, 0, 0);
		break;
	case WAIT_NEED:
		give_back(wt, MIN(wt->bytes, account_gather(wt->t->b)));
		break;
	case WAIT_RESIDENT:
		waiter_end(wt, result, 0, 0);
		break;
	case WAIT_OPERATOR:
		waiter_end(wt, 0, 0, 0);
		break;
	}
}

int pass_read(struct pass *p)
{
	int r;

	if (p->known)
		return 0;
	p->room = account_gather(p->b);
	r = snapshot_read(p->b, p->now_ns, &p->now);
	if (r < 0)
		return r;
	snapshot_share(p->b, &p->now);
	p->known = true;
	return 0;
}

/* Before others that came earlier. */
static bool may_pass(const struct waiter *wt, struct pass *p)
{
	uint32_t i = wt->t->index;

	if (wt->t->removed || pass_read(p) < 0 || p->room < wt->bytes)
		return false;
	return wt->made >= wt->bytes ||
	       p->now.device.shares[i] >= p->now.tenants[i].resident + wt->bytes;
}

/* Returns 0 if it has been answered, or -EAGAIN. */
static int serve_one(struct waiter *wt, struct pass *p)
{
	int r;

	switch (wt->kind) {
	case WAIT_CHARGE:
	case WAIT_SPARE:
		r = account_charge(wt->w, wt->bytes, wt->part);
		if (r == -EAGAIN)
			return r;
		waiter_end(wt, r, r < 0 ? 0 : wt->bytes, 0);
		return 0;
	case WAIT_NEED:
		if (wt->w->move.in_id)
			return -EAGAIN;
		wt->bytes = MIN(wt->bytes, evicted_waiting(wt->w));
		if (wt->bytes > account_gather(wt->t->b))
			return -EAGAIN;
		if (!waiter_is_early(wt))
			p->comes = wt->w;
		give_back(wt, wt->bytes);
		return 0;
	case WAIT_RESIDENT:
		if (is_moving(wt->w) || wt->bytes > account_gather(wt->t->b))
			return -EAGAIN;
		give_back(wt, wt->bytes);
		return 0;
	case WAIT_OPERATOR: /* operators_end() */
		break;
	}
	return -EAGAIN;
}

/* Has it been done, to the end, or is there no more time for it? */
static bool is_due(const struct waiter *wt, uint64_t now_ns)
{
	return (wt->made >= wt->bytes && wt->t->b->moving_for != wt) ||
	       now_ns >= wt->deadline_ns;
}

static struct waiter *operator_due(struct broker *b, const struct tenant *gone,
				   uint64_t now_ns)
{
	struct waiter *wt;

	list_for_each (wt, &b->waiters, link) {
		if (wt->kind == WAIT_OPERATOR && (wt->t == gone || is_due(wt, now_ns)))
			return wt;
	}
	return NULL;
}

/* Ends the operators' waits that are due, or of a tenant that is gone. One that is
 * answered may ask at once for something that ends others' waiting, so nothing is known
 * of the list afterwards. */
static void operators_end(struct broker *b, const struct tenant *gone, uint64_t now_ns)
{
	struct waiter *wt;

	while ((wt = operator_due(b, gone, now_ns)))
		waiter_end(wt, 0, 0, 0);
}

void waiters_serve(struct pass *p)
{
	struct waiter *wt, *tmp;
	bool first = true;

	operators_end(p->b, NULL, p->now_ns);
	p->known = false;
	list_for_each_safe (wt, tmp, &p->b->waiters, link) {
		if (wt->kind == WAIT_OPERATOR)
			continue;
		if (waiter_is_early(wt)) {
			if (may_pass(wt, p) && serve_one(wt, p) == 0)
				p->known = false;
			continue;
		}
		if ((first || may_pass(wt, p)) && serve_one(wt, p) == 0) {
			p->known = false;
			continue;
		}
		first = false;
	}
}

/* Returns false if it is to wait on: host memory is promised to what moves now. */
static bool expires(const struct waiter *wt, uint64_t now_ns)
{
	const struct worker *moving = wt->t->b->moving;

	return wt->kind != WAIT_OPERATOR && now_ns >= wt->deadline_ns &&
	       !waiter_is_early(wt) && !(wt->part && moving && moving->move.out_id);
}

static unsigned expire_behind(struct waiter_queue *q, uint64_t now_ns, unsigned most)
{
	struct waiter *wt, *tmp;
	unsigned n = 0;

	list_for_each_safe (wt, tmp, &q->behind, link) {
		if (n == most || !expires(wt, now_ns))
			break;
		waiter_fail(wt, -ENOMEM);
		n++;
	}
	return n;
}

unsigned waiters_expire(struct broker *b, uint64_t now_ns, unsigned most)
{
	struct waiter *wt, *tmp;
	struct tenant *t;
	unsigned n = 0;

	list_for_each_safe (wt, tmp, &b->waiters, link) {
		if (n == most || !expires(wt, now_ns))
			continue;
		waiter_fail(wt, -ENOMEM);
		n++;
	}
	list_for_each (t, &b->tenants, link) {
		for (unsigned i = 0; i < ARRAY_SIZE(t->queues); i++)
			n += expire_behind(&t->queues[i], now_ns, most - n);
	}
	return n;
}

void waiters_drop(struct worker *w)
{
	struct waiter *wt, *tmp;

	if (!w->n_waiters)
		return;
	list_for_each_safe (wt, tmp, &w->waiters, of_worker)
		waiter_free(wt);
}

void waiters_drop_tenant(struct tenant *t)
{
	operators_end(t->b, t, 0);
}
