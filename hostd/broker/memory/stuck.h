/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions whose work does not end, so that their memory cannot move. */
#ifndef WEFT_BROKER_STUCK_H
#define WEFT_BROKER_STUCK_H

#include <stdint.h>

struct broker;
struct worker;

/* Notes that a worker that was asked for memory did not get quiet. */
void stuck_busy(struct worker *w, uint64_t now_ns);
/* Notes that a worker has been evicted, or got quiet, or is about to end. */
void stuck_end(struct worker *w);
/* Ends a worker that keeps others below memory.min for too long. */
void stuck_tick(struct broker *b, uint64_t now_ns);

#endif
