/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pace: how much of the device's time sessions have, and how fast they may go on. While any
 * computes it is looked which ones have work, 20 times a second, or, if it is a tenant's with
 * a cap (policies/cap.h), once a millisecond; the device's time since the last look is charged
 * to these, as their devices tell, or else divided as their slices are; those that only copy
 * share it by themselves, since copies and kernels go on side by side. A tenant that has had
 * its quota is held until it has another: its sessions submit nothing. So is one that is not
 * to go by a policy with turns. They know until when, so that nobody is held for ever if weftd
 * is gone. weftd's thread only.
 */
#ifndef WEFT_BROKER_PACE_H
#define WEFT_BROKER_PACE_H

#include <stdint.h>

#include "ipc/msg.h"
#include "policies/cap.h"

struct broker;
struct tenant;

/* A tenant's part. */
struct pace_tenant {
	/* At the last look: sessions that compute, those of them with kernels on the device, of
	 * class isolated and of class shared, the slices of the former, those with only copies,
	 * and whether there was any work, on the device or before it. */
	uint32_t sessions, n_pending, n_shared, n_copying;
	uint64_t pending_us;
	bool works;
	struct cap_state cap;
	/* By turns (policies/time.h): whether it does not go, since when that has been so, and
	 * for how long it has had no work, when it was looked last. */
	bool stopped, is_next; /* is_next: it is to go when others have ended */
	uint64_t since_ns, idle_ns, seen_ns;
	uint32_t place; /* in line (policies/placement.h) */
	/* Bytes that sessions which compute have, of these in host memory, those and what is
	 * cold, and what of set cannot leave the device. */
	uint64_t set, out, all, fixed;
	uint64_t in_ns;              /* since when nothing is; 0: something is */
	uint64_t out_least, less_ns; /* and when that was less than before */
	uint64_t first_ns;           /* when it came to be first in the line */
	/* Looks in its turns, and the sum, over the last of them, of 1000 for each at which it had
	 * work on the device. */
	uint32_t n_seen, pending;
	uint64_t n_turns, waited_ns; /* turns that began; with work while others went */
	bool preempt; /* held, and what it has on the device is to be taken off */
	bool is_off;  /* has been: its cost is not charged again */
	bool late;    /* held, and what it has on the device goes on */
	uint64_t cap_since_ns;
	uint64_t held_until_ns; /* for its cap or its turn; 0: it is not */
	/* The device's time that it had since weftd began; and for how long its sessions had
	 * work and not the device, together. */
	uint64_t used_ns, stalled_ns;
	uint64_t n_held, held_ns; /* how often, how long it was held for its cap */
};

/* Once the configuration is read: a software GPU goes from one session to the next for
 * nothing. */
void pace_init(struct broker *b);
/* Sessions have come, caps have changed, somebody computes: in the next round it is seen
 * who is to be told what. */
void pace_due(struct broker *b);
/* The cap of a tenant has changed: what it has had counts no more. */
void pace_changed(struct tenant *t);
/* Timer (loop.h). */
uint64_t pace_tick(void *broker, uint64_t now_ns);

#endif
