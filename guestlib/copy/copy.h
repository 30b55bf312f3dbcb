/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. Every form of cuMemcpy* becomes rows between two sides, each host or device
 * memory. Host memory that the device sees (hostmem.h) counts as the device's: such a
 * copy is one message, and no byte passes through the lane.
 */
#ifndef WEFT_GUEST_COPY_H
#define WEFT_GUEST_COPY_H

#include "core/guest.h"
#include "object/managed.h"

struct copy_side {
	bool device;
	uint64_t addr; /* a pointer of this process if !device */
	size_t pitch;  /* bytes from row to row */
};

struct copy {
	struct copy_side dst, src;
	size_t width, height; /* bytes, rows; either may be 0: nothing to do */
	CUstream stream;
	bool ptsz;
	bool async;  /* a function with Async in its name */
	bool shared; /* a side is memory that program and device see, addr its address there:
		      * a copy that is not async waits until it is done */
	/* Word behind a shared copy to which the device writes number; see stage.h. 0:
	 * none. */
	uint64_t mark;
	uint32_t number;
	uint64_t ctx; /* of a graph: at once in that context, in no stream; else 0 */
};

/*
 * Makes both sides addresses of the device, if the device sees both (spans in bytes).
 * CUDA_ERROR_INVALID_VALUE for a range that begins in host memory of ours and ends behind
 * it.
 */
CUresult copy_share(struct copy *c, uint64_t dst_span, uint64_t src_span);

/* Has a copy wait that has managed memory of the device's on a side: some of that may be in host
 * memory at any time. */
void copy_share_managed(struct copy *c);
/* As managed_begin(), if such memory is on a side; c has its final sides. */
CUresult copy_begin(struct guest_thread *t, const struct copy *c, struct managed_hold *h);

struct guest_array;

/* A place in an array; without one (NULL) the side of the copy is memory. */
struct copy_place {
	struct guest_array *array;
	size_t x, y, z; /* bytes, rows, slices */
};

/* A copy of slices, as cuMemcpy3D describes it. */
struct copy_box {
	struct copy rows; /* of the first slice */
	size_t depth, dst_slice, src_slice;
	struct copy_place dst_at, src_at;
};

/* Translates a descriptor to the copy that it means, but for its stream; or returns
 * CUDA's error for it. Does not check that the box lies within arrays: see
 * array_copy_fits(). */
CUresult copy_plan(const CUDA_MEMCPY3D *p, struct copy_box *ret_box);

/*
 * Does or queues the copy. Host memory may be reused when it returns: data for the device
 * has been copied out, data from the device has arrived.
 */
CUresult copy_do(const struct copy *c);

/* As copy_do(), for a thread that has entered and a stream that was checked, as it
 * travels. */
CUresult copy_rows(struct guest_thread *t, const struct copy *c, uint64_t stream);

#endif
