/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests that wait for a worker. Each tenant has a queue, and the tenants that have
 * somebody waiting get workers in turn; one that had several a moment ago comes after
 * those that had not. So however many come, or leave again, through one listener, they
 * stand in the way of their own tenant's alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/operator/events.h"
#include "broker/listener.h"
#include "broker/guests.h"
#include "broker/loop/outbox.h"
#include "broker/memory/account_host.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "wire.h"

/* A tenant's guests that wait are no fewer than its sessions may be, nor than this. */
#define WAITING_MIN 64u
#define WAITING_NS  (55 * NSEC_PER_SEC)
/* A worker says at once whether its program is there, unless something is wrong. */
#define PROBE_NS NSEC_PER_SEC
/* Workers that a tenant may have before others that wait: so many at once, then one in
 * each period. */
#define TURNS_BURST     4
#define TURNS_PERIOD_NS NSEC_PER_SEC

/* Lanes that each session may have, whatever others have: its first, one that threads
 * share, and one for functions in its streams. */
#define LANES_ALWAYS 3

/* Workers of a kind that in a row did not start: then its guests wait no more. With the
 * pauses in between that is 3 s, longer than a server of MPS takes that starts anew; for
 * OpenGL, which is there or is not, 0.3 s. */
#define SHARED_TRIES   6u
#define GRAPHICS_TRIES 3u

struct guest_wait {
	struct list link; /* tenant.waiting */
	uint32_t id;      /* the listener's number */
	struct wire_hello hello;
	uint64_t deadline_ns;
	uint32_t asked; /* the tenant's other sessions, with this number; 0: not yet */
};

static bool is_monitor(const struct guest_wait *g)
{
	return g->hello.offers & WIRE_HELLO_MONITOR;
}

static bool is_graphics(const struct guest_wait *g)
{
	return g->hello.offers & WIRE_HELLO_GRAPHICS;
}

static struct guest_wait *first(struct tenant *t)
{
	return list_entry(t->waiting.next, struct guest_wait, link);
}

/* Guests of each kind are served in their order. */
static struct guest_wait *first_of(struct tenant *t, enum worker_kind kind)
{
	struct guest_wait *g;

	list_for_each (g, &t->waiting, link) {
		if (worker_kind_for(t, &g->hello) == kind)
			return g;
	}
	return NULL;
}

static void wait_free(struct tenant *t, struct guest_wait *g)
{
	t->n_waiting_gl -= is_graphics(g);
	list_remove(&g->link);
	free(g);
	if (!--t->n_waiting)
		list_remove(&t->queue_link);
}

/* ---- refusing ---- */

static const char *why_refused(int error)
{
	switch (error) {
	case -EUSERS:
		return "the tenant has all its sessions (sessions.max)";
	case -ENOMEM:
		return "no memory for one more (memory.max, or the device is full)";
	case -ETIMEDOUT:
		return "no worker was ready in time";
	case -ESHUTDOWN:
		return "no session begins while this is drained";
	case -ENODEV:
		return "class shared has no MPS server (compute.class, mps)";
	case -EOPNOTSUPP:
		return "the tenant has no graphics (graphics, memory.max)";
	case -ENXIO:
		return "weft-gl does not start: its log says why";
	case -EAGAIN:
		return "too many programs wait already";
	default:
		return strerror(-error);
	}
}

static void refuse(struct tenant *t, uint32_t id, const struct wire_hello *hello,
		   int error)
{
	struct json_object *e = event_of_guest(t, "session.refused", 0);

	listener_refuse(t, id, error);
	if (!e)
		return;
	reply_str(e, "name", hello->name);
	reply_u64(e, "pid", hello->pid);
	reply_str(e, "why", why_refused(error));
	event_post(t->b, e);
}

/* ---- whether those before are still there ---- */

static bool is_unanswered(const struct tenant *t)
{
	const struct worker *w;

	if (clock_now_ns() >= t->asked_until_ns)
		return false;
	list_for_each (w, &t->workers, tenant_link) {
		/* Numbers go round; whoever came later was not asked. */
		if (!w->ending_ns && (int32_t)(w->asked - t->asked) >= 0 &&
		    (int32_t)(w->here - t->asked) < 0)
			return true;
	}
	return false;
}

