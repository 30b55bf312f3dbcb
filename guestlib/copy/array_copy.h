/* SPDX-License-Identifier: Apache-2.0 */
/* Copies with an array on one side or both. */
#ifndef WEFT_GUEST_ARRAY_COPY_H
#define WEFT_GUEST_ARRAY_COPY_H

#include "copy/copy.h"

struct wire_array_side;

/* Makes one side of a copy on the device, as it travels. slice: bytes from slice to
 * slice, if the side is memory. */
struct wire_array_side array_side(const struct copy_place *at,
				  const struct copy_side *side, size_t slice);

/* True if the box lies within the arrays on its sides. */
bool array_copy_fits(const struct copy_box *box);

/* Does or queues a copy with an array on one side or both; box is not empty. async: does
 * not wait. */
CUresult array_copy_box(struct guest_thread *t, const struct copy_box *box,
			uint64_t stream, bool async);

#endif
