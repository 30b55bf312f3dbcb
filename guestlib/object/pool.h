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

static inline CUmemoryPool pool_public(uint64_t h)
{
	return (CUmemoryPool)(uintptr_t)h;
}

/* A new handle of a pool; what: constant, stays the caller's. 0: no handle left. */
uint64_t pool_handle_new(const struct guest_pool *what);

/* The default pool's handle; made first, so that its number is none of the worker's
 * pools. */
uint64_t pool_default(void);

/* The handle of a pool that the worker named; NULL if there is no such pool any more. */
CUmemoryPool pool_from_wire(uint64_t wire);

/* The number of a pool with memory here, as it travels, into *ret_wire; INVALID_VALUE. */
CUresult pool_to_wire(CUmemoryPool pool, uint64_t *ret_wire);

/* The number, as it travels, of the pool that cuMemAllocAsync() takes from. Any thread. */
uint64_t pool_current(void);

/* cuMemAllocAsync() takes from that pool, as it travels, from now on. Any thread. */
void pool_set_current(uint64_t wire);

/* The pool has ended: if it was the current one, the default one is. */
void pool_gone(uint64_t wire);

/* Whether the device has pools: NOT_SUPPORTED if not, or what the gate says. */
CUresult pool_supported(void);

/* Allocated in stream order, and freed: true if it was known. Any thread. */
void pool_live_add(uint64_t ptr);
bool pool_live_take(uint64_t ptr);

/* ---- pool_share.c ---- */

extern _Atomic unsigned pool_imports;

/* Opens memory of another process's pool, named as the worker exported it, in the current
 * context. Waits for the worker. */
CUresult pool_import(struct guest_thread *t, const uint64_t name[2], uint64_t offset,
		     uint64_t bytes, CUdeviceptr *ret_ptr);

/* False: it is not memory that was imported. Else it is closed, *ret says how that went.
 */
bool pool_import_take(struct guest_thread *t, CUdeviceptr ptr, CUresult *ret);

#endif
