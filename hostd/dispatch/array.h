/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_DISPATCH_ARRAY_H
#define WEFT_DISPATCH_ARRAY_H

#include "session/command.h"

struct sess_array {
	struct sess_obj obj;
	struct dev_array *dev;
	unsigned levels;  /* at least 1 */
	uint64_t charged; /* bytes of device memory, at the broker */
};

/* The array that a command names, pinned until it ends. INVALID_HANDLE: there is none;
 * INVALID_VALUE: it has no such level. */
CUresult array_named(struct sess_lane *sl, uint64_t h, unsigned level,
		     struct dev_array **ret_array);

struct wire_array_side;

/* One side of a copy on the device, without its array. */
struct dev_side array_side(const struct wire_array_side *s, uint32_t width,
			   uint32_t height, uint32_t depth);

#endif
