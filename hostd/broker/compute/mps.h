/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of workers of class shared on a real GPU: to its MPS server a client that is killed with
 * work on the device is a fault of all. So weft-mps is asked to take that off first
 * (ipc/mps.h). weftd's thread only.
 */
#ifndef WEFT_BROKER_MPS_H
#define WEFT_BROKER_MPS_H

#include <stdint.h>

struct child;
struct worker;

/* Has a worker of class shared ended that way whenever it is killed. */
void mps_watch(struct worker *w);
/* Forgets a worker that has ended. */
void mps_forget(struct worker *w);
/* Timer (loop.h): kills those for which no answer comes. */
uint64_t mps_tick(void *broker, uint64_t now_ns);

#endif
