/* SPDX-License-Identifier: Apache-2.0 */
/* Going on with the sessions that the weftd before this one has left. */
#ifndef WEFT_BROKER_RESUME_H
#define WEFT_BROKER_RESUME_H

#include <stdint.h>

struct broker;
struct msg;
struct worker;

/* Takes over the sessions that are in the books, once there are tenants. Returns how
 * many. */
unsigned resume_all(struct broker *b);
/* A worker that is asked what it has (w->resume_id) says this; *fd may be taken. Returns 0
 * or -EPROTO. */
int resume_said(struct worker *w, const struct msg *m, int *fd);
/* A worker that is asked has ended. */
void resume_end(struct worker *w);
/* Timer (loop.h): ends workers that do not answer. */
uint64_t resume_tick(void *broker, uint64_t now_ns);

#endif
