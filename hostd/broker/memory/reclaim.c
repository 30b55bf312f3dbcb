/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the device is full. A charge that does not fit is held (waiters.c); a policy says who
 * is evicted, that worker is asked, and when it has answered, the charge is granted, or
 * the next is asked. At most one worker moves memory for others at a time. Nobody waits
 * for ever: after WAIT_NS, or as soon as nobody has anything to give, the answer is
 * -ENOMEM. What workers could give is late by a moment when they were granted memory just
 * now, and only then is it looked at for a little longer.
 *
 * Behind that, in this order: what an operator moves by hand, contexts of workers to
 * come, tenants above memory.high or their share, the reserve, and what comes back
 * because memory is free. The reserve is for the next charge, so that it need not wait:
 * while tenants want more than there is, a little is kept free, which whoever comes may
 * have, and who is above its share fills it up again afterwards. A worker that frees
 * memory sends no message, so while anything is evicted or somebody waits, weftd looks at
 * credit every few milliseconds, and never else.
 *
 * There is an end to what one tick does, whatever waits: others' messages come between
 * two of them.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/loop/outbox.h"
#include "broker/memory/ledger.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/snapshot.h"
#include "broker/memory/stuck.h"
#include "broker/memory/waiters.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "policies/placement.h"

/* A worker that did not get quiet: first pause, doubling up to the last, so that its
 * lanes wait at its gate less than half of the time. */
#define BUSY_NS        (50 * NSEC_PER_MSEC)
#define BUSY_SHIFT_MAX 5u
/* One that waits on says within this what came of it. */
#define GATE_NS (2 * NSEC_PER_SEC)
/* A worker that had nothing, or no host memory. */
#define EMPTY_NS (500 * NSEC_PER_MSEC)
/* Without an answer for so long, others are asked. */
#define MOVE_NS (10 * NSEC_PER_SEC)
/* How often to look while somebody waits, and while something is evicted: what was freed
 * is to be used within 50 ms. */
#define WAIT_TICK_NS (5 * NSEC_PER_MSEC)
#define EVICTED_TICK_NS (20 * NSEC_PER_MSEC)
#define PAUSE_MAX_NS NSEC_PER_SEC
/* Delay, after a grant, of what leaves without anybody waiting for it: the memory granted
 * is mapped now, which takes 1 ms longer while anything is copied to the host
 * (memory/transfer.h). */
#define BACKGROUND_NS (2 * NSEC_PER_MSEC)
/* At a time, so that who needs room meanwhile waits a few milliseconds. */
#define RETURN_MAX     (256ull << 20)
#define BACKGROUND_MAX (128ull << 20)
/* While tenants take turns, when those that move do not compute. */
#define TURNS_MAX (1ull << 30)

/* First version of the messages whose RECLAIM has only_copies. */
#define VERSION_ONLY_COPIES 4u

/* Refusals in a tick: each has everybody looked at again. */
#define ENDS_MAX 16u

/* A worker on its way out gives the device's memory back within this, or much later. */
#define SOON_NS (100 * NSEC_PER_MSEC)

/* ---- who is evicted ---- */

static uint32_t new_id(struct broker *b)
{
	b->next_move += !(b->next_move + 1) + 1;
	return b->next_move;
}

static void asked(struct worker *w, uint64_t now_ns)
{
	w->b->moving = w;
	w->b->moving_since_ns = now_ns;
	prealloc_pause(w->b, UINT64_MAX);
}

static void comes(struct worker *w, uint64_t now_ns)
{
	w->b->coming = w;
	w->b->coming_since_ns = now_ns;
	prealloc_pause(w->b, UINT64_MAX);
}

static void not_moving(struct broker *b, uint64_t now_ns)
{
	b->moving = NULL;
	b->moving_for = NULL;
	if (!b->coming)
		prealloc_pause(b, now_ns + PREALLOC_PAUSE_NS);
}

static void not_coming(struct broker *b, uint64_t now_ns)
{
	b->coming = NULL;
	if (!b->moving)
		prealloc_pause(b, now_ns + PREALLOC_PAUSE_NS);
}

