/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yield points: places in a kernel at which a block can stop, be kept in memory, and go on in a
 * later launch. Each outermost loop has one, where it begins its next round ("PILOT", section
 * III.B, preempts there). Kept are the registers that are alive there, and the block's shared
 * memory.
 *
 * A kernel has its body twice: loops that are entered from elsewhere, too, are no loops to a
 * compiler, and threads that part in them do not meet again. So blocks that were kept go on in the
 * second one, and take further blocks with the first.
 *
 * Threads of a block that meet nowhere stop one by one and wait for the others at the block's end
 * (persist.h). Where they meet in a loop, its rounds are the same for all of them, or it has no such
 * point; there they decide together, every few rounds.
 */
#ifndef WEFT_PTX_YIELD_H
#define WEFT_PTX_YIELD_H

#include <stdio.h>

#include "ptx/ptx.h"
#include "ptx/rewrite/edit.h"

/* Bytes of a block that are kept before those of its threads: where in the grid it is. */
#define PTX_YIELD_BLOCK_BYTES 16u
/* Behind its static shared memory, since variables are rounded up. */
#define PTX_YIELD_SHARED_SLACK 256u

struct ptx_site {
	uint32_t insn;
	uint32_t every; /* rounds */
	bool together;  /* the block's threads decide together */
	bool falls_in;  /* it comes behind what is before it in the text */
};

struct ptx_yield {
	uint32_t n;
	struct ptx_site *sites;
	uint64_t *live; /* registers that are kept at each, ptx_live() */
	/* At each, instructions to be done again in every round, which costs less than a register:
	 * f->ninsns of them. */
	uint8_t *redo;
	struct ptx_span *shared; /* declarations of shared variables in the body */
	uint32_t n_shared;
	uint32_t words, doubles; /* kept of a thread, at most: of 4 and of 8 bytes */
	const char *why;         /* a loop has no such point; NULL: all have one */
};

/* Finds the yield points of a kernel. meets: its threads wait for others of their block or warp
 * somewhere. Returns 0, with n 0 if there are none, or -ENOMEM; ptx_yield_fini() gives *ret back. */
int ptx_yield_plan(const struct ptx_module *m, const char *text, uint32_t func,
		   bool meets, struct ptx_yield *ret);
void ptx_yield_fini(struct ptx_yield *y);

/* Bytes that are kept of a thread. */
uint32_t ptx_yield_thread_bytes(const struct ptx_yield *y);
/* Notes the points in a body's text. */
void ptx_yield_edit(const struct ptx_yield *y, const char *text, const struct ptx_func *f,
		    struct ptx_edits *e);
/* Takes a body's own shared variables out of it: another one has declared them. */
void ptx_yield_edit_shared(const struct ptx_yield *y, struct ptx_edits *e);
/* Writes declarations, once, before all below. */
void ptx_yield_declare(const struct ptx_yield *y, FILE *out);
/* Writes what a body has behind its own: code that keeps a block, at weft_pt_save. reached: of each
 * function, whether the kernel's shared memory is its, too. */
void ptx_yield_keep(const struct ptx_yield *y, const struct ptx_module *m, uint32_t func,
		    const uint8_t *reached, FILE *out);
/* Writes what goes on with a block that is kept, if this one has one. */
void ptx_yield_restore(const struct ptx_yield *y, const struct ptx_module *m,
		       uint32_t func, const uint8_t *reached, FILE *out);

#endif
