/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent threads: a second form of kernels, whose blocks take one block of the grid after the
 * other from a counter in device memory. As many run as were launched, whatever the grid's size,
 * and none begins another one once it was told to stop: what the grid has left is done by whoever
 * launches it again.
 *
 * The copy K has of the name PTX_PERSIST_NAME and K's; K itself stays. It takes K's parameters,
 * and behind them, at the next multiple of 8, a struct ptx_persist_args. For the counter there is
 * a variable, PTX_PERSIST_CONTROL, in the module.
 */
#ifndef WEFT_PTX_PERSIST_H
#define WEFT_PTX_PERSIST_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ptx.h"

#define PTX_PERSIST_NAME "weft_pt$"
/* Code that was compiled may be kept: another version of what is below has another name. */
#define PTX_PERSIST_VERSION 1u
#define PTX_PERSIST_CONTROL "weft_pt_control_1" /* PTX_PERSIST_SLOTS of the struct */
#define PTX_PERSIST_SLOTS   1024u
/* Bytes of a copy's parameters, at most: every driver takes so many. */
#define PTX_PERSIST_PARAMS_MAX 4096u
/* Blocks of a grid, at most: the counter may run beyond it. */
#define PTX_PERSIST_GRID_MAX 0xfff00000u

/* In device memory. next and ended are 0 when nothing runs: the last block leaves them so, but for
 * next if it was stopped and the grid has blocks left. */
struct ptx_persist_control {
	uint32_t next;  /* block of the grid that is taken next */
	uint32_t ended; /* blocks that run no more */
	uint32_t stop;  /* not 0: none is taken */
	uint32_t grids; /* that were done to their end, modulo 2^32 */
	uint32_t pad[12];
};
static_assert(sizeof(struct ptx_persist_control) == 64,
	      "of two launches, no two in one line");

struct ptx_persist_args {
	uint64_t control;         /* address of a struct ptx_persist_control */
	uint32_t grid[3], blocks; /* of the grid, as the kernel is to see it */
	uint32_t launched, pad;   /* blocks that were launched */
};
static_assert(sizeof(struct ptx_persist_args) == 32, "as persist.c declares it");

/* A kernel, and what became of it. */
struct ptx_persist_kernel {
	const char *name;
	const char *why; /* it has no copy; NULL: it has one */
};

struct ptx_persist {
	char *text; /* with its NUL; NULL: there are no copies */
	size_t len; /* without */
	uint32_t n, n_copies;
	struct ptx_persist_kernel *kernels; /* all of the text's */
	struct ptx_module *module;          /* owns the names */
};

/*
 * Adds copies to a text of len bytes (a NUL ends it early), as far as kernels allow that. Returns
 * 0, also if none do, or what ptx_parse_source() says, with a line in log.
 * Any thread; ptx_persist_fini() gives the result back.
 */
int ptx_persist(const char *text, size_t len, struct ptx_log *log,
		struct ptx_persist *ret);
void ptx_persist_fini(struct ptx_persist *p);

#endif