/* Whether who moves out, or in, lets others move meanwhile: while tenants take turns these are
 * not the ones that compute. */
static bool is_free(const struct broker *b, const struct worker *moves)
{
	return !moves || b->pace.turns;
}

/* Whether somebody more urgent computes now, who would wait for kernels of the tenant's. */
static bool is_below(const struct tenant *t)
{
	const struct tenant *u;

	list_for_each (u, &t->b->tenants, link) {
		if (u->pace.sessions && !u->pace.stopped &&
		    u->compute.priority > t->compute.priority)
			return true;
	}
	return false;
}

/* Returns 0 or -EBUSY. */
static int ask_session(struct worker *w, uint64_t bytes, enum placement_where where,
		       bool urgent, uint64_t now_ns)
{
	struct msg m = {.type = MSG_RECLAIM,
			.id = new_id(w->b),
			.reclaim = {.bytes = bytes,
				    .swap = where == PLACE_SWAPPED,
				    .only_copies = is_below(w->tenant) &&
						   w->version >= VERSION_ONLY_COPIES,
				    .urgent = urgent}};

	m.reclaim.host_room = w->move.room = evicted_room(w->tenant);
	if (outbox_tell(&w->out, &m, -1, -1) < 0) {
		child_kill(&w->child);
		return -EBUSY;
	}
	w->move.out_id = m.id;
	w->move.left = w->move.gave = 0;
	asked(w, now_ns);
	return 0;
}

/* Asks a session of the tenant that a policy named. Returns 0 or -EBUSY. */
static int ask_out(struct broker *b, struct tenant *t, uint64_t bytes, bool urgent,
		   uint64_t now_ns)
{
	struct placement_session ses;
	struct worker *w = snapshot_session(t, false, now_ns, &ses);

	if (!w)
		return -EBUSY;
	return ask_session(w, MIN(bytes, ses.movable), b->placement->where(&ses), urgent,
			   now_ns);
}

static struct tenant *tenant_at(struct broker *b, uint32_t index)
{
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (t->index == index)
			return t;
	}
	return NULL;
}

static int ask_step(struct broker *b, const struct placement_step *step, bool urgent,
		    uint64_t now_ns)
{
	struct tenant *t = tenant_at(b, step->tenant);

	if (!t || !step->bytes)
		return -EBUSY;
	if (account_tenant(t) < t->memory.low + MIN(step->bytes, UINT64_MAX / 2))
		t->events.low++;
	return ask_out(b, t, step->bytes, urgent, now_ns);
}

static int ask_manual(struct waiter *wt, struct snapshot *now, uint64_t now_ns)
{
	const struct placement_tenant *t = &now->tenants[wt->t->index];

	if (!MIN(now->device.host_room, t->evicted_room))
		return -ENOMEM;
	if (!t->movable)
		return -ENOSPC;
	return ask_out(wt->t->b, wt->t, wt->bytes - wt->made, false, now_ns);
}

/* Returns the bytes that workers on their way out are about to give back. */
static uint64_t free_soon(const struct broker *b, uint64_t now_ns)
{
	const struct worker *w;
	uint64_t bytes = 0;

	list_for_each (w, &b->workers, link) {
		if (w->ending_ns && now_ns < w->ending_ns + SOON_NS)
			bytes += snapshot_movable(w, SNAPSHOT_QUIET);
	}
	return bytes;
}

/* Finds who is to be evicted for wt, `missing` more than `room`. */
static int find_victim(const struct waiter *wt, const struct pass *p, uint64_t room,
		       uint64_t missing, struct placement_step *ret_step)
{
	struct placement_device d = p->now.device;
	struct placement_tenant *t = &p->now.tenants[wt->t->index], was = *t;
	int r;

	/* Promised room stays part of what is wanted. */
	d.free -= MIN(room, d.free);
	if (wt->kind == WAIT_NEED || wt->kind == WAIT_RESIDENT) {
		t->evicted -= MIN(wt->bytes, t->evicted);
		t->wanted += wt->bytes;
		t->asks += wt->bytes;
	}
	r = p->b->placement->victim(&d, p->now.tenants, p->now.n, wt->t->index, missing,
				    ret_step);
	*t = was;
	return r;
}

