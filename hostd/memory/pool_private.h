/* SPDX-License-Identifier: Apache-2.0 */
/* Private to memory/: the tables behind pool.h. */
#ifndef WEFT_MEM_POOL_PRIVATE_H
#define WEFT_MEM_POOL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/pool.h"
#include "memory/pool_queue.h"
#include "memory/space.h"
#include "session/session.h"

#define POOL_BUCKETS 4096u
/* Pools grow in such steps, as NVIDIA's driver does, while there is room for that. */
#define POOL_STEP (32ull << 20)

/* What a guest can make a worker keep. */
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
	uint64_t threshold;
	bool reuse[3]; /* FOLLOW_EVENT_DEPENDENCIES, OPPORTUNISTIC, INTERNAL */
	struct list arenas, queues;
	struct bins free;
};

struct pools {
	struct session *s;
	pthread_mutex_t lock; /* may be held while the device and the space are called */
	struct list all;
	unsigned n_pools, n_queues; /* of all of them */
	uint64_t n_blocks;
	struct pool *standard;
	uint64_t next_id;
	_Atomic bool excess; /* some pool may have more than it is to keep */
	struct list buckets[POOL_BUCKETS];
};

#endif
