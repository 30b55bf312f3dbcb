/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: the device's default one is 0 on the wire and a handle like others here.
 */
#ifndef WEFT_GUEST_POOL_H
#define WEFT_GUEST_POOL_H

#include <stdatomic.h>

#include "core/guest.h"

struct guest_pool {
	bool exportable; /* made with a handle type */
	bool imported;   /* another process's: only imported memory of it is here */
};

/* Finds a pool by its handle; NULL: no such pool. */
const struct guest_pool *pool_lookup(CUmemoryPool pool);

static inline CUmemoryPool pool_public(uint64_t h)
{
	return (CUmemoryPool)(uintptr_t)h;
}

/* Makes a handle for a pool. what: constant, stays the caller's. 0: no handle left. */
uint64_t pool_handle_new(const struct guest_pool *what);

/* Handle of the default pool; made first, so that its number is none of the worker's
 * pools. */
uint64_t pool_default(void);

/* Handle of a pool that the worker named; NULL if there is no such pool any more. */
CUmemoryPool pool_from_wire(uint64_t wire);

/* Translates a pool that has memory here to its number as it travels; INVALID_VALUE for
 * others. */
CUresult pool_to_wire(CUmemoryPool pool, uint64_t *ret_wire);

/* Number, as it travels, of the pool that cuMemAllocAsync() takes from. Any thread. */
uint64_t pool_current(void);

/* Has cuMemAllocAsync() take from that pool, as it travels, from now on. Any thread. */
void pool_set_current(uint64_t wire);

/* Notes the end of a pool: if it was the current one, the default one is that again. */
void pool_gone(uint64_t wire);

/* Checks that the device has pools: CUDA_SUCCESS, NOT_SUPPORTED, or the gate's error. */
CUresult pool_supported(void);

/* Note that memory was allocated in stream order, and that it is freed; pool_live_take()
 * is true if the allocation was known. Any thread. */
void pool_live_add(uint64_t ptr);
bool pool_live_take(uint64_t ptr);

/* ---- pool_share.c ---- */

/* Count of imported allocations that are open. */
extern _Atomic unsigned pool_imports;

/* Opens memory of another process's pool, named as the worker exported it, in the current
 * context. Waits for the worker. */
CUresult pool_import(struct guest_thread *t, const uint64_t name[2], uint64_t offset,
		     uint64_t bytes, CUdeviceptr *ret_ptr);

/* Closes memory that was imported, with its result in *ret. False: no such memory is
 * open, and the caller goes on. */
bool pool_import_take(struct guest_thread *t, CUdeviceptr ptr, CUresult *ret);

#endif
