/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/memory/swap.h"
#include "broker/operator/events.h"
#include "broker/reply.h"
#include "broker/tenant.h"

#define LINE_MAX_BYTES 2048u /* of an event; names and sentences are bounded */
#define SCAN_NS        NSEC_PER_SEC

struct events {
	uint64_t last;
	uint64_t before; /* the last one of the weftd before this, which are not kept */
	uint64_t scan_at_ns; /* when counters are looked at; 0: nothing has happened */
	struct event ring[EVENTS_MAX];
};

static struct events *events_of(struct broker *b)
{
	if (b->events)
		return b->events;
	b->events = calloc(1, sizeof(*b->events));
	if (b->events && books_head())
		b->events->last = b->events->before = books_head()->last_event;
	return b->events;
}

/* Now, in UTC, as RFC 3339 has it. */
static void add_time(struct json_object *o)
{
	char date[32], text[64];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%06uZ", date,
		 (unsigned)(now.tv_nsec / 1000) % 1000000);
	reply_str(o, "at", text);
}

struct json_object *event_new(struct broker *b, const char *type, const struct tenant *t,
			      uint64_t session)
{
	struct json_object *o = json_object_new_object();

	reply_u64(o, "number", (events_of(b) ? events_last(b) : 0) + 1);
	add_time(o);
	reply_str(o, "event", type);
	if (t)
		reply_str(o, "tenant", t->name);
	if (session)
		reply_u64(o, "session", session);
	return o;
}

struct json_object *event_of_guest(struct tenant *t, const char *type, uint64_t session)
{
	struct event_limit *l = &t->event_limit;
	uint64_t now = clock_now_ns();
	struct json_object *o;

	if (now - l->since_ns >= NSEC_PER_SEC) {
		l->since_ns = now;
		l->n = 0;
	}
	if (l->n >= EVENTS_OF_GUESTS) {
		l->left_out++;
		return NULL;
	}
	l->n++;
	o = event_new(t->b, type, t, session);
	if (l->left_out)
		reply_u64(o, "left_out", l->left_out);
	l->left_out = 0;
	return o;
}

/* Keeps the line; the oldest one goes. */
static void keep(struct events *ev, struct json_object *o, const char *line, size_t n)
{
	struct event *e = &ev->ring[(ev->last + 1) % EVENTS_MAX];
	struct json_object *tenant = NULL;
	char *text = malloc(n + 2);

	if (!text)
		return;
	memcpy(text, line, n);
	memcpy(text + n, "\n", 2);
	free(e->text);
	e->text = text;
	e->len = n + 1;
	json_object_object_get_ex(o, "tenant", &tenant);
	snprintf(e->tenant, sizeof(e->tenant), "%s",
		 tenant ? json_object_get_string(tenant) : "");
	ev->last++;
}

void event_post(struct broker *b, struct json_object *e)
{
	struct events *ev = e ? events_of(b) : NULL;
	const char *line;
	size_t n;

	if (!ev) {
		json_object_put(e);
		return;
	}
	line = json_object_to_json_string_length(
		e, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &n);
	if (line && n < LINE_MAX_BYTES)
		keep(ev, e, line, n);
	if (books_head())
		books_head()->last_event = ev->last;
	json_object_put(e);
}

uint64_t events_last(const struct broker *b)
{
	return b->events ? b->events->last : 0;
}

uint64_t events_first(const struct broker *b)
{
	uint64_t last = events_last(b), before = b->events ? b->events->before : 0;

	return MAX(last > EVENTS_MAX ? last - EVENTS_MAX + 1 : 1, before + 1);
}

const struct event *events_at(const struct broker *b, uint64_t number)
{
	return &b->events->ring[number % EVENTS_MAX];
}

/* ---- counters ---- */

static void post_count(struct tenant *t, const char *type, uint64_t is, uint64_t *told)
{
	struct json_object *e;

	if (is == *told)
		return;
	e = event_new(t->b, type, t, 0);
	reply_u64(e, "count", is - *told);
	reply_u64(e, "memory.current", t->granted);
	reply_u64(e, "memory.swap.current", swap_tenant(t));
	event_post(t->b, e);
	*told = is;
}

static void post_counts(struct tenant *t)
{
	post_count(t, "memory.low", t->events.low, &t->events_told.low);
	post_count(t, "memory.high", t->events.high, &t->events_told.high);
	post_count(t, "memory.max", t->events.max, &t->events_told.max);
	post_count(t, "memory.oom", t->events.oom, &t->events_told.oom);
	post_count(t, "memory.reclaim", t->events.reclaim, &t->events_told.reclaim);
	post_count(t, "memory.busy", t->events.busy, &t->events_told.busy);
}

/* Something has happened whenever this is called, so it looks once more, a second later;
 * after that weftd may sleep. */
uint64_t events_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct events *ev = events_of(b);
	struct tenant *t;

	if (!ev)
		return UINT64_MAX;
	if (!ev->scan_at_ns) {
		ev->scan_at_ns = now_ns + SCAN_NS;
		return ev->scan_at_ns;
	}
	if (now_ns < ev->scan_at_ns)
		return ev->scan_at_ns;
	list_for_each (t, &b->tenants, link)
		post_counts(t);
	ev->scan_at_ns = 0;
	return UINT64_MAX;
}

void events_fini(struct broker *b)
{
	for (unsigned i = 0; b->events && i < EVENTS_MAX; i++)
		free(b->events->ring[i].text);
	free(steal(b->events));
}
