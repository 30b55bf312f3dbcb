/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving a session's memory between the device and host memory, every address unchanged.
 *
 * The caller holds the session's gate closed and the device is quiet. Other lanes may
 * allocate, free and look up meanwhile; who wants to free or to map what is just moving
 * waits until it has arrived. The functions may run in two threads at once, one of them
 * moving out and one moving in: copies in both directions overlap.
 *
 * What can move is memory that is mapped exactly once, not shared with another session,
 * and not the guest's own host memory.
 */
#ifndef WEFT_MEM_MOVE_H
#define WEFT_MEM_MOVE_H

#include <stdint.h>

#include "policies/placement.h"

struct space;
struct backing;

/*
 * Pieces are of this size unless it is said otherwise. On an H200 pieces of 2 MiB move at
 * four fifths of the rate of pinned copies, pieces of 8 MiB at all of it: what mapping
 * costs is per piece.
 */
#define SPACE_PIECE         (8ull << 20)

#define SPACE_EXTENT_PIECES 128u
/* Pieces that return at a time, of those that are evicted together; they are one piece
 * from then on. Mapping costs the same for all of them, and memory for the next is made
 * while they are copied. */
#define SPACE_RETURN_PIECES 8u

struct space_moved {
	uint64_t bytes; /* device memory that is free now (out), or taken (in) */
	/* Part of these, out, that was not copied: host memory had it already. */
	uint64_t unchanged;
};

struct space_residency {
	uint64_t movable; /* on the device; could move out now */
	uint64_t mapped;  /* in host memory at the same address */
	uint64_t swapped; /* in host memory, out of reach */
	uint64_t pinned;  /* on the device, cannot move now */
};

/* Has nothing computed on the device for moves, or (false) what is worth while: kernels that stand
 * still have it, or somebody in a hurry. On the thread that moves out. */
void space_only_copies(struct space *sp, bool on);

/* Makes the host memory that it will take, so that the session need not stand still for
 * that. The gate may be open. */
void space_move_prepare(struct space *sp, uint64_t bytes, uint64_t room);

/*
 * Moves at least `bytes` out, if there is so much; more where an extent is larger, but
 * never more than `room`.
 * Returns 0, -ENOSPC (nothing more can move), -ENOMEM (no host memory), or -EIO (the
 * context is lost). *ret counts what was moved in any case. What could not be mapped is
 * swapped, whatever was asked for.
 */
int space_move_out(struct space *sp, uint64_t bytes, uint64_t room,
		   enum placement_where where, struct space_moved *ret);

/*
 * Sets left(arg, bytes), which space_move_out() calls on its own thread for each piece as
 * soon as the device has its memory back, before the piece is mapped in host memory.
 * NULL: nothing is called.
 */
void space_on_left(struct space *sp, void (*left)(void *arg, uint64_t bytes), void *arg);

/* Brings back at most `bytes`, which the caller has been granted; swapped pieces first.
 * Returns 0 (also if nothing is evicted), -ENOMEM (the device has no memory) or -EIO. */
int space_move_in(struct space *sp, uint64_t bytes, struct space_moved *ret);

/*
 * Sets make_resident(arg, c, bytes), which brings one backing back, all `bytes` of it
 * that are evicted, because other sessions are to have it: it gets room, calls
 * space_make_resident(), and returns 0, -EBUSY (work did not end in time), -ENOMEM (there
 * is no room), -EIO or
 * -EPIPE. Called on any lane's thread, outside the gate, with a reference on c. Unset:
 * nothing becomes resident.
 */
void space_on_make_resident(struct space *sp,
			    int (*make_resident)(void *arg, struct backing *c,
						 uint64_t bytes),
			    void *arg);
/* As space_move_in(), of one backing, which somebody has a reference to. */
int space_make_resident(struct space *sp, struct backing *c, uint64_t bytes,
			struct space_moved *ret);

/* Makes every swapped piece host-mapped. Returns 0 or -EIO. */
int space_map_swapped(struct space *sp);

void space_residency(struct space *sp, struct space_residency *ret);

/*
 * Sets the policy that says which backings are evicted first; NULL: in the order of their
 * allocation. With a policy, allocations are made in extents of no more than
 * SPACE_EXTENT_PIECES pieces, so that no extent is much more than somebody needs.
 */
void space_set_placement(struct space *sp, const struct placement *policy);
/* The session is one of those that take turns where memory does not fit: what is cold is noted
 * (cold.h), and what is swapped is compared with what it was (changes.h). Before the first move. */
void space_set_turns(struct space *sp);
/* The size of pieces: a power of two, from the device's granularity to 64 MiB. Before the
 * first allocation. Returns 0 or -EINVAL. */
int space_set_piece(struct space *sp, uint64_t bytes);

/* How much host memory to keep ready; it is made, and given back, in the background. */
void space_host_pool_set(struct space *sp, uint64_t bytes);

#endif
