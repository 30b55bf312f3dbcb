/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: the device's default one is 0 on the wire and a handle like others here.
 */
#ifndef WEFT_GUEST_POOL_H
#define WEFT_GUEST_POOL_H

#include <stdatomic.h>

#include "core/guest.h"

struct guest_pool {
	bool exportable; /* made with a handle type */
	bool imported; /* another process's: it has no memory here but what is imported */
};

/* NULL: no such pool. */
const struct guest_pool *pool_lookup(CUmemoryPool pool);

/* The handle of a pool that the worker named; NULL if there is no such pool any more. */
CUmemoryPool pool_from_wire(uint64_t wire);

/* The number of a pool with memory here, as it travels, into *ret_wire; INVALID_VALUE. */
CUresult pool_to_wire(CUmemoryPool pool, uint64_t *ret_wire);

/* The number, as it travels, of the pool that cuMemAllocAsync() takes from. Any thread. */
uint64_t pool_current(void);

/* Whether the device has pools: NOT_SUPPORTED if not, or what the gate says. */
CUresult pool_supported(void);

/* Allocated in stream order, and freed: true if it was known. Any thread. */
void pool_live_add(uint64_t ptr);
bool pool_live_take(uint64_t ptr);

/* ---- pool_share.c ---- */

extern _Atomic unsigned pool_imports;

/* False: it is not memory that was imported. Else it is closed, *ret says how that went.
 */
bool pool_import_take(struct guest_thread *t, CUdeviceptr ptr, CUresult *ret);

#endif
