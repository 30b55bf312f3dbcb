/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for memory; for hold.c and reclaim.c, which says who gives way. */
#ifndef WEFT_BROKER_HOLD_H
#define WEFT_BROKER_HOLD_H

#include "broker/broker.h"

enum hold_kind {
	HOLD_CHARGE,
	HOLD_NEED,
	HOLD_HOME,
	HOLD_HAND,
};

struct hold {
	struct list link; /* b->holds */
	enum hold_kind kind;
	struct tenant *t;
	struct worker *w; /* NULL: HOLD_HAND */
	uint32_t id;
	uint64_t bytes;
	bool part;     /* some of them may be in host memory */
	uint64_t made; /* moved out for it */
	uint64_t deadline_ns;
	uint64_t nothing_ns; /* there is nothing to move: until then it may be late */
	void (*done)(void *arg, uint64_t bytes);
	void *arg;
};

/* Answers whom it can. */
void hold_serve(struct broker *b, uint64_t now_ns);
/* Answers who has waited for too long. */
void hold_expire(struct broker *b, uint64_t now_ns);
/* It will not get more: a charge gets the rest in host memory, or is refused; others get
 * what there is. */
void hold_fail(struct hold *h, int result);
/* Nobody is there any more to be answered. */
void hold_drop(struct worker *w);

#endif
