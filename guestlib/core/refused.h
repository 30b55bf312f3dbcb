/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of refusals, for the operator. They cost nothing while nothing is refused. The
 * host is told of the first refusal of a kind and then whenever its count has doubled: it
 * shows at least half of the truth, and a program that asks for ever sends a few dozen
 * messages.
 */
#ifndef WEFT_GUEST_REFUSED_H
#define WEFT_GUEST_REFUSED_H

#include <pthread.h>
#include <stdbool.h>

#include "refusal.h"

struct refused_list {
	pthread_mutex_t lock;
	unsigned n;
	struct {
		enum refusal kind;
		char what[REFUSAL_TEXT];
		uint64_t count, told;
	} of[REFUSAL_MAX];
};

/* Counts a refusal of `what`, a text as for guest_refuse_note(); true if the host is to
 * be told of something. Any thread. */
bool refused_count(struct refused_list *l, enum refusal kind, const char *what);

/*
 * Takes an entry that the host is to be told of, and counts it as told; false if there is
 * none. ret_what has REFUSAL_TEXT bytes, padded with NULs; *ret_first: the host has not
 * been told of it before.
 */
bool refused_next(struct refused_list *l, enum refusal *ret_kind, char *ret_what,
		  uint64_t *ret_count, bool *ret_first);

#endif
