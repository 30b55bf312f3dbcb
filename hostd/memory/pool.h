/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in stream order (cuMemAllocAsync, cuMemFreeAsync) and memory pools. Memory is
 * there as soon as it is allocated; freed in a stream, it goes back to the session when
 * the stream gets there, so a pool holds no more than what is in use.
 *
 * Pool 0 is the device's default pool. Thread-safe.
 */
#ifndef WEFT_MEM_POOL_H
#define WEFT_MEM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct dev_ctx;
struct dev_stream;
struct pool;
struct pools;
struct session;

int pools_new(struct session *s, struct pools **ret_p);
/* The streams are gone. Accepts NULL. */
void pools_free_all(struct pools *p);

struct pool *pools_default(struct pools *p);

/* A pool of the guest's; max_bytes 0: no limit. NULL: out of memory. */
struct pool *pool_new(struct pools *p, uint64_t handle, uint64_t max_bytes);
/* Allocations keep it until they are freed. */
void pool_put(struct pools *p, struct pool *pool);

CUresult pool_alloc(struct pools *p, struct pool *pool, uint64_t bytes,
		    CUdeviceptr *ret_addr);

/* Frees when the stream gets there. CUDA_ERROR_INVALID_VALUE: not from a pool, or freed
 * before. */
CUresult pools_free_async(struct pools *p, struct dev_ctx *ctx, struct dev_stream *st,
			  CUdeviceptr addr);

/* Frees now, if addr is from a pool: then true and *ret_result. The caller has
 * synchronised. */
bool pools_free(struct pools *p, CUdeviceptr addr, CUresult *ret_result);

/* The handle of the pool that addr was allocated from; 0: none or the default pool. */
uint64_t pools_handle_of(struct pools *p, CUdeviceptr addr);

CUresult pool_set(struct pools *p, struct pool *pool, CUmemPool_attribute attr,
		  uint64_t value);
CUresult pool_get(struct pools *p, struct pool *pool, CUmemPool_attribute attr,
		  uint64_t *ret_value);

#endif