/* For all that wait by now. */
static void ask_others(struct tenant *t)
{
	struct broker *b = t->b;
	struct msg m = {.type = MSG_PROBE};
	struct guest_wait *g;
	struct worker *w;

	m.id = t->asked = b->next_asked += !(b->next_asked + 1) + 1;
	t->asked_until_ns = clock_now_ns() + PROBE_NS;
	list_for_each (g, &t->waiting, link) {
		if (!g->asked)
			g->asked = m.id;
	}
	list_for_each (w, &t->workers, tenant_link) {
		if (!w->ending_ns && outbox_is_read(&w->out) &&
		    outbox_tell(&w->out, &m, -1, -1) == 0)
			w->asked = m.id;
	}
}

/*
 * A program that comes right after another is to have what that one had. So the tenant's
 * workers are asked whether their programs are still there: the answer comes after
 * whatever a worker can know by now.
 */
static bool waits_for_others(struct tenant *t, const struct guest_wait *g)
{
	if (is_monitor(g) || (g->asked && g->asked != t->asked))
		return false;
	if (is_unanswered(t))
		return true;
	if (g->asked)
		return false;
	ask_others(t);
	return is_unanswered(t);
}

/* ---- who is next ---- */

/* Why no worker of that kind becomes ready: a negative errno, or 0: one will. */
static int stranded(const struct broker *b, enum worker_kind kind)
{
	unsigned failures = b->pools[kind].failures;

	if (kind == WORKER_SHARED && failures >= SHARED_TRIES)
		return -ENODEV;
	return kind == WORKER_GRAPHICS && failures >= GRAPHICS_TRIES ? -ENXIO : 0;
}

static int serve_one(struct tenant *t, const struct guest_wait *g, struct worker *w)
{
	if (is_graphics(g) && !tenant_draws(t))
		return -EOPNOTSUPP;
	if (t->n_sessions >= t->sessions_max)
		return -EUSERS;
	return w ? worker_attach(w, t, &g->hello, g->id)
		 : stranded(t->b, worker_kind_for(t, &g->hello));
}

/* Has the first of that kind a worker, or is it refused? */
static bool serve_kind(struct tenant *t, enum worker_kind kind)
{
	struct guest_wait *g = first_of(t, kind);
	struct worker *w = workers_ready(t->b, kind);
	bool full = t->n_sessions >= t->sessions_max;
	int r;

	if (!g || t->n_resuming || waits_for_others(t, g))
		return false;
	if (kind == WORKER_GRAPHICS && !tenant_draws(t))
		full = false;
	else if (full ? t->n_ending > 0 : !w && !stranded(t->b, kind))
		return false;
	if (full && log_limit_ok(&t->log_limit, 2))
		log_warning("tenant %s has its %u sessions", t->name, t->sessions_max);
	r = serve_one(t, g, w);
	if (r == -EAGAIN)
		return false;
	if (r < 0)
		refuse(t, g->id, &g->hello, r);
	else
		t->turn_ns = MAX(t->turn_ns, clock_now_ns()) + TURNS_PERIOD_NS;
	wait_free(t, g);
	return true;
}

static bool serve(struct tenant *t)
{
	bool any = false;

	for (unsigned k = 0; k < WORKER_NUM_KINDS && !any; k++)
		any = serve_kind(t, k);
	return any;
}

/* Had no more than its turns of late. */
static bool has_turn(const struct tenant *t, uint64_t now_ns)
{
	return t->turn_ns <= now_ns + (TURNS_BURST - 1) * TURNS_PERIOD_NS;
}

static bool serve_next(struct broker *b)
{
	uint64_t now = clock_now_ns();

	for (unsigned late = 0; late < 2; late++) {
		struct tenant *t, *tmp;

		list_for_each_safe (t, tmp, &b->queue, queue_link) {
			if (has_turn(t, now) == late || !serve(t))
				continue;
			if (t->n_waiting) {
				list_remove(&t->queue_link);
				list_append(&b->queue, &t->queue_link);
			}
			return true;
		}
	}
	return false;
}

void guests_match(struct broker *b)
{
	while (!list_empty(&b->queue) && serve_next(b))
		;
	workers_fill(b);
}

