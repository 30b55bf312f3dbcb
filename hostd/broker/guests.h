/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that wait for a worker: a queue for each tenant. */
#ifndef WEFT_BROKER_GUESTS_H
#define WEFT_BROKER_GUESTS_H

#include <stdint.h>

struct broker;
struct tenant;
struct wire_hello;

/* A guest has said hello; id is its door's number for it. */
void guests_come(struct tenant *t, const struct wire_hello *hello, uint32_t id);
/* It has gone, if it is still waiting. */
void guests_gone(struct tenant *t, uint32_t id);
/* Forgets all of a tenant's: the door has gone, and they with it. */
void guests_drop(struct tenant *t);
/* Refuses all of a tenant's. */
void guests_refuse(struct tenant *t, int error);
/* Brings guests that wait and workers that are ready together. */
void guests_match(struct broker *b);
/* So many could be served if there were workers. */
unsigned guests_lacking(const struct broker *b);
/* Refuses who waited too long. Returns when to be called again, or UINT64_MAX. */
uint64_t guests_tick(void *broker, uint64_t now_ns);

#endif
