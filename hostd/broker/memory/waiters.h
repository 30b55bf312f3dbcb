/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters: charges, returns and requests of operators that memory is not there for yet.
 * waiters.c says who is served in which order, reclaim.c who is evicted for them.
 */
#ifndef WEFT_BROKER_WAITERS_H
#define WEFT_BROKER_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/memory/snapshot.h"

struct broker;
struct tenant;
struct worker;

/* Makes a tenant's queues, which are empty. */
void waiters_init(struct tenant *t);

/* A session wants more: answers now, or when others have been evicted. part: what cannot
 * be had on the device may be in host memory. -errno: it cannot be answered, or asks for
 * too much at a time. */
int waiters_charge(struct worker *w, uint32_t id, uint64_t bytes, bool part,
		   uint64_t now_ns);
/* A session wants more, but nothing that others have within their shares: the rest is in host
 * memory, and so is all of it if only the tenant itself could give, and is busy. As
 * waiters_charge(). */
int waiters_charge_spare(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns);
/* A session wants back what is swapped; as waiters_charge(). */
int waiters_need(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns);
/* A session wants back, all together, what it is to share; as waiters_charge(). */
int waiters_make_resident(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns);
/* More of a session has left, which it then needs as well if it waits for what it has swapped. */
void waiters_left(struct worker *w, uint64_t bytes);
/* Moves bytes of a tenant's memory out; done(arg, moved) says when, within a call of
 * reclaim_tick(). 0 or -ENOMEM. */
int waiters_operator(struct tenant *t, uint64_t bytes, uint64_t now_ns,
		     void (*done)(void *arg, uint64_t bytes), void *arg);
/* Nobody waits any more for what waiters_operator() was given arg for. */
void waiters_forget(struct broker *b, const void *arg);
/* The tenant is removed: operators that wait are answered. */
void waiters_drop_tenant(struct tenant *t);

/* ---- for waiters.c and reclaim.c only ---- */

enum waiter_kind {
	WAIT_CHARGE,
	WAIT_SPARE, /* a charge for which nobody within its share gives */
	WAIT_NEED,
	WAIT_RESIDENT,
	WAIT_OPERATOR,
};

struct waiter {
	struct list link;      /* b->waiters, or behind others of its tenant */
	struct list of_worker; /* worker.waiters */
	enum waiter_kind kind;
	bool stands; /* in b->waiters */
	struct tenant *t;
	struct worker *w; /* NULL: WAIT_OPERATOR */
	uint32_t id;
	uint64_t bytes;
	bool part;     /* some of them may be in host memory */
	uint64_t made; /* moved out for it */
	uint64_t deadline_ns;
	uint64_t nothing_ns; /* there is nothing to move: until then it may be late */
	void (*done)(void *arg, uint64_t bytes);
	void *arg;
};

/* One look at all who stand: the snapshot is read once, and again after somebody was
 * served. */
struct pass {
	struct broker *b;
	uint64_t now_ns;
	bool known;
	uint64_t room; /* nobody's */
	struct snapshot now;
	struct worker *comes; /* the last one that got what it needs, in its turn */
};

/* Whether it wants swapped memory back whose tenant's turn is not now, or of which something is
 * coming already: nobody gives for it before others, and it is answered when there is room for all
 * of it. */
bool waiter_is_early(const struct waiter *wt);

/* Reads the pass's snapshot, if it is not known; with shares. Returns 0 or -ENOMEM. */
int pass_read(struct pass *p);

/* Answers all that can be answered. */
void waiters_serve(struct pass *p);
/* Answers those that have waited for too long, at most `most`; returns how many. */
unsigned waiters_expire(struct broker *b, uint64_t now_ns, unsigned most);
/* Ends a wait that gets no more: a charge gets the rest in host memory, or is refused
 * with result; others get what there is. */
void waiter_fail(struct waiter *wt, int result);
/* Lets those behind take the places of those who have been answered. Returns true if
 * there was one. */
bool waiters_move_up(struct broker *b);
/* Drops all waits of a worker, unanswered. */
void waiters_drop(struct worker *w);

#endif
