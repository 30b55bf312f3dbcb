/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays as the guest knows them: shape and handle. A level of a mipmapped array is
 * a CUarray of its own to the program; the worker knows only the whole and a level's
 * number.
 */
#ifndef WEFT_GUEST_ARRAY_H
#define WEFT_GUEST_ARRAY_H

#include "shape.h"
#include "core/guest.h"
#include "object/owned.h"

struct guest_array {
	struct owned owned;       /* not of a level, which goes with the whole */
	struct array_shape shape; /* of this level */
	uint64_t root;            /* the worker's handle */
	unsigned level;
	bool is_level;
	bool is_mipmapped;                 /* not a CUarray, but a CUmipmappedArray */
	uint64_t levels[ARRAY_LEVELS_MAX]; /* of a mipmapped one: handles given out so far
					    */
};

/* NULL: no such array. Valid until the program destroys it. */
struct guest_array *guest_array(CUarray array);
struct guest_array *guest_mipmap(CUmipmappedArray array);

#endif
