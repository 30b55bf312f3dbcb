/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a kernel takes as it is and as a copy, by some launches of its own that are timed: the
 * copy is used while it costs little, and how much fewer blocks of it cost is known. A time is of a
 * block of the grid, so grids may differ; the shortest of each form counts, since whatever else
 * runs only makes it longer. Pure.
 */
#ifndef WEFT_DEVICE_REWRITE_COST_H
#define WEFT_DEVICE_REWRITE_COST_H

#include <stdbool.h>
#include <stdint.h>

/* A kernel as it is; a copy with so many of COST_PARTS parts of the blocks that there is room for. */
#define COST_PLAIN 0u
#define COST_PARTS 4u
#define COST_FORMS (1 + COST_PARTS)
/* Timed launches of each form; the first ones may load code. */
#define COST_SAMPLES 4u
/* A copy may take so much longer, per mille. */
#define COST_MAX 50u

enum cost_verdict {
	COST_OPEN,
	COST_COPY,  /* it is worth while */
	COST_LEAVE, /* the kernel runs as it is */
};

struct cost {
	unsigned n[COST_FORMS]; /* timed */
	double ns[COST_FORMS];  /* of a block of the grid, the shortest */
};

/* Form of the next launch to be timed; COST_FORMS: none is any more. The copy, which can be
 * stopped, and the plain kernel in turn first, then, of a copy that is used, its parts from the
 * largest on. */
unsigned cost_next(const struct cost *c);
/* Notes that a launch of a grid of so many blocks took so long. */
void cost_note(struct cost *c, unsigned form, uint64_t blocks, double ns);
enum cost_verdict cost_verdict(const struct cost *c);
/* Speed of a copy with so many parts, per mille of that with all; 0: not known. Never more than
 * with more parts. */
unsigned cost_speed(const struct cost *c, unsigned parts);

#endif
