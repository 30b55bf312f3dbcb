/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that workers make ahead, before anything has to move there. */
#ifndef WEFT_BROKER_PREALLOC_H
#define WEFT_BROKER_PREALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct broker;

/* Tells workers how much host memory to keep ready. Returns when to be called again. */
uint64_t prealloc_tick(void *broker, uint64_t now_ns);

/* Who is granted memory, or moves it, often goes on doing so: no host memory is made
 * ahead for so long after that. */
#define PREALLOC_PAUSE_NS (25 * NSEC_PER_MSEC)
/* No session makes any ahead until then. */
void prealloc_pause(struct broker *b, uint64_t until_ns);
/* Whoever was granted memory maps it now: until then no host memory is made for what
 * leaves, either. */
void prealloc_mapping(struct broker *b, uint64_t until_ns);
/* True if the device is so full that somebody may have to give way. */
bool prealloc_pressed(struct broker *b);

#endif
