/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time slices: how long each session has the device at a stretch while others want it, by
 * the policy (policies/time.h). Decided anew when a session begins to compute or has
 * stopped, when weights or priorities change, and every few seconds while more than one
 * computes; a session that does not compute keeps the slice that it had. weftd's
 * thread only.
 */
#ifndef WEFT_BROKER_SLICES_H
#define WEFT_BROKER_SLICES_H

#include <stdint.h>

struct broker;

/* Something has changed: they are decided in the next round of the loop. */
void slices_due(struct broker *b);
/* Timer (loop.h): decides, and tells the sessions whose slice has changed. */
uint64_t slices_tick(void *broker, uint64_t now_ns);

#endif
