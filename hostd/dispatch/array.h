/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_DISPATCH_ARRAY_H
#define WEFT_DISPATCH_ARRAY_H

#include "session/session.h"

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

#endif
