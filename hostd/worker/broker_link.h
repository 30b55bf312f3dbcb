/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's end of the pair to weftd: questions that wait for an answer (charges),
 * from any thread, over the socket that the main thread reads.
 */
#ifndef WEFT_WORKER_BROKER_LINK_H
#define WEFT_WORKER_BROKER_LINK_H

#include "ipc/msg.h"
#include "ipc/accounts.h"
#include "ipc/credit.h"

struct broker_link;

/* sock stays the caller's and is closed by nobody. Returns 0 or -ENOMEM. */
int broker_link_new(int sock, struct broker_link **ret_link);

/* Has charges of device memory go through the credit from now on. */
void broker_link_set_credit(struct broker_link *b, struct credit *credit);
/* Has charges of worker memory do so. */
void broker_link_set_wmem(struct broker_link *b, struct credit *credit);

/* Returns an id for a question that the caller sends, and whose answer it looks for,
 * itself. */
uint32_t broker_link_id(struct broker_link *b);

/* Returns functions for sess_new(). */
struct accounts broker_link_ops(struct broker_link *b);

/* Any thread: says what gives back, or moves, memory that weftd has granted. Returns 0 or
 * -errno. */
int broker_link_say(struct broker_link *b, const struct msg *m);
/* Any thread: notes a move that weftd wants. */
void broker_link_told(struct broker_link *b, const struct msg *m);
/* Any thread: answers RESUME, and asks again what was not answered. Returns 0 or -errno. */
int broker_link_resume(struct broker_link *b, uint32_t id, uint64_t session,
		       bool can_move);

/* Main thread: takes an answer, and over fd (or -1). Returns 0 or -EPROTO: nobody asked
 * that. */
int broker_link_answer(struct broker_link *b, const struct msg *m, int fd);

#endif
