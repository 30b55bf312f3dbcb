/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of modules. A real driver puts them where it likes, outside the band, so the
 * addresses that the program has asked for are remembered: copies with unified addresses
 * have to know that they are device memory.
 */
#ifndef WEFT_GUEST_GLOBAL_H
#define WEFT_GUEST_GLOBAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Count of ranges known; 0 with the software device. Read without a lock. */
extern _Atomic unsigned global_count;

/* True if addr lies in a variable that was asked for. Any thread; takes a lock. */
bool global_covers(uint64_t addr);

/*
 * Remembers a variable of size bytes at addr, unless it lies in the band; any thread.
 * Without memory it is not remembered, and unified copies take it for host memory.
 */
void global_remember(uint64_t addr, uint64_t size);

#endif
