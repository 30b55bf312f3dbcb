/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging for copies between the device and memory that it cannot see: a stage is shared
 * host memory cut into slots. The processor moves bytes between the program's memory and
 * slots, the device between slots and its own memory, side by side.
 *
 * The device says that it is done with slots by writing a number behind the copy, in
 * stream order; no message comes back. Stages are kept in a pool of the process; one
 * thread uses a stage at a time, but what it has begun may still be under way when the
 * next one takes it.
 */
#ifndef WEFT_GUEST_STAGE_H
#define WEFT_GUEST_STAGE_H

#include "core/guest.h"

#define STAGE_SLOT_BYTES (256u << 10)
#define STAGE_SLOTS      16u

struct stage;

enum stage_use {
	STAGE_TO_DEVICE,
	STAGE_TO_HOST,
};

/* Takes a stage from the pool, or makes one; NULL if there can be none. */
struct stage *stage_take(struct guest_thread *t, enum stage_use use);

/* Puts a stage back into the pool. idle false: work that is under way in it may never
 * end, and the stage is not used again. */
void stage_put(struct stage *s, enum stage_use use, bool idle);

/* A word of the stage into which the device writes a number behind a copy. */
struct stage_mark {
	uint64_t addr; /* 0: none */
	uint32_t number;
};

/* Some slots that follow one another, or a part of one. */
struct stage_piece {
	unsigned slot, n;
	char *mem;
	uint64_t dev; /* the device's address of mem */
	struct stage_mark mark;
};

/*
 * Gives room for size bytes (at most STAGE_SLOTS slots) behind the room that was given
 * out last. False if the device does not let go of it soon.
 */
bool stage_room(struct stage *s, size_t size, struct stage_piece *ret);

/* Sets p->mark: the copy that carries it is the last that uses the piece. */
void stage_mark(struct stage *s, struct stage_piece *p);

/* True once the device has written the piece's mark; waits for a moment. */
bool stage_done(struct stage *s, const struct stage_piece *p);

/* ---- small copies: many in one slot ---- */

enum stage_small {
	STAGE_POSTED, /* no call waits for them */
	STAGE_TAKEN,  /* the program waits until they are taken (copy_take) */
};

/*
 * Gives room in the thread's own stage for a small copy (at most a slot) to the device in
 * a stream. Its mark, if it has one, stands for the copies before it, in the slot before.
 * False if there is no room.
 */
bool stage_append(struct guest_thread *t, enum stage_small kind, uint64_t stream,
		  size_t size, struct stage_piece *ret);

/* Gives the slots in hand of a stream that is about to end their marks. */
void stage_close(struct guest_thread *t, uint64_t stream);

#endif
