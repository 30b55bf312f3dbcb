/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that workers make ahead, before anything has to move there. */
#ifndef WEFT_BROKER_PREALLOC_H
#define WEFT_BROKER_PREALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct broker;

/* Timer (loop.h): tells workers how much host memory to keep ready. */
uint64_t prealloc_tick(void *broker, uint64_t now_ns);

/* Pause after a grant or a move, in which no host memory is made ahead: more of them
 * usually follow. */
#define PREALLOC_PAUSE_NS (25 * NSEC_PER_MSEC)
/* Stops all sessions making host memory ahead, until then. */
void prealloc_pause(struct broker *b, uint64_t until_ns);
/* Stops making host memory for what leaves, too, until a session has mapped what it was
 * just granted. */
void prealloc_mapping(struct broker *b, uint64_t until_ns);
/* True if the device is so full that somebody may have to be evicted. */
bool prealloc_pressed(struct broker *b);

#endif