/* Finds who is to be evicted for a WAIT_SPARE. Within the share of its tenant, as for what is to
 * come back: who is above its own. Beyond that what the tenant itself has, if it can leave now. */
static int find_spare(const struct waiter *wt, const struct pass *p, uint64_t room,
		      uint64_t missing, struct placement_step *ret_step)
{
	const struct placement *of = p->b->placement;
	struct placement_device d = p->now.device;
	struct placement_tenant *t = &p->now.tenants[wt->t->index], was = *t;
	uint64_t host_room = MIN(d.host_room, was.evicted_room);
	int r = was.busy || was.movable < missing || host_room < missing ? -ENOSPC : 0;

	d.free -= MIN(room, d.free);
	*ret_step = (struct placement_step){.tenant = wt->t->index, .bytes = missing};
	t->evicted += wt->bytes;
	t->busy = false;
	if (t->resident + wt->bytes <=
	    of->share(&d, p->now.tenants, p->now.n, wt->t->index))
		r = of->relieve(&d, p->now.tenants, p->now.n, ret_step);
	*t = was;
	ret_step->bytes = MIN(ret_step->bytes, missing);
	return r;
}

/* Only the session itself could give, and it did not get quiet twice: most likely its
 * work waits for the very thread that waits here. */
static bool waits_for_itself(const struct waiter *wt, const struct pass *p, uint64_t room,
			     uint64_t missing)
{
	struct placement_tenant *t = &p->now.tenants[wt->t->index];
	uint64_t was = t->movable, own = snapshot_movable(wt->w, p->now_ns);
	struct placement_step step;
	int r;

	if (wt->w->move.n_busy < 2 || !t->busy || !own)
		return false;
	t->movable -= MIN(own, t->movable);
	r = find_victim(wt, p, room, missing, &step);
	t->movable = was;
	return r == -ENOSPC || r == -ENOMEM;
}

/* Within memory.min: whoever keeps the tenant from that is ended in the end. */
static bool is_promised(const struct waiter *wt, const struct pass *p)
{
	const struct broker *b = p->b;

	return wt->kind == WAIT_CHARGE && !wt->part && b->n_stuck && b->kill_ns &&
	       account_tenant(wt->t) + wt->bytes <= wt->t->memory.min;
}

/* Returns 0 (asked), -EBUSY (to be tried again) or why nothing can be done. */
static int ask_for(struct waiter *wt, bool first, struct pass *p)
{
	struct broker *b = p->b;
	struct placement_step step;
	uint64_t missing, soon = 0, room;
	int r;

	if (wt->t->removed || pass_read(p) < 0)
		return -ENOMEM;
	if (wt->kind == WAIT_OPERATOR)
		return ask_manual(wt, &p->now, p->now_ns);
	/* Memory that is there, or will be in a moment, is for the first. */
	room = first ? p->room : MIN(p->room, wt->made);
	if (first && wt->kind != WAIT_NEED)
		soon = free_soon(b, p->now_ns);
	missing = wt->bytes > room ? wt->bytes - room : 0;
	if (missing <= soon)
		return -EBUSY;
	/* Sessions that could give are busy for all charges of a tenant alike. */
	if (wt->kind == WAIT_SPARE)
		r = find_spare(wt, p, room, missing, &step);
	else if (wt->kind == WAIT_CHARGE && wt->t->busy_pass == b->n_passes)
		r = -EBUSY;
	else
		r = find_victim(wt, p, room, missing, &step);
	if (r == -EBUSY && wt->kind == WAIT_CHARGE) {
		wt->t->busy_pass = b->n_passes;
		if (wt->part && waits_for_itself(wt, p, room, missing))
			return -ENOSPC;
	}
	if (r == -ENOSPC && is_promised(wt, p))
		return -EBUSY;
	return r < 0 ? r : ask_step(b, &step, true, p->now_ns);
}

