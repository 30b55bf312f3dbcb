/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a text, noted in any order and made at once. PTX is edited, not printed anew: cache
 * hints, line numbers and whatever else the parser does not keep stay as they are.
 */
#ifndef WEFT_PTX_EDIT_H
#define WEFT_PTX_EDIT_H

#include <stdio.h>

#include "ptx/ptx.h"
#include "ptx/ptx_arena.h"

struct ptx_edits {
	struct ptx_vec v;
	bool failed; /* memory was short */
};

/* Puts what fmt says in the place of a part of the text, which may be empty. Parts do not overlap;
 * of several empty ones at one place, the first noted comes first. */
void ptx_edit(struct ptx_edits *e, struct ptx_span at, const char *fmt, ...)
	_printf_(3, 4);
/* Writes that part of the text, changed. Returns 0 or -ENOMEM, also for what out was short of. */
int ptx_edits_write(struct ptx_edits *e, const char *text, struct ptx_span part,
		    FILE *out);
void ptx_edits_fini(struct ptx_edits *e);

#endif
