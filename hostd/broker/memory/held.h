/* SPDX-License-Identifier: Apache-2.0 */
/* What worker processes really have of the device, beside what the ledger says. */
#ifndef WEFT_BROKER_HELD_H
#define WEFT_BROKER_HELD_H

#include <stdint.h>

struct broker;
struct msg;
struct worker;

/* Looks in a row, a second apart (held.c). */
#define HELD_TIMES 5

/* Its process has so much of the device. */
void held_check(struct worker *w, uint64_t has);
/* A worker says what all have; fd stays the caller's. Returns 0 or -EPROTO: nobody
 * asked. */
int held_said(struct worker *w, const struct msg *m, int fd);
/* Returns when to be called again, or UINT64_MAX: when a session has begun. */
uint64_t held_tick(void *broker, uint64_t now_ns);

#endif
