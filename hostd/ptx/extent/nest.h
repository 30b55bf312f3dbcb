/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Basic blocks of a function, which of them control has to pass on its way to another (dominators,
 * as Cooper, Harvey and Kennedy find them), and its natural loops with those around them.
 */
#ifndef WEFT_PTX_EXTENT_NEST_H
#define WEFT_PTX_EXTENT_NEST_H

#include "ptx/ptx.h"

#define PTX_NEST_NONE UINT32_MAX

struct ptx_block {
	uint32_t first, last; /* instructions, both in it */
	uint32_t idom;        /* the block above it; NONE: the first, or never reached */
	uint32_t loop;        /* the innermost one around it; NONE */
	uint32_t from;        /* the only block that leads here; NONE: several, or none */
	uint32_t next[2];     /* where its end leads to; NONE: no further */
	uint32_t order;       /* in reverse postorder; NONE: never reached */
	/* Blocks that are numbered so are dominated by it: itself is the first of them. */
	uint32_t dom_first, dom_end;
};

struct ptx_nest_loop {
	uint32_t head;  /* its only way in */
	uint32_t outer; /* the loop around it; NONE */
};

struct ptx_nest {
	uint32_t n, n_loops;
	struct ptx_block *blocks;
	uint32_t *of; /* of each instruction, its block */
	/* Blocks that lead to the b-th: before[before_at[b]] to before[before_at[b + 1] - 1]. */
	uint32_t *before_at, *before;
	struct ptx_nest_loop *loops;
};

/* Returns 0, -ENOMEM or -E2BIG (too large, or it jumps by tables); ptx_nest_fini() gives the result
 * back. */
int ptx_nest(const struct ptx_module *m, const struct ptx_func *f, struct ptx_nest *ret);
void ptx_nest_fini(struct ptx_nest *n);

/* Whether control passes a before it comes to b. */
bool ptx_dominates(const struct ptx_nest *n, uint32_t a, uint32_t b);
/* Whether a loop is another one, or around it; and whether a block is in it. */
bool ptx_is_around(const struct ptx_nest *n, uint32_t loop, uint32_t inner);
bool ptx_in_loop(const struct ptx_nest *n, uint32_t loop, uint32_t block);

#endif
