/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits is served in order of arrival. One behind others gets memory before them only
 * if its tenant stays within its share, or if it has given way itself: so a tenant whose
 * kernels keep its memory busy holds up those that want more than theirs, and no one
 * else.
 *
 * Looking at somebody costs time that all tenants wait for, so there is an end to how
 * many of a tenant are looked at: a few stand in b->holds, and whoever comes after them
 * waits behind, in the tenant's own queue, until one of them has been answered. Only then
 * has it arrived, as far as the order between tenants goes: however many threads of a
 * tenant wait, another tenant waits behind those that stand. A pass over those who stand
 * reads credit and numbers once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "broker/memory/waiters.h"
#include "ipc/page.h"

/* How long a charge is held, and a session that wants its memory back; so long may work
 * in flight take that must end before memory can move. */
#define HOLD_NS (30 * NSEC_PER_SEC)
#define NEED_NS (1 * NSEC_PER_SEC)
#define HAND_NS (10 * NSEC_PER_SEC)
/* Of one worker: a charge for each of its threads, and some of its own. */
#define HOLDS_MAX (WIRE_SESSIONS_MAX + 16)
/* Waiters of one tenant that stand, of either queue: enough that several threads are
 * served at a time, and that a large allocation which must wait seldom stands before a
 * small one. */
#define STANDING_MAX 8u

/* What is swapped waits for a second only, so it has a queue of its own: in each the
 * first one's time is up first. */
static struct hold_queue *queue_of(const struct hold *h)
{
	return &h->t->queues[h->kind == HOLD_NEED];
}

void hold_init(struct tenant *t)
{
	for (unsigned i = 0; i < ARRAY_SIZE(t->queues); i++)
		list_init(&t->queues[i].behind);
}

static void stand(struct hold *h)
{
	h->stands = true;
	queue_of(h)->n_standing++;
	list_append(&h->t->b->holds, &h->link);
}

/* Operators are few, and do not queue. */
static void enqueue(struct hold *h)
{
	struct hold_queue *q = queue_of(h);

	if (h->kind == HOLD_HAND)
		list_append(&h->t->b->holds, &h->link);
	else if (q->n_standing < STANDING_MAX && list_empty(&q->behind))
		stand(h);
	else
		list_append(&q->behind, &h->link);
}

bool hold_move_up(struct broker *b)
{
	bool any = false;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		for (unsigned i = 0; i < ARRAY_SIZE(t->queues); i++) {
			struct hold_queue *q = &t->queues[i];

			while (q->n_standing < STANDING_MAX && !list_empty(&q->behind)) {
				struct hold *h =
					list_entry(q->behind.next, struct hold, link);

				list_remove(&h->link);
				stand(h);
				any = true;
			}
		}
	}
	return any;
}

static struct hold *hold_new(struct tenant *t, enum hold_kind kind, uint64_t bytes,
			     uint64_t deadline_ns)
{
	struct hold *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->t = t;
	h->kind = kind;
	h->bytes = bytes;
	h->deadline_ns = deadline_ns;
	list_init(&h->of_worker);
	enqueue(h);
	if (kind == HOLD_CHARGE)
		t->held += bytes;
	t->b->reclaim_due = true;
	return h;
}

static void set_worker(struct hold *h, struct worker *w, uint32_t id)
{
	h->w = w;
	h->id = id;
	if (!w->n_holds++)
		list_init(&w->holds);
	list_append(&w->holds, &h->of_worker);
}

static void hold_free(struct hold *h)
{
	if (h->kind == HOLD_CHARGE)
		h->t->held -= h->bytes;
	if (h->kind == HOLD_NEED)
		h->w->move.needs = false;
	if (h->kind == HOLD_HOME)
		h->w->move.homes = false;
	if (h->w)
		h->w->n_holds--;
	if (h->t->b->moving_for == h)
		h->t->b->moving_for = NULL;
	if (h->stands)
		queue_of(h)->n_standing--;
	list_remove(&h->link);
	list_remove(&h->of_worker);
	free(h);
}

static int answer(struct worker *w, uint32_t id, int result, uint64_t granted,
		  uint64_t away)
{
	struct msg a = {.type = MSG_ANSWER,
			.id = id,
			.result = result,
			.bytes = granted,
			.total = away};

	return outbox_tell(&w->out, &a, -1, -1);
}

/* Ends a wait. A worker that cannot be told is of no use any more. */
static void hold_end(struct hold *h, int result, uint64_t granted, uint64_t away)
{
	struct worker *w = h->w;
	uint32_t id = h->id;

	if (h->kind == HOLD_HAND) {
		void (*done)(void *, uint64_t) = h->done;
		void *arg = h->arg;
		uint64_t made = h->made;

		hold_free(h);
		done(arg, made);
		return;
	}
	hold_free(h);
	if (answer(w, id, result, granted, away) < 0)
		child_kill(&w->child);
}

