/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: the device's default one is 0 on the wire and a handle like others here.
 */
#ifndef WEFT_GUEST_POOL_H
#define WEFT_GUEST_POOL_H

#include "guest.h"

/* The handle of a pool that the worker named; NULL if there is no such pool any more. */
CUmemoryPool pool_from_wire(uint64_t wire);

/* Allocated in stream order, and freed: true if it was known. Any thread. */
void pool_live_add(uint64_t ptr);
bool pool_live_take(uint64_t ptr);

#endif
