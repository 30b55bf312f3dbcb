/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: physical memory in pieces, and where each piece is.
 *
 * A chunk is what one allocation, or one handle of the guest's, has behind it. It is one
 * piece, an extent, as long as it never had to be evicted: costs are per handle, whatever
 * its size. An extent leaves whole and comes to lie in host memory in pieces of
 * space.piece_bytes, of which each may return by itself, or a run of them as one.
 * Mapping a chunk is mapping its pieces one behind the other, but for those that are
 * swapped.
 *
 *	state		memory			may become
 *	FREE		none			RESIDENT, MAPPED (grant.h)
 *	RESIDENT	device			LEAVING, FREE
 *	LEAVING		device, being read	MAPPED, SWAPPED, RESIDENT (it failed)
 *	MAPPED		host, same address	RETURNING, FREE
 *	SWAPPED		host, not mapped	RETURNING, MAPPED, FREE
 *	RETURNING	device, being filled	RESIDENT, MAPPED, SWAPPED (it failed)
 *
 * LEAVING and RETURNING pieces, and the mappings of their chunk, are the mover's, who
 * does not hold the lock: everybody else calls chunk_wait_locked() first.
 */
#ifndef WEFT_MEM_CHUNK_H
#define WEFT_MEM_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/device.h"
#include "memory/move.h"

struct host_chunk;
struct space;

enum piece_state {
	PIECE_FREE,
	PIECE_RESIDENT,
	PIECE_LEAVING,
	PIECE_MAPPED,
	PIECE_SWAPPED,
	PIECE_RETURNING,
	PIECE_NUM_STATES
};

struct piece {
	uint64_t offset, size;   /* in the chunk */
	struct dev_chunk *dev;   /* NULL if it is evicted */
	struct host_chunk *host; /* while it is evicted; hostpool.h */
	enum piece_state state;
};

enum chunk_share {
	CHUNK_OWN,
	CHUNK_EXPORTED,
	CHUNK_IMPORTED, /* charged to nobody here */
};

struct space_chunk {
	unsigned refs;    /* sp->lock */
	struct list idle; /* of sp->idle */
	uint64_t idle_since_ns;
	struct list link;     /* of sp->chunks: those that the guest made itself */
	struct list in_space; /* of sp->all */
	uint64_t size, handle, id;
	bool in_host_memory;
	bool compressible; /* what is on the device of it */
	bool charged;
	unsigned kept; /* becomes resident, to be shared: nothing of it may leave */
	enum chunk_share share;
	uint8_t name[16]; /* of one that is shared, at the broker */

	struct list mappings; /* struct mapping */
	unsigned n_mappings;

	struct piece *piece; /* n_pieces, by offset; &one until there are more */
	struct piece one;
	unsigned n_pieces, room;
	uint64_t bytes[PIECE_NUM_STATES]; /* in pieces of each state */
	struct space_residency counted;   /* its part of sp->residency */

	/* The mover's: transfers under way, and pieces that they may need room for. */
	unsigned moving, moving_pieces;
	/* Somebody waits: not to be touched by runs up to this one (sp->runs). */
	uint64_t wanted;
};

void piece_set_state(struct space_chunk *c, struct piece *p, enum piece_state to);

/* A chunk with room for n pieces, none of them there yet. NULL: out of memory. */
struct space_chunk *chunk_blank(uint64_t size, unsigned n);
/* A chunk in pieces of at most extent bytes, without memory yet. NULL: out of memory. */
struct space_chunk *chunk_alloc(uint64_t size, uint64_t extent);
/* Gives the memory back, wherever it is, and frees c, which nobody else knows. */
void chunk_release(struct space *sp, struct space_chunk *c);

/* Lets go of a reference to c; the last one gives its charge back. In chunk_end.c. Accepts
 * NULL. */
void chunk_put_locked(struct space *sp, struct space_chunk *c);

/* Frees a chunk that is one piece and nobody knows, but not its memory, which it returns.
 */
struct dev_chunk *chunk_strip(struct space_chunk *c);

/* The memory of a chunk that is one piece and resident, or NULL. */
struct dev_chunk *chunk_whole(const struct space_chunk *c);

/* Returns what c's pieces on the device are made of, or all of c if in_host_memory. */
enum dev_memory chunk_memory(const struct space_chunk *c);

/* True if it is all there, plain, in as few pieces as a new one would be. */
bool chunk_as_new(const struct space *sp, const struct space_chunk *c);

/* Waits until nothing of c moves. True if it had to: all may have changed, c be gone. */
bool chunk_wait_locked(struct space *sp, struct space_chunk *c);

/* True if pieces of it that are on the device may leave it. */
bool chunk_movable(const struct space_chunk *c);
/* After anything that space_residency() tells of may have changed. */
void chunk_count_locked(struct space *sp, struct space_chunk *c);
/* After c has lost one of its mappings. */
void chunk_unmapped_locked(struct space *sp, struct space_chunk *c);
/* Bytes in host memory. */
uint64_t chunk_evicted(const struct space_chunk *c);

/* Map all there is of c at an address, without access; unmap; open or close. */
CUresult chunk_map(struct space *sp, const struct space_chunk *c, CUdeviceptr addr);
CUresult chunk_unmap(struct space *sp, const struct space_chunk *c, CUdeviceptr addr);
CUresult chunk_set_access(struct space *sp, const struct space_chunk *c, CUdeviceptr addr,
			  CUmemAccess_flags access);

#endif
