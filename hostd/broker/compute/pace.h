/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pace: how fast sessions may go on. While a tenant with a cap (policies/cap.h) computes, it
 * is looked once a millisecond which sessions have work; the device's time since the last
 * look is divided among these as their slices are, and charged. A tenant that has had its
 * quota is held until it has another: its sessions submit nothing. They know until when, so
 * that nobody is held for ever if weftd is gone. weftd's thread only.
 */
#ifndef WEFT_BROKER_PACE_H
#define WEFT_BROKER_PACE_H

#include <stdint.h>

#include "ipc/msg.h"
#include "policies/cap.h"

struct broker;
struct tenant;

/* Of a tenant. */
struct pace_tenant {
	struct cap_state cap;
	uint64_t held_until_ns;   /* 0: it is not held */
	uint64_t n_held, held_ns; /* how often, how long it was */
};

/* Sessions have come, caps have changed, somebody computes: in the next round it is seen
 * who is to be told what. */
void pace_due(struct broker *b);
/* The cap of a tenant has changed: what it has had counts no more. */
void pace_changed(struct tenant *t);
/* Timer (loop.h). */
uint64_t pace_tick(void *broker, uint64_t now_ns);

#endif
