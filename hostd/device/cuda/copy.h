/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills of memory and arrays; arrays. */
#ifndef WEFT_DEVICE_CUDA_COPY_H
#define WEFT_DEVICE_CUDA_COPY_H

#include "device/cuda/device.h"

/* copy.c */
CUresult cuda_write(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		    const void *host_buf, size_t size);
CUresult cuda_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
		   CUdeviceptr src, size_t size);
CUresult cuda_write_taken(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  size_t pitch, const void *host_buf, size_t width,
			  size_t height);
CUresult cuda_copy(struct dev_ctx *ctx, struct dev_stream *st,
		   const struct dev_copy_2d *c);
CUresult cuda_fill(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		   size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
		   size_t height);

/* digest.c */
CUresult cuda_digest(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct digest_key *key, const struct digest_range *r,
		     unsigned n, struct digest *ret);

CUresult cuda_copy_end(struct dev_ctx *ctx, struct dev_stream *st);
/* True if all rows lie in memory that the guest may name. */
bool cuda_copy_ok(struct device *dev, const struct dev_copy_2d *c);
/* True if a fill stays in memory that the guest may name; width counts elements. */
bool cuda_fill_ok(struct device *dev, CUdeviceptr dst, size_t pitch, unsigned elem_bytes,
		  size_t width, size_t height);

/* array.c */
CUresult cuda_array_bytes(struct dev_ctx *ctx, const struct array_shape *s,
			  uint64_t *ret_bytes);
CUresult cuda_array_create(struct dev_ctx *ctx, const struct array_shape *s,
			   struct dev_array **ret_array);
void cuda_array_destroy(struct dev_array *a);
/* The driver's array of a level; of its own accord for the life of the whole. */
CUresult cuda_array_level(struct dev_array *a, unsigned level, CUarray *ret_array);
CUresult cuda_array_write(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_box *dst, const void *host_buf);
CUresult cuda_array_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 const struct dev_box *src);
/* The driver's descriptor of a copy that is not empty, checked. */
CUresult cuda_array_params(struct device *dev, const struct dev_copy_3d *c,
			   CUDA_MEMCPY3D *ret_d);
CUresult cuda_array_copy(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_3d *c);

#endif
