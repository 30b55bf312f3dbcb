/* SPDX-License-Identifier: Apache-2.0 */
/* Copies with an array on one side or both. */
#ifndef WEFT_GUEST_ARRAY_COPY_H
#define WEFT_GUEST_ARRAY_COPY_H

#include "copy/copy.h"

struct wire_array_side;

/* One side of a copy on the device as it travels; slice: bytes, of memory. */
struct wire_array_side array_side(const struct copy_place *at,
				  const struct copy_side *side, size_t slice);

/* True if the box lies within the arrays on its sides. */
bool array_copy_fits(const struct copy_box *box);

/* A copy with an array on one side or both; box is not empty. */
CUresult array_copy_box(struct guest_thread *t, const struct copy_box *box,
			uint64_t stream, bool async);

#endif
