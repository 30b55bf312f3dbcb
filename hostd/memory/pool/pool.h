/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in stream order (cuMemAllocAsync, cuMemFreeAsync) and memory pools.
 *
 * Theory of operation. A pool takes memory from the session in arenas of 32 MiB or more
 * and divides them into blocks (block.h). Memory freed in a stream is at once at the
 * disposal of that stream and, once the stream has got there, of all (queue.h). An
 * allocation takes, in this order: what its own stream has freed; what is free; what
 * another stream had freed before an event for which its own waits (if CUDA's reuse along
 * event dependencies is on); what another stream has finished with (if CUDA's
 * opportunistic reuse is on); a new arena; what another stream has yet to finish with,
 * after making its own wait for that (if internal dependencies are on); and, when all
 * else fails, it waits for its pool's streams. Nothing of the frequent path calls the
 * device.
 *
 * Arenas nobody uses go back to the session when somebody synchronises, down to the
 * pool's release threshold, and, all of them, before an allocation of whatever kind fails
 * and before memory of the session moves out.
 *
 * Pool 0 is the device's default pool. Thread-safe. Lock order: pools.lock, space.lock.
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
struct mem_env;
struct space;
struct space_range;

/* Answer of pools_handle_of() for the default pool's memory; no handle looks like it. */
#define POOL_DEFAULT_MEMORY 1u

/* env and space stay as long as the pools do. Returns 0 or -ENOMEM. */
int pools_new(const struct mem_env *env, struct space *space, struct pools **ret_p);
/* The streams and contexts are gone; the space is not. Accepts NULL. */
void pools_free_all(struct pools *p);

struct pool *pools_default(struct pools *p);
/* For what nodes of graphs allocate; grows by what is asked for, and keeps nothing. */
struct pool *pools_graphs(struct pools *p);

/* A pool of the guest's; max_bytes 0: no limit. NULL: out of memory. */
struct pool *pool_new(struct pools *p, uint64_t handle, uint64_t max_bytes);
/* Allocations keep it until they are freed. */
void pool_destroy(struct pools *p, struct pool *pool);

/* Memory for use in stream order; ctx NULL: by anybody. May wait for the device, but only
 * before it fails. */
CUresult pool_alloc(struct pools *p, struct pool *pool, struct dev_ctx *ctx,
		    struct dev_stream *st, uint64_t bytes, CUdeviceptr *ret_addr);

/* Frees in stream order. CUDA_ERROR_INVALID_VALUE: not from a pool, or freed before. */
CUresult pools_free_async(struct pools *p, struct dev_ctx *ctx, struct dev_stream *st,
			  CUdeviceptr addr);

/* Frees now. False: addr is not from a pool. The caller has synchronised. */
bool pools_free(struct pools *p, CUdeviceptr addr);

/* True if pools_free(addr) would free something. */
bool pools_have(struct pools *p, CUdeviceptr addr);

/*
 * As space_find(), but looks into pools: the allocation that covers addr, and (ret_pool)
 * the handle of its pool, POOL_DEFAULT_MEMORY, or 0 if it is from none.
 */
CUresult pools_find(struct pools *p, CUdeviceptr addr, struct space_range *ret_range,
		    uint64_t *ret_pool);

/* After something was synchronised: gives back what is over the thresholds. */
void pools_synced(struct pools *p);

/* Gives back whatever no stream uses. True if there was something. */
bool pools_reclaim(struct pools *p);

/* Gives back what nobody uses, but keeps that many bytes, used ones included. */
void pool_trim(struct pools *p, struct pool *pool, uint64_t keep);

/*
 * Tell what streams wait for, so that memory can follow (CUDA's reuse along event
 * dependencies): pools_moment() returns the moment for an event that is recorded,
 * pools_waited() notes that `who` waits for an event recorded in `whom` at that moment.
 * Called after the device has done it.
 */
uint64_t pools_moment(const struct pools *p);
void pools_waited(struct pools *p, const struct dev_stream *who,
		  const struct dev_stream *whom, uint64_t moment);

/* A stream is about to be destroyed. */
void pools_stream_gone(struct pools *p, struct dev_ctx *ctx, struct dev_stream *st);
/* A context's work is done, its streams are gone, and it is about to be destroyed. */
void pools_ctx_gone(struct pools *p, struct dev_ctx *ctx);

CUresult pool_set(struct pools *p, struct pool *pool, CUmemPool_attribute attr,
		  uint64_t value);
CUresult pool_get(struct pools *p, struct pool *pool, CUmemPool_attribute attr,
		  uint64_t *ret_value);

#endif
