/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: physical memory in pieces, and where each piece is.
 *
 * A backing is what one allocation, or one handle of the guest's, has behind it. It is
 * one piece, an extent, as long as it never had to be evicted: costs are per handle,
 * whatever its size. An extent leaves whole and comes to lie in host memory in pieces of
 * space.piece_bytes, of which each may return by itself, or a run of them as one.
 * Mapping a backing is mapping its pieces one behind the other, but for those that are
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
 * LEAVING and RETURNING pieces, and the mappings of their backing, are the mover's, who
 * does not hold the lock: everybody else calls backing_wait_locked() first.
 */
#ifndef WEFT_MEM_BACKING_H
#define WEFT_MEM_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/device.h"
#include "memory/move.h"

struct host_piece;
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
	uint64_t offset, size;   /* in the backing */
	struct dev_mem *dev;     /* NULL if it is evicted */
	struct host_piece *host; /* while it is evicted; hostpool.h */
	enum piece_state state;
};

enum backing_share {
	BACKING_OWN,
	BACKING_EXPORTED,
	BACKING_IMPORTED, /* charged to nobody here */
};

struct backing {
	unsigned refs;    /* sp->lock */
	struct list idle; /* of sp->idle */
	uint64_t idle_since_ns;
	struct list link;     /* of sp->backings: those that the guest made itself */
	struct list in_space; /* of sp->all */
	uint64_t size, handle, id;
	bool in_host_memory;
	bool compressible; /* what is on the device of it */
	bool charged;
	unsigned kept; /* becomes resident, to be shared: nothing of it may leave */
	enum backing_share share;
	uint8_t name[16]; /* of one that is shared, at the broker */

	struct list mappings; /* struct mapping */
	unsigned n_mappings;

	struct piece *piece; /* n_pieces, by offset; &one until there are more */
	struct piece one;
	unsigned n_pieces, room;
	uint64_t bytes[PIECE_NUM_STATES]; /* in pieces of each state */
	struct space_residency counted;   /* its part of sp->residency */

	/* How often in a row all that was known of it had changed when it left. */
	unsigned changes;

	/* The mover's: transfers under way, and pieces that they may need room for. */
	unsigned moving, moving_pieces;
	/* Somebody waits: not to be touched by runs up to this one (sp->runs). */
	uint64_t wanted;
};

void piece_set_state(struct backing *c, struct piece *p, enum piece_state to);

/* A backing with room for n pieces, none of them there yet. NULL: out of memory. */
struct backing *backing_blank(uint64_t size, unsigned n);
/* A backing in pieces of at most extent bytes, without memory yet. NULL: out of memory.
 * */
struct backing *backing_alloc(uint64_t size, uint64_t extent);
/* Gives the memory back, wherever it is, and frees c, which nobody else knows. */
void mem_release(struct space *sp, struct backing *c);

/* Lets go of a reference to c; the last one gives its charge back. In backing_end.c.
 * Accepts NULL. */
void backing_put_locked(struct space *sp, struct backing *c);

/* Frees a backing that is one piece and nobody knows, but not its memory, which it
 * returns.
 */
struct dev_mem *backing_strip(struct backing *c);

/* The memory of a backing that is one piece and resident, or NULL. */
struct dev_mem *backing_whole(const struct backing *c);

/* Returns what c's pieces on the device are made of, or all of c if in_host_memory. */
enum dev_memory backing_memory(const struct backing *c);

/* True if it is all there, plain, in as few pieces as a new one would be. */
bool backing_as_new(const struct space *sp, const struct backing *c);

/* Waits until nothing of c moves. True if it had to: all may have changed, c be gone. */
bool backing_wait_locked(struct space *sp, struct backing *c);

/* True if pieces of it that are on the device may leave it. */
bool backing_movable(const struct backing *c);
/* After anything that space_residency() tells of may have changed. */
void backing_count_locked(struct space *sp, struct backing *c);
/* After c has lost one of its mappings. */
void backing_unmapped_locked(struct space *sp, struct backing *c);
/* Bytes in host memory. */
uint64_t backing_evicted(const struct backing *c);

/* Map all there is of c at an address, without access; unmap; open or close. */
CUresult backing_map(struct space *sp, const struct backing *c, CUdeviceptr addr);
CUresult backing_unmap(struct space *sp, const struct backing *c, CUdeviceptr addr);
CUresult backing_set_access(struct space *sp, const struct backing *c, CUdeviceptr addr,
			    CUmemAccess_flags access);

#endif