/* Behind those who wait already, or because the device is full. */
static int hold_charge(struct worker *w, uint32_t id, uint64_t bytes, bool part,
		       uint64_t now_ns)
{
	struct hold *h;
	int r;

	if (w->n_holds >= HOLDS_MAX)
		return -EPROTO;
	r = account_may(w, bytes);
	if (r < 0 && r != -EAGAIN)
		return answer(w, id, r, 0, 0);
	h = hold_new(w->tenant, HOLD_CHARGE, bytes, now_ns + HOLD_NS);
	if (!h)
		return answer(w, id, -ENOMEM, 0, 0);
	h->part = part;
	set_worker(h, w, id);
	return 0;
}

int reclaim_charge(struct worker *w, uint32_t id, uint64_t bytes, bool part,
		   uint64_t now_ns)
{
	int r = list_empty(&w->b->holds) ? account_charge(w, bytes, part) : -EAGAIN;

	w->b->charged_ns = now_ns;
	if (w->b->pressed && !w->b->moving)
		ready_pause(w->b, now_ns + READY_PAUSE_NS);
	if (w->b->pressed && r == 0)
		ready_mapping(w->b, now_ns + PAGE_MAPPING_NS);
	return r == -EAGAIN ? hold_charge(w, id, bytes, part, now_ns)
			    : answer(w, id, r, r < 0 ? 0 : bytes, 0);
}

int reclaim_need(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns)
{
	struct hold *h;

	if (w->move.needs)
		return -EPROTO;
	bytes = MIN(bytes, away_waiting(w));
	/* It waits for us while we wait for it: it is mapped where it is. */
	h = !bytes || w->move.out_id || w->move.in_id
		    ? NULL
		    : hold_new(w->tenant, HOLD_NEED, bytes, now_ns + NEED_NS);
	if (!h)
		return answer(w, id, 0, 0, 0);
	set_worker(h, w, id);
	w->move.needs = true;
	return 0;
}

int reclaim_home(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns)
{
	struct hold *h;

	if (w->move.homes)
		return -EPROTO;
	h = hold_new(w->tenant, HOLD_HOME, MIN(bytes, w->away), now_ns + HOLD_NS);
	if (!h)
		return answer(w, id, -ENOMEM, 0, 0);
	set_worker(h, w, id);
	w->move.homes = true;
	return 0;
}

int reclaim_by_hand(struct tenant *t, uint64_t bytes, uint64_t now_ns,
		    void (*done)(void *arg, uint64_t bytes), void *arg)
{
	struct hold *h = hold_new(t, HOLD_HAND, bytes, now_ns + HAND_NS);

	if (!h)
		return -ENOMEM;
	h->done = done;
	h->arg = arg;
	return 0;
}

void reclaim_forget(struct broker *b, const void *arg)
{
	struct hold *h, *tmp;

	list_for_each_safe (h, tmp, &b->holds, link) {
		if (h->kind == HOLD_HAND && h->arg == arg)
			hold_free(h);
	}
}

/* ---- who gets what is there ---- */

/* It is told of one thing at a time that returns. */
static bool is_moving(const struct worker *w)
{
	return w->move.in_id || w->move.out_id || w->move.needs;
}

/* Grants what is to return; the worker says later what has. */
static void give_back(struct hold *h, uint64_t bytes)
{
	struct worker *w = h->w;
	uint32_t id = h->id;

	bytes = MIN(bytes, away_waiting(w));
	if (away_return(w, bytes) < 0)
		bytes = 0;
	w->move.in_id = bytes ? id : 0;
	hold_end(h, 0, bytes, 0);
}

static bool is_first(const struct hold *h)
{
	const struct hold *o;

	list_for_each (o, &h->t->b->holds, link) {
		if (o->kind != HOLD_HAND)
			return o == h;
	}
	return false;
}

/* What there is now is all it gets on the device. Nothing is on its way out meanwhile,
 * for which host memory is promised. */
static int serve_in_part(struct hold *h)
{
	uint64_t away, here = account_gather(h->t->b);
	int r = -ENOMEM;

	if (!is_first(h)) /* what is there is for the first */
		here = MIN(here, h->made);
	if (h->part && h->t->b->swap)
		r = account_charge_part(h->w, h->bytes, here, &away);
	if (r == 0)
		hold_end(h, 0, h->bytes - away, away);
	return r;
}

