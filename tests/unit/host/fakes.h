/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers as weftd's books and reclaim.c see them: they move what they are asked to, or
 * only some of it, or nothing, or lie. Beside them a model that only adds up what they
 * have been told.
 */
#ifndef WEFT_TEST_HOST_FAKES_H
#define WEFT_TEST_HOST_FAKES_H

#include "broker/broker.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "policies/placement.h"

#define MIB       (1ull << 20)
#define PIECE     (2 * MIB)
#define TENANTS   4
#define WORKERS   6
#define ASKED_MAX 16

/* A worker as it knows itself. */
struct mate {
	struct worker w;
	struct worker_page page;
	int sock;
	bool lies, dead;
	bool endless; /* its work does not end */
	uint64_t overhead, has, evicted, pinned, pool;
	struct {
		uint32_t id;
		uint64_t bytes;
		bool part, spare;
	} asked[ASKED_MAX];     /* charges that are not answered */
	uint32_t out_id, in_id; /* 0: not asked to move */
	struct msg_reclaim out;
	uint64_t in_bytes;
	uint32_t need; /* 0: none is under way */
	bool at_gate;  /* it will say whether it gets quiet */
	uint32_t next_id;
};

extern struct broker b;
extern struct tenant tenants[TENANTS];
extern struct mate fakes[WORKERS];
extern uint64_t now;
extern bool honest; /* everybody moves what is asked for */
extern unsigned manual_open;
extern unsigned in_part; /* charges that were granted partly evicted */

void open_sockets(void);
/* All anew, without workers. */
void reset(uint64_t device, uint64_t swap);
/* Sockets, honest workers without contexts, all with a session. */
void begin(uint64_t device, uint64_t swap);
void start(struct mate *m, struct tenant *t, uint64_t overhead);
void stop(struct mate *m);

void hear(struct mate *m);
void hear_all(void);
/* Moves for every mate that was asked to. Returns when there is more to do. */
uint64_t move_all(void);
/* Writes into its page what could move. */
void show(struct mate *m);
/* part: some of it may be evicted. */
void ask_for(struct mate *m, uint64_t bytes, bool part);
void ask(struct mate *m, uint64_t bytes);
/* As ask_for(), but others within their shares give nothing. */
void ask_spare(struct mate *m, uint64_t bytes);
/* Asks for `bytes` in pieces of a size that a program may ask for. */
void ask_in_pieces(struct mate *m, uint64_t bytes);
void give_up(struct mate *m, uint64_t bytes);
void need(struct mate *m);
/* Answer what they were asked. */
void move_out(struct mate *m);
void move_in(struct mate *m);
/* Says that its work has ended, or not. */
void become_idle(struct mate *m, int result);
/* For waiters_operator(). */
void moved_manually(void *arg, uint64_t bytes);

/* Lets so much time pass; who is asked to move does it at once. */
void pass(uint64_t ns);

void check_sums(void);
void check_truth(void);
void check(void);

#endif
