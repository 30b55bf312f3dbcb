/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that wait for a worker: a queue for each tenant. */
#ifndef WEFT_BROKER_GUESTS_H
#define WEFT_BROKER_GUESTS_H

#include <stdint.h>

struct broker;
struct listener_guests;
struct tenant;

/* Receives what listeners say of guests. */
extern const struct listener_guests guests_of_listeners;

/* Refuses all guests of a tenant that wait, with error (-errno). */
void guests_refuse(struct tenant *t, int error);
/* Brings guests that wait and workers that are ready together. */
void guests_match(struct broker *b);
/* Timer (loop.h): refuses guests that waited for too long. */
uint64_t guests_tick(void *broker, uint64_t now_ns);

#endif
