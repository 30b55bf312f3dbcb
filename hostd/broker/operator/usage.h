/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use by sessions, ever: of a tenant that is the sum over those that run, as their
 * pages say, and those that have ended. Nobody counts anything for it: it is all read when
 * somebody asks. GPU time is in gpu_time.h. weftd's thread only.
 */
#ifndef WEFT_BROKER_USAGE_H
#define WEFT_BROKER_USAGE_H

#include <stdint.h>

#include "refusal.h"

struct tenant;
struct worker;

struct usage {
	uint64_t sessions; /* begun */
	uint64_t calls;    /* with a reply */
	uint64_t posts;    /* without */
	uint64_t launches;
	uint64_t to_device, from_device; /* bytes copied */
	uint64_t moved_out, moved_in;    /* bytes evicted and made resident */
	/* Times, by kind; those of which only the number is known are refused_others. */
	uint64_t refused[REFUSAL_NUM], refused_others;
};

/* Reads what a session has used so far. */
void usage_session(const struct worker *w, struct usage *ret);
/* Sums up a tenant's sessions, ended ones included. */
void usage_tenant(const struct tenant *t, struct usage *ret);
/* Adds a session that ends to its tenant's, once. */
void usage_end(const struct worker *w);

#endif
