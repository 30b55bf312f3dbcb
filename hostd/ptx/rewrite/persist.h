/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent threads: a second form of kernels, whose blocks take one block of the grid after the
 * other from a counter in device memory. As many run as were launched, whatever the grid's size,
 * and none begins another one once it was told to stop: what the grid has left is done by whoever
 * launches it again. With yield points (yield.h), blocks also stop within their work.
 *
 * The copy K has of the name PTX_PERSIST_NAME and K's; K itself stays. It takes K's parameters,
 * and behind them, at the next multiple of 8, a struct ptx_persist_args. For the counter there is
 * a variable, PTX_PERSIST_CONTROL, in the module. A variable PTX_PERSIST_STATE and K's name has as
 * many bytes as are kept of a thread of K; there is none if K has no yield points. With one called
 * PTX_PERSIST_ROWS and K's name, the copy is only for blocks whose warps have a row each: one row, or
 * rows of a multiple of 32.
 */
#ifndef WEFT_PTX_PERSIST_H
#define WEFT_PTX_PERSIST_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ptx.h"

#define PTX_PERSIST_NAME "weft_pt$"
#define PTX_PERSIST_STATE "weft_pt_state$"
#define PTX_PERSIST_ROWS  "weft_pt_rows$"
/* Code that was compiled may be kept: another version of what is below has another name. */
#define PTX_PERSIST_VERSION 3u
#define PTX_PERSIST_CONTROL "weft_pt_control_3" /* PTX_PERSIST_SLOTS of the struct */
#define PTX_PERSIST_SLOTS   1024u
/* Bytes of a copy's parameters, at most: every driver takes so many. */
#define PTX_PERSIST_PARAMS_MAX 4096u
/* Blocks of a grid, at most: the counter may run beyond it. */
#define PTX_PERSIST_GRID_MAX 0xfff00000u

/* In device memory. */
struct ptx_persist_control {
	uint32_t next;  /* block of the grid that is taken next */
	uint32_t ended; /* blocks that run no more, of all launches of a grid */
	uint32_t
		stop; /* ~n: blocks from the n-th one on take no more of the grid's; 0: all do */
	uint32_t grids; /* that were done to their end, modulo 2^32 */
	uint32_t done;  /* blocks of the grid, of one that is done by several launches */
	uint32_t yield; /* not 0: blocks stop at yield points, and are kept */
	/* Where: a number for each block, not 0 if it is kept, and what is kept of it. */
	uint64_t kept, states;
	uint32_t pad[6];
};
static_assert(sizeof(struct ptx_persist_control) == 64,
	      "of two launches, no two in one line");
static_assert(offsetof(struct ptx_persist_control, kept) == 24, "as yield.c has it");

struct ptx_persist_args {
	uint64_t control;         /* address of a struct ptx_persist_control */
	uint32_t grid[3], blocks; /* of the grid, as the kernel is to see it */
	/* Blocks that were launched: the last of them puts the counter back. 0: nobody does, and the
	 * grid ends when all its blocks are done, by this launch or others. */
	uint32_t launched;
	uint32_t
		first; /* number that the first one has among the blocks of all launches */
	uint64_t stride; /* bytes that are kept of a block */
	uint32_t resume; /* not 0: blocks that are kept go on */
	uint32_t pad;
};
static_assert(sizeof(struct ptx_persist_args) == 48, "as persist.c declares it");

/* A kernel, and what became of it. */
struct ptx_persist_kernel {
	const char *name;
	const char *why; /* it has no copy; NULL: it has one */
	bool rows;       /* as PTX_PERSIST_ROWS */
	uint32_t yields; /* yield points of that */
	/* A loop has no yield point; NULL: none was wanted, or all have one. */
	const char *why_no_yield;
};

struct ptx_persist {
	char *text; /* with its NUL; NULL: there are no copies */
	size_t len; /* without */
	uint32_t n, n_copies;
	struct ptx_persist_kernel *kernels; /* all of the text's */
	struct ptx_module *module;          /* owns the names */
};

/*
 * Adds copies to a text of len bytes (a NUL ends it early), as far as kernels allow that; yields:
 * with yield points. Returns 0, also if none do, or what ptx_parse_source() says, with a line in log.
 * Any thread; ptx_persist_fini() gives the result back.
 */
int ptx_persist(const char *text, size_t len, bool yields, struct ptx_log *log,
		struct ptx_persist *ret);
void ptx_persist_fini(struct ptx_persist *p);

#endif
