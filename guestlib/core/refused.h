/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what the program was refused, for the operator. Costs nothing while nothing is
 * refused. The host is told of the first time and then whenever a count has doubled, so
 * what it shows is at least half of the truth, and a program that asks for ever sends
 * a few dozen messages.
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

/* Counts; true if the host is to be told of something. Any thread. */
bool refused_count(struct refused_list *l, enum refusal kind, const char *what);

/*
 * One that the host is to be told of, which counts as told; false if there is none. what
 * has REFUSAL_TEXT bytes, padded with NULs; *ret_first: it was never told of before.
 */
bool refused_next(struct refused_list *l, enum refusal *ret_kind, char *ret_what,
		  uint64_t *ret_count, bool *ret_first);

#endif
