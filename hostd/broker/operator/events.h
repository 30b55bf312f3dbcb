/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: what happened to weftd, its tenants and their sessions, for operators. The last
 * EVENTS_MAX are kept, each a line of JSON with a number of its own, from 1 on; who reads
 * slowly misses some, and weftd keeps no more for that. weftd's thread only.
 */
#ifndef WEFT_BROKER_EVENTS_H
#define WEFT_BROKER_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "util/conf.h"

#define EVENTS_MAX 1024u

struct broker;
struct json_object;
struct tenant;

/* A line as it is sent, its end included. */
struct event {
	char tenant[CONF_NAME_MAX + 1]; /* empty: of none */
	char *text;
	size_t len;
};

/* Guests make a tenant's sessions come and go: so many events of these a second. */
#define EVENTS_OF_GUESTS 20u
struct event_limit {
	uint64_t since_ns;
	unsigned n, left_out;
};

/*
 * Begins an event of a type such as "session.ended", of a tenant (NULL: none) and of one of
 * its sessions (0: none). More members may be added; event_post() keeps it.
 */
struct json_object *event_new(struct broker *b, const char *type, const struct tenant *t,
			      uint64_t session);
/* Begins one that a guest can cause, or returns NULL if its tenant had enough; the next
 * one says how many were left out. */
struct json_object *event_of_guest(struct tenant *t, const char *type, uint64_t session);
/* Takes over an event, or NULL. */
void event_post(struct broker *b, struct json_object *e);

/* Numbers of the latest event (0: none yet) and of the first that is kept. */
uint64_t events_last(const struct broker *b);
uint64_t events_first(const struct broker *b);
/* Event of a number that is kept; good until the next event_post(). */
const struct event *events_at(const struct broker *b, uint64_t number);

/* Timer (loop.h): tells what the counters in memory.events say, once a second. */
uint64_t events_tick(void *broker, uint64_t now_ns);
void events_fini(struct broker *b);

#endif
