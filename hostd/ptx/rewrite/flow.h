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

#define PTX_PARTS                                                                        \
	(1u << 0) /* threads of a block may part here: a branch, or a guarded end */
#define PTX_APART (1u << 1) /* they may have parted, and not have met again */

/* Marks the instructions of which that is so. *ret_marks is as long as f->insns, the caller's to
 * free. Returns 0, -ENOMEM or -E2BIG. */
int ptx_parting(const struct ptx_module *m, const struct ptx_func *f,
		uint8_t **ret_marks);

#endif
