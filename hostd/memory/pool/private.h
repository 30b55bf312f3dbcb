/* SPDX-License-Identifier: Apache-2.0 */
/* Private to memory/: the tables behind pool.h. */
#ifndef WEFT_MEM_POOL_PRIVATE_H
#define WEFT_MEM_POOL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/pool/pool.h"
#include "memory/pool/queue.h"
#include "memory/space.h"
#include "ipc/wmem.h"
#include "memory/env.h"

/* Pools grow in such steps, as NVIDIA's driver does, while there is room for that. */
#define POOL_STEP (32ull << 20)

/* Pools, queues and blocks that a guest can make a worker keep. */
#define POOLS_MAX  1024u
#define QUEUES_MAX (1u << 15)
#define BLOCKS_MAX (1u << 22)

struct pool {
	unsigned *n_queues; /* of pools */
	struct list link;   /* of pools.all */
	unsigned refs;      /* the handle's, and one per allocation */
	bool destroyed;
	uint64_t handle, max_bytes;
	uint64_t used, used_high, reserved, reserved_high; /* bytes */
	uint64_t growing; /* bytes that are being asked for, not yet reserved */
	uint64_t threshold;
	uint64_t step; /* arenas are multiples of it while there is room for that */
	bool reuse[3]; /* FOLLOW_EVENT_DEPENDENCIES, OPPORTUNISTIC, INTERNAL */
	struct list arenas, queues;
	struct list busy;    /* queues in which something waits */
	struct tree streams; /* queues by their stream */
	struct tree free;    /* blocks, by size */
};

/* A stream waits, since some time, for what another had been given to do until `at`. */
struct pool_wait {
	struct list link;
	const struct dev_stream *who, *whom;
	uint64_t at; /* pools.clock */
};
#define WAITS_MAX 256u

struct pools {
	const struct mem_env *env;
	struct space *space;
	/* May be held while the device and the space are called, but not while memory is
	 * asked for: grow() lets go of it. */
	pthread_mutex_t lock;
	struct list all;
	unsigned n_pools, n_queues; /* of all of them */
	uint64_t n_blocks;
	struct wmem_many many; /* of blocks */
	struct pool *standard, *graphs;
	uint64_t next_id;
	_Atomic uint64_t clock; /* frees in stream order so far */
	struct list waits;      /* struct pool_wait, the latest first */
	unsigned n_waits;
	_Atomic bool excess; /* some pool may have more than it is to keep */
	struct tree used;    /* blocks, by address */
};

/* All of these expect pools.lock. */

/* The pool may have more than it is to keep: the next synchronisation looks. */
void pool_note_excess(struct pools *p, const struct pool *pool);

/* Forgets the waits of or for a stream that ends, or (st NULL) all. */
void pool_forget_waits(struct pools *p, const struct dev_stream *st);

#endif