/* Until when something may be there after all. */
static uint64_t late_until(const struct waiter *wt, const struct pass *p)
{
	uint64_t late_ns = wt->kind == WAIT_SPARE ? 0 : snapshot_late_until(p->b);

	return MAX(late_ns, p->now_ns);
}

/* Asks for who waits. Returns 0 if somebody was asked, -EAGAIN if somebody was answered,
 * -EBUSY if nothing could be done. */
static int ask_for_holds(struct pass *p)
{
	struct broker *b = p->b;
	bool first = true;
	struct waiter *wt;

	b->n_passes += !(b->n_passes + 1) + 1;
	list_for_each (wt, &b->waiters, link) {
		int r;

		if (waiter_is_early(wt))
			continue;
		r = ask_for(wt, first, p);

		if (r == 0) {
			b->moving_for = wt;
			return 0;
		}
		if (b->n_ending && (r == -ENOSPC || r == -ENOMEM))
			r = -EBUSY;
		if (r == -ENOSPC && !wt->nothing_ns)
			wt->nothing_ns = late_until(wt, p);
		if (r == -ENOMEM || (r == -ENOSPC && p->now_ns >= wt->nothing_ns) ||
		    (r == -EBUSY && wt->kind == WAIT_NEED && !b->pace.turns)) {
			waiter_fail(wt, -ENOMEM);
			return -EAGAIN;
		}
		first &= wt->kind == WAIT_OPERATOR;
	}
	return -EBUSY;
}

/* Somebody waits who will most likely be refused; that is no want of memory. */
static bool in_vain(const struct broker *b)
{
	const struct waiter *wt;

	list_for_each (wt, &b->waiters, link) {
		if (wt->nothing_ns)
			return true;
	}
	return false;
}

/* Contexts of workers to come, then who is above its high or its share, also for the
 * reserve. */
static void ask_in_background(struct broker *b, uint64_t now_ns)
{
	struct placement_step step;
	uint64_t missing;
	struct snapshot now;
	struct tenant *t;
	int r = -ENOSPC;

	if (snapshot_read(b, now_ns, &now) < 0)
		return;
	if (in_vain(b))
		now.device.reserve = 0;
	account_set_aside(b, &missing);
	if (missing)
		r = b->placement->victim(&now.device, now.tenants, now.n,
					 PLACEMENT_NOBODY, missing, &step);
	if (r < 0)
		r = b->placement->relieve(&now.device, now.tenants, now.n, &step);
	if (r < 0) {
		b->background_ns = 0;
		return;
	}
	if (!b->background_ns)
		b->background_ns = b->pace.turns ? now_ns : now_ns + BACKGROUND_NS;
	if (now_ns < b->background_ns)
		return;
	b->background_ns = 0;
	t = tenant_at(b, step.tenant);
	if (t && account_tenant(t) > t->memory.high)
		t->events.high++;
	step.bytes = MIN(step.bytes, b->pace.turns ? TURNS_MAX : BACKGROUND_MAX);
	(void)ask_step(b, &step, false, now_ns);
}

/* Asks stuck sessions on, for as little as can be, so that weftd knows when that has
 * ended. */
static void ask_stuck(struct broker *b, uint64_t now_ns)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		uint64_t bytes = w->move.stuck ? snapshot_movable(w, now_ns) : 0;

		if (bytes && evicted_room(w->tenant) >= b->piece &&
		    ask_session(w, MIN(bytes, b->piece), PLACE_MAPPED, false, now_ns) ==
			    0)
			return;
	}
}

/* But for those whose turn is not now: the background sees to them. */
static bool nobody_waits(const struct broker *b)
{
	const struct waiter *wt;

	list_for_each (wt, &b->waiters, link) {
		if (!waiter_is_early(wt))
			return false;
	}
	return true;
}