/* ---- coming and going ---- */

static void queue(struct tenant *t, const struct wire_hello *hello, uint32_t id)
{
	struct guest_wait *g = NULL;

	if (!tenant_drains(t) && t->n_waiting < MAX(t->sessions_max, WAITING_MIN))
		g = calloc(1, sizeof(*g));
	if (!g) {
		refuse(t, id, hello, tenant_drains(t) ? -ESHUTDOWN : -EAGAIN);
		return;
	}
	g->id = id;
	g->hello = *hello;
	t->n_waiting_gl += is_graphics(g);
	g->deadline_ns = clock_now_ns() + WAITING_NS;
	list_append(&t->waiting, &g->link);
	if (!t->n_waiting++)
		list_append(&t->b->queue, &t->queue_link);
	guests_match(t->b);
}

/* Takes as long whatever the guess. */
static bool same_token(const uint8_t *a, const uint8_t *b)
{
	uint8_t diff = 0;

	for (unsigned i = 0; i < 16; i++)
		diff |= a[i] ^ b[i];
	return !diff;
}

/* Threads for which there is none share those of their program. */
static bool may_have_lane(const struct worker *w)
{
	struct tenant *t = w->tenant;

	if (account_lanes(w) < LANES_ALWAYS || account_lanes_tenant(t) < t->lanes_max)
		return true;
	if (log_limit_ok(&t->log_limit, 2))
		log_warning("tenant %s has its %u lanes (lanes.max): further threads of "
			    "its programs share those that are there",
			    t->name, t->lanes_max);
	return false;
}

static void pass_lane(struct worker *w, uint32_t id, const struct msg *m)
{
	worker_lanes(w, w->n_passed + 1);
	if (listener_pass(w->tenant, id, w, m, -1) == 0)
		return;
	worker_lanes(w, w->n_passed - 1);
	listener_refuse(w->tenant, id, -EAGAIN);
}

static void join(struct tenant *t, const struct wire_hello *hello, uint32_t id)
{
	struct msg m = {.type = MSG_LANE, .lane.hello = *hello};
	struct worker *w, *found = NULL;

	list_for_each (w, &t->workers, tenant_link) {
		if (same_token(w->token, hello->token))
			found = w;
	}
	if (!found) {
		if (log_limit_ok(&t->log_limit, 2))
			log_warning("tenant %s: a lane for no session of its own",
				    t->name);
		listener_refuse(t, id, -EACCES);
		return;
	}
	if (!may_have_lane(found) || account_wmem_lane(found) < 0)
		listener_refuse(t, id, -ENOSPC);
	else
		pass_lane(found, id, &m);
}

static void come(struct tenant *t, const struct wire_hello *hello, uint32_t id)
{
	if (hello->lane)
		join(t, hello, id);
	else
		queue(t, hello, id);
}

static void gone(struct tenant *t, uint32_t id)
{
	struct guest_wait *g, *tmp;

	list_for_each_safe (g, tmp, &t->waiting, link) {
		if (g->id == id)
			wait_free(t, g);
	}
}

static void drop(struct tenant *t)
{
	while (t->n_waiting)
		wait_free(t, first(t));
}

const struct listener_guests guests_of_listeners = {
	.come = come,
	.gone = gone,
	.drop = drop,
};

void guests_refuse(struct tenant *t, int error)
{
	while (t->n_waiting) {
		refuse(t, first(t)->id, &first(t)->hello, error);
		wait_free(t, first(t));
	}
}

/* In order of arrival, so the first of each tenant is the next. */
uint64_t guests_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	uint64_t next = UINT64_MAX;
	struct tenant *t, *tmp;

	list_for_each_safe (t, tmp, &b->queue, queue_link) {
		while (t->n_waiting && now_ns >= first(t)->deadline_ns) {
			refuse(t, first(t)->id, &first(t)->hello, -ETIMEDOUT);
			wait_free(t, first(t));
		}
		if (!t->n_waiting)
			continue;
		next = MIN(next, first(t)->deadline_ns);
		if (now_ns < t->asked_until_ns)
			next = MIN(next, t->asked_until_ns);
	}
	return next;
}
