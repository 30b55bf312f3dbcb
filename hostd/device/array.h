/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA arrays: of a context, destroyed before it. */
#ifndef WEFT_DEVICE_ARRAY_H
#define WEFT_DEVICE_ARRAY_H

#include "device/handles.h"
#include "shape.h"

/* A box in one level of an array: bytes in x and width, else rows and slices. */
struct dev_box {
	struct dev_array *array;
	unsigned level;
	size_t x, y, z, width, height, depth;
};

/* Device memory as rows and slices; bytes. */
struct dev_slices {
	CUdeviceptr addr; /* of the first byte */
	size_t pitch, slice;
};

/* One side of a copy on the device: memory if box.array is NULL. */
struct dev_side {
	struct dev_box box; /* extents: of dst only */
	struct dev_slices memory;
};

struct dev_copy_3d {
	struct dev_side dst, src;
};

struct device_array_ops {
	/* Says what creating one takes from the device's memory, and refuses what
	 * create() would refuse (sparse and deferred ones: CUDA_ERROR_NOT_SUPPORTED). */
	CUresult (*bytes)(struct dev_ctx *ctx, const struct array_shape *s,
			  uint64_t *ret_bytes);
	CUresult (*create)(struct dev_ctx *ctx, const struct array_shape *s,
			   struct dev_array **ret_array);
	/* The caller has synchronised; textures of it may remain, but not be used. */
	void (*destroy)(struct dev_array *a);
	/* host_buf is packed. write() and read() wait, as those of copy.h do. */
	CUresult (*write)(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_box *dst, const void *host_buf);
	CUresult (*read)(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 const struct dev_box *src);
	/* At least one side is an array; never waits. */
	CUresult (*copy)(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_3d *c);
};

#endif