static void bring_back(struct broker *b, uint64_t now_ns)
{
	struct msg m = {.type = MSG_RESTORE};
	struct placement_session ses;
	struct placement_step step;
	struct snapshot now;
	struct tenant *t;
	struct worker *w;
	int r = snapshot_read(b, now_ns, &now);

	if (r == 0) {
		now.device.free -= MIN(snapshot_kept(b, &now, now_ns), now.device.free);
		r = b->placement->returns(&now.device, now.tenants, now.n, &step);
	}
	t = r == 0 ? tenant_at(b, step.tenant) : NULL;
	w = t ? snapshot_session(t, true, now_ns, &ses) : NULL;
	if (!w)
		return;
	m.restore.bytes =
		MIN(MIN(step.bytes, ses.evicted), b->pace.turns ? TURNS_MAX : RETURN_MAX);
	if (!m.restore.bytes || evicted_return(w, m.restore.bytes) < 0)
		return;
	m.id = new_id(b);
	w->move.in_id = m.id;
	comes(w, now_ns);
	if (outbox_tell(&w->out, &m, -1, -1) < 0)
		child_kill(&w->child);
}

/* ---- what workers say ---- */

static void pause_busy(struct worker_move *m, uint64_t now_ns)
{
	m->busy_ns = now_ns + (BUSY_NS << MIN(m->n_busy, BUSY_SHIFT_MAX));
	m->n_busy++;
}

static void had_nothing(struct worker *w, const struct msg_moved *moved, uint64_t now_ns)
{
	struct worker_move *m = &w->move;

	if (moved->result != -EBUSY) {
		m->empty_ns = now_ns + EMPTY_NS;
		return;
	}
	w->tenant->events.busy++;
	stuck_busy(w, now_ns);
	m->at_gate = moved->will_wait;
	if (m->at_gate)
		m->busy_ns = now_ns + GATE_NS;
	else
		pause_busy(m, now_ns);
}

int reclaim_quiesced(struct worker *w, int result, uint64_t now_ns)
{
	if (!w->move.at_gate)
		return -EPROTO;
	w->move.at_gate = false;
	if (result < 0)
		pause_busy(&w->move, now_ns);
	else
		w->move.busy_ns = 0;
	if (result == 0)
		stuck_end(w);
	w->b->reclaim_due = true;
	return 0;
}

static void move_ended(struct worker *w, uint64_t now_ns)
{
	if (w->b->moving == w)
		not_moving(w->b, now_ns);
	if (w->b->coming == w)
		not_coming(w->b, now_ns);
	w->b->reclaim_due = true;
}

/* Or it has freed what its program does not use. */
static void take_left(struct worker *w, uint64_t bytes, uint64_t now_ns)
{
	struct waiter *wt = w->b->moving == w ? w->b->moving_for : NULL;
	uint64_t had = w->charged;

	bytes = evicted_left(w, MIN(bytes, w->move.room - w->move.left));
	w->move.left += bytes;
	w->move.gave += had - w->charged;
	waiters_left(w, bytes);
	if (!wt)
		return;
	wt->made += had - w->charged;
	if (wt->kind == WAIT_OPERATOR)
		w->move.manual_ns = now_ns;
}

int reclaim_left(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns)
{
	if (!w->move.out_id || id != w->move.out_id)
		return -EPROTO;
	take_left(w, bytes, now_ns);
	w->b->reclaim_due = true;
	return 0;
}

int reclaim_ended(struct worker *w, uint32_t id, const struct msg_moved *m,
		  uint64_t now_ns)
{
	if (!w->move.out_id || id != w->move.out_id)
		return -EPROTO;
	take_left(w, m->bytes, now_ns);
	w->move.out_id = 0;
	evicted_left_all(w);
	if (w->move.left) {
		w->tenant->events.reclaim++;
		w->tenant->events.frozen += m->frozen;
		w->move.gave_ns = now_ns;
	}
	if (w->move.gave)
		stuck_end(w);
	if (m->result == 0 && w->move.gave)
		w->move.n_busy = 0;
	else
		had_nothing(w, m, now_ns);
	move_ended(w, now_ns);
	return 0;
}

