/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outermost loops of a function: the largest sets of instructions of which each can be reached
 * from each (strongly connected components, by Tarjan's algorithm). Time is linear.
 */
#ifndef WEFT_PTX_LOOPS_H
#define WEFT_PTX_LOOPS_H

#include "ptx/ptx.h"

struct ptx_loop {
	uint32_t
		head; /* the instruction by which it is entered; UINT32_MAX: there are several */
	uint32_t n; /* instructions in it */
	bool nests; /* it has a loop in it */
};

struct ptx_loops {
	uint32_t n;
	struct ptx_loop *loops;
	int32_t *of; /* of each instruction, the number of its loop; -1: none */
};

/* Returns 0 or -ENOMEM; ptx_loops_fini() gives the result back. */
int ptx_loops(const struct ptx_module *m, const struct ptx_func *f,
	      struct ptx_loops *ret);
void ptx_loops_fini(struct ptx_loops *l);

#endif
