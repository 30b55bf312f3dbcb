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

/* Find an array by its handle; NULL: no such array. Valid until the program destroys
 * it. */
struct guest_array *guest_array(CUarray array);
struct guest_array *guest_mipmap(CUmipmappedArray array);

/* Makes an array in the current context, mipmapped if it is to have levels. Waits for the
 * worker, which checks the shape; returns its code. */
CUresult guest_array_new(struct guest_thread *t, const struct array_shape *s,
			 uint64_t *ret_handle);

/* Destroys an array, which is no level of another one, with its levels; a ends even if the
 * worker reports an error. */
CUresult guest_array_destroy(struct guest_thread *t, struct guest_array *a);

/* Gives a level (less than shape.levels) of a mipmapped array, the same array each time.
 * OUT_OF_MEMORY. Any thread. */
CUresult guest_mipmap_level(struct guest_array *a, unsigned level, CUarray *ret_array);

#endif
