/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: the list of a backing's pieces, how it is split and put together.
 * With space.lock, as far as a backing is concerned.
 */
#ifndef WEFT_MEM_PIECES_H
#define WEFT_MEM_PIECES_H

#include "memory/backing.h"

/* The size of the first piece when so much is split, and how many there are then. */
uint64_t piece_size(const struct space *sp, uint64_t bytes);
unsigned pieces_of(const struct space *sp, uint64_t bytes);

/* Makes sure that n more, and all that are promised, have room: 0 or -ENOMEM. */
int pieces_reserve(struct backing *c, unsigned n);

/* The index of the piece that covers offset. */
unsigned pieces_at(const struct backing *c, uint64_t offset);

/* The pieces from offset on that are size together and all in one state. How many; 0:
 * none. */
unsigned pieces_run(const struct backing *c, uint64_t offset, uint64_t size,
		    unsigned *ret_first);

void pieces_set_state(struct backing *c, unsigned first, unsigned n, enum piece_state to);

/* Replaces `was` pieces from the i-th on by n, which there is room for and which the
 * caller fills in: bytes of a state have to stay what they are. */
void pieces_resize(struct backing *c, unsigned i, unsigned was, unsigned n);

#endif