int reclaim_returned(struct worker *w, uint32_t id, const struct msg_moved *m,
		     uint64_t now_ns)
{
	if (!w->move.in_id || id != w->move.in_id)
		return -EPROTO;
	evicted_returned(w, m->bytes);
	w->move.in_id = 0;
	/* The device has no room for it after all, or it did not get quiet. */
	if (m->result == -EBUSY)
		had_nothing(w, m, now_ns);
	else if (m->result < 0 || !m->bytes)
		w->move.full_ns = now_ns + EMPTY_NS;
	move_ended(w, now_ns);
	return 0;
}

void reclaim_ending(struct worker *w, uint64_t now_ns)
{
	stuck_end(w);
	move_ended(w, now_ns);
}

void reclaim_end(struct worker *w)
{
	stuck_end(w);
	waiters_drop(w);
	move_ended(w, clock_now_ns());
}

/* ---- the clock ---- */

/* A late answer is booked all the same; until then that worker is busy. */
static void expire_move(struct broker *b, uint64_t now_ns)
{
	if (b->moving && now_ns - b->moving_since_ns >= MOVE_NS) {
		log_warning("worker %d does not say what it moved", b->moving->child.pid);
		not_moving(b, now_ns);
	}
	if (b->coming && now_ns - b->coming_since_ns >= MOVE_NS) {
		log_warning("worker %d does not say what came back",
			    b->coming->child.pid);
		not_coming(b, now_ns);
	}
}

/* Something should move out in the background, but cannot right now. */
static bool unrelieved(struct broker *b)
{
	uint64_t missing;
	struct tenant *t;

	account_set_aside(b, &missing);
	list_for_each (t, &b->tenants, link) {
		if (t->memory.high != UINT64_MAX && account_tenant(t) > t->memory.high)
			return true;
	}
	return missing;
}

static uint64_t next_time(struct broker *b, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	if (!list_empty(&b->waiters)) {
		next = now_ns + WAIT_TICK_NS;
	} else if (b->evicted || b->n_stuck) {
		next = now_ns + EVICTED_TICK_NS;
	} else if (unrelieved(b)) {
		/* Relief may be late, or never be possible. */
		next = now_ns + b->reclaim_pause_ns;
		b->reclaim_pause_ns = MIN(2 * b->reclaim_pause_ns, PAUSE_MAX_NS);
	}
	if (b->coming)
		next = MIN(next, b->coming_since_ns + MOVE_NS);
	if (b->moving)
		next = MIN(next, b->moving_since_ns + MOVE_NS);
	else if (b->background_ns)
		next = MIN(next, b->background_ns);
	return next;
}

/* Answers whom it can, and asks for the others. Returns true if there is more to do at
 * once. */
static bool serve(struct broker *b, uint64_t now_ns)
{
	struct pass p = {.b = b, .now_ns = now_ns};
	unsigned n = waiters_expire(b, now_ns, ENDS_MAX);

	expire_move(b, now_ns);
	waiters_serve(&p);
	while (!b->moving && is_free(b, b->coming) && n < ENDS_MAX &&
	       ask_for_holds(&p) == -EAGAIN) {
		n++;
		waiters_serve(&p);
	}
	/* The link is of the one whose turn it is, and then of who is next. */
	if (b->pace.turns && p.comes && p.comes->move.in_id)
		comes(p.comes, now_ns);
	return n == ENDS_MAX;
}

uint64_t reclaim_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	bool again;

	if (!b->swap && list_empty(&b->waiters)) {
		b->reclaim_due = false;
		return UINT64_MAX;
	}
	if (!b->reclaim_due && now_ns < b->reclaim_at_ns)
		return b->reclaim_at_ns;
	if (b->reclaim_due)
		b->reclaim_pause_ns = EVICTED_TICK_NS;
	again = serve(b, now_ns);
	if (!b->moving && is_free(b, b->coming))
		ask_in_background(b, now_ns);
	if (!b->moving && !b->coming && b->n_stuck)
		ask_stuck(b, now_ns);
	if (!b->coming && is_free(b, b->moving) && nobody_waits(b))
		bring_back(b, now_ns);
	stuck_tick(b, now_ns);
	again |= waiters_move_up(b);
	b->reclaim_due = again;
	b->reclaim_at_ns = again ? now_ns : next_time(b, now_ns);
	return b->reclaim_at_ns;
}
