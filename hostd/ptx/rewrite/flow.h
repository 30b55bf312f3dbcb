/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a function, for whoever is to change it: where control goes, and what is the same in
 * all threads of a block. Time is linear but for loops that are nested very deep and branches
 * very many, which are refused.
 */
#ifndef WEFT_PTX_FLOW_H
#define WEFT_PTX_FLOW_H

#include "ptx/ptx.h"

/* Calls fn for every instruction that may be next after insns[i]. */
void ptx_each_next(const struct ptx_module *m, const struct ptx_func *f, uint32_t i,
		   void (*fn)(void *arg, uint32_t next), void *arg);

/* Marks where from a marked instruction can be reached, marked ones included. mark is as long as
 * f->insns. Returns 0 or -E2BIG. */
int ptx_reaching(const struct ptx_module *m, const struct ptx_func *f, uint8_t *mark);

/* Whether an instruction for threads of a warp (bar.warp, shfl, vote, match, redux, elect) is one for
 * all of them; and whether it is one for those that were found to be there a moment ago. */
bool ptx_is_of_whole_warp(const struct ptx_insn *in);
bool ptx_is_of_those_there(const struct ptx_func *f, const struct ptx_insn *in);

/* Threads that are looked at. */
enum ptx_among {
	PTX_OF_BLOCK,
	PTX_OF_WARP,
	PTX_OF_ROW, /* likewise, of blocks whose warps have each one y and one z */
};

#define PTX_PARTS (1u << 0) /* such threads may part here: a branch, or a guarded end */
#define PTX_APART (1u << 1) /* they may have parted, and not have met again */

/* Marks the instructions of which that is so. *ret_marks is as long as f->insns, the caller's to
 * free. Returns 0, -ENOMEM or -E2BIG. */
int ptx_parting(const struct ptx_module *m, const struct ptx_func *f,
		enum ptx_among among, uint8_t **ret_marks);

/* Whether threads may end, each for itself, at an instruction from which a marked one can be
 * reached (ptx_reaching()). marks: ptx_parting()'s. */
bool ptx_may_end_before(const struct ptx_func *f, const uint8_t *marks,
			const uint8_t *before);

/* Finds whether threads may part, and some of them go on to their end while others come to a marked
 * instruction. Returns 1 or 0, -ENOMEM or -E2BIG. */
int ptx_may_pass_by(const struct ptx_module *m, const struct ptx_func *f,
		    const uint8_t *marks, const uint8_t *meets);

#endif
