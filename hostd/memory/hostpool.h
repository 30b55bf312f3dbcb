/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: host memory for pieces that are evicted. Making it costs ten times
 * what copying into it does, so some is kept ready: as much as hostpool_set() says, in
 * the sizes that what the session has would need. What comes back beyond that is kept for
 * a moment, as much as weftd lets it (ipc/page.h, host_keep_bytes), and its contents are told as
 * kept_bytes.
 *
 * Each backing stays mapped at an address of its own, at the far end of the band, so that
 * a copy needs no mapping. It may be mapped elsewhere besides.
 *
 * Thread-safe; space.lock may be held.
 */
#ifndef WEFT_MEM_HOSTPOOL_H
#define WEFT_MEM_HOSTPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "base/list.h"
#include "device/digest.h"

struct dev_mem;
struct hostpool;
struct mem_env;

struct host_piece {
	struct list link;
	struct dev_mem *dev;
	CUdeviceptr stage; /* readable and writable here as long as it exists */
	uint64_t size;
	bool shared; /* other sessions have it: it is given back after use */
	/* Contents, if they are known: what lay at that offset in a backing when it left, and
	 * what its digest was. They stay in the pool as long as nobody needs the memory. */
	bool known;
	uint64_t of, offset;
	struct digest digest;
};

/* Sizes are powers of two: as many as there can be. */
#define HOSTPOOL_CLASSES 64

/* Adds to bytes[] how many bytes of each size would be needed for all that can move.
 * Called on the pool's own thread, without its lock: space.lock may be taken. */
typedef void hostpool_wants_fn(void *arg, uint64_t bytes[HOSTPOOL_CLASSES]);

/* env stays as long as the pool does, and so does arg, which wants() gets. NULL: out of
 * memory. */
struct hostpool *hostpool_new(const struct mem_env *env, hostpool_wants_fn *wants,
			      void *arg);
/* All backings are in it. Accepts NULL. */
void hostpool_free(struct hostpool *p);

/* size is a power of two. NULL: no host memory. Not with space.lock: may take long. The contents
 * are not known. */
struct host_piece *hostpool_take(struct hostpool *p, uint64_t size);
/* As hostpool_take(), the one with what lay at offset in the backing `of`, if it is there, which is
 * known then. */
struct host_piece *hostpool_take_again(struct hostpool *p, uint64_t size, uint64_t of,
				       uint64_t offset);
void hostpool_put(struct hostpool *p, struct host_piece *h);

/* Makes what the pool lacks of so many bytes of each size; less if there is no more. Not
 * with space.lock. */
void hostpool_fill(struct hostpool *p, const uint64_t bytes[HOSTPOOL_CLASSES]);
void hostpool_set(struct hostpool *p, uint64_t bytes);
/* The session has more that may move: the pool may want to grow. */
void hostpool_kick(struct hostpool *p);
/* Nothing is made or given back in the background between these; they nest. */
void hostpool_hold(struct hostpool *p);
void hostpool_go_on(struct hostpool *p);

#endif