void hold_fail(struct hold *h, int result)
{
	switch (h->kind) {
	case HOLD_CHARGE:
		if (serve_in_part(h) == 0)
			break;
		h->t->events.oom++;
		hold_end(h, result, 0, 0);
		break;
	case HOLD_NEED:
		give_back(h, MIN(h->bytes, account_gather(h->t->b)));
		break;
	case HOLD_HOME:
		hold_end(h, result, 0, 0);
		break;
	case HOLD_HAND:
		hold_end(h, 0, 0, 0);
		break;
	}
}

int pass_read(struct pass *p)
{
	int r;

	if (p->known)
		return 0;
	p->room = account_gather(p->b);
	r = numbers_read(p->b, p->now_ns, &p->now);
	if (r < 0)
		return r;
	numbers_share(p->b, &p->now);
	p->known = true;
	return 0;
}

/* Before others that came earlier. */
static bool may_pass(const struct hold *h, struct pass *p)
{
	uint32_t i = h->t->index;

	if (h->t->removed || pass_read(p) < 0 || p->room < h->bytes)
		return false;
	return h->made >= h->bytes ||
	       p->now.device.shares[i] >= p->now.tenants[i].resident + h->bytes;
}

/* Returns 0 if it has been answered, or -EAGAIN. */
static int serve_one(struct hold *h)
{
	int r;

	switch (h->kind) {
	case HOLD_CHARGE:
		r = account_charge(h->w, h->bytes, h->part);
		if (r == -EAGAIN)
			return r;
		hold_end(h, r, r < 0 ? 0 : h->bytes, 0);
		return 0;
	case HOLD_NEED:
		if (h->bytes > account_gather(h->t->b))
			return -EAGAIN;
		give_back(h, h->bytes);
		return 0;
	case HOLD_HOME:
		if (is_moving(h->w) || h->bytes > account_gather(h->t->b))
			return -EAGAIN;
		give_back(h, h->bytes);
		return 0;
	case HOLD_HAND: /* hands_end() */
		break;
	}
	return -EAGAIN;
}

/* Has it been done, to the end, or is there no more time for it? */
static bool is_due(const struct hold *h, uint64_t now_ns)
{
	return (h->made >= h->bytes && h->t->b->moving_for != h) ||
	       now_ns >= h->deadline_ns;
}

static struct hold *hand_due(struct broker *b, const struct tenant *gone, uint64_t now_ns)
{
	struct hold *h;

	list_for_each (h, &b->holds, link) {
		if (h->kind == HOLD_HAND && (h->t == gone || is_due(h, now_ns)))
			return h;
	}
	return NULL;
}

/* Who is answered may ask for something else at once that ends others' waiting, so
 * nothing is known of the list afterwards. */
static void hands_end(struct broker *b, const struct tenant *gone, uint64_t now_ns)
{
	struct hold *h;

	while ((h = hand_due(b, gone, now_ns)))
		hold_end(h, 0, 0, 0);
}

void hold_serve(struct pass *p)
{
	struct hold *h, *tmp;
	bool first = true;

	hands_end(p->b, NULL, p->now_ns);
	p->known = false;
	list_for_each_safe (h, tmp, &p->b->holds, link) {
		if (h->kind == HOLD_HAND)
			continue;
		if ((first || may_pass(h, p)) && serve_one(h) == 0) {
			p->known = false;
			continue;
		}
		first = false;
	}
}

/* Returns false if it is to wait on: host memory is promised to what moves now. */
static bool expires(const struct hold *h, uint64_t now_ns)
{
	const struct worker *moving = h->t->b->moving;

	return h->kind != HOLD_HAND && now_ns >= h->deadline_ns &&
	       !(h->part && moving && moving->move.out_id);
}

static unsigned expire_behind(struct hold_queue *q, uint64_t now_ns, unsigned most)
{
	struct hold *h, *tmp;
	unsigned n = 0;

	list_for_each_safe (h, tmp, &q->behind, link) {
		if (n == most || !expires(h, now_ns))
			break;
		hold_fail(h, -ENOMEM);
		n++;
	}
	return n;
}

unsigned hold_expire(struct broker *b, uint64_t now_ns, unsigned most)
{
	struct hold *h, *tmp;
	struct tenant *t;
	unsigned n = 0;

	list_for_each_safe (h, tmp, &b->holds, link) {
		if (n == most || !expires(h, now_ns))
			continue;
		hold_fail(h, -ENOMEM);
		n++;
	}
	list_for_each (t, &b->tenants, link) {
		for (unsigned i = 0; i < ARRAY_SIZE(t->queues); i++)
			n += expire_behind(&t->queues[i], now_ns, most - n);
	}
	return n;
}

void hold_drop(struct worker *w)
{
	struct hold *h, *tmp;

	if (!w->n_holds)
		return;
	list_for_each_safe (h, tmp, &w->holds, of_worker)
		hold_free(h);
}

void reclaim_drop_tenant(struct tenant *t)
{
	hands_end(t->b, t, 0);
}
