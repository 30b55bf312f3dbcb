/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of workers that serve a session; ipc/msg.h says what there is. */
#ifndef WEFT_BROKER_WORKER_MSG_H
#define WEFT_BROKER_WORKER_MSG_H

struct msg;
struct worker;

/* A worker that is ready, or serves a session, has said something; fd (may be -1) is
 * taken over if it is set to -1. A negative return ends the worker. */
int worker_said(struct worker *w, const struct msg *m, int *fd);

#endif
