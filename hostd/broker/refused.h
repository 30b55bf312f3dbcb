/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals: what guests asked for and did not get, for operators. */
#ifndef WEFT_BROKER_REFUSED_H
#define WEFT_BROKER_REFUSED_H

#include <stdint.h>

#include "refusal.h"

struct json_object;
struct worker_page;

/* A copy of one: the pages of a worker are not trusted. */
struct refused {
	enum refusal kind;
	char what[REFUSAL_TEXT]; /* printable, terminated */
	uint64_t count;
};

struct refused_list {
	unsigned n;
	uint64_t others; /* that had no room */
	struct refused *of;
};

/* "function", ... */
const char *refused_kind(enum refusal kind);

/* Guests that are too old to have a session. */
struct strangers {
	uint32_t version; /* of the protocol, the last one's */
	uint64_t n;
};

/* Adds guests that were too old; nothing if there were none. */
void refused_add_strangers(struct refused_list *sum, const struct strangers *s);

/* Copies and checks what is in a worker's page; *ret is overwritten. 0 or -ENOMEM. */
int refused_read(const struct worker_page *c, struct refused_list *ret);
/* Adds up what several sessions were refused; what has no room is counted as others. */
void refused_add(struct refused_list *sum, const struct refused_list *l);
void refused_fini(struct refused_list *l);
/* {"kind", "what", "count"}, the most frequent first. Sorts. */
struct json_object *refused_describe(struct refused_list *l);

#endif
