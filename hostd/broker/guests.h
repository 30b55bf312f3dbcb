/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that wait for a worker: a queue for each tenant. */
#ifndef WEFT_BROKER_GUESTS_H
#define WEFT_BROKER_GUESTS_H

#include <stdint.h>

struct broker;
struct door_guests;
struct tenant;

extern const struct door_guests guests_of_doors;

/* Refuses all of a tenant's. */
void guests_refuse(struct tenant *t, int error);
/* Brings guests that wait and workers that are ready together. */
void guests_match(struct broker *b);
/* Refuses who waited too long. Returns when to be called again, or UINT64_MAX. */
uint64_t guests_tick(void *broker, uint64_t now_ns);

#endif
