/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaim: which session is evicted when the device is full, and which gets memory back.
 */
#ifndef WEFT_BROKER_RECLAIM_H
#define WEFT_BROKER_RECLAIM_H

#include <stdint.h>

struct broker;
struct msg_moved;
struct worker;

/* The worker says what has left, and then that nothing more will; id is that of the
 * RECLAIM. 0 or -EPROTO: nobody asked. */
int reclaim_left(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns);
int reclaim_ended(struct worker *w, uint32_t id, const struct msg_moved *m,
		  uint64_t now_ns);
/* The worker could move now (result 0), or its work still has not ended. */
int reclaim_quiesced(struct worker *w, int result, uint64_t now_ns);
/* The worker says what came back; id is that of the grant. 0 or -EPROTO. */
int reclaim_returned(struct worker *w, uint32_t id, const struct msg_moved *m,
		     uint64_t now_ns);
/* The worker has ended. */
void reclaim_end(struct worker *w);
/* The worker is on its way out: what it was asked to move is not waited for. */
void reclaim_ending(struct worker *w, uint64_t now_ns);
/* Timer (loop.h): answers waiters, asks sessions to be evicted. UINT64_MAX: call again
 * when something has changed. */
uint64_t reclaim_tick(void *broker, uint64_t now_ns);

#endif
