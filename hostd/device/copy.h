/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills of memory, ordered in a stream. */
#ifndef WEFT_DEVICE_COPY_H
#define WEFT_DEVICE_COPY_H

#include "device/handles.h"

struct digest;
struct digest_key;
struct digest_range;

/* A copy of rows; a plain copy has height 1. Bytes throughout. */
struct dev_copy_2d {
	CUdeviceptr dst, src;
	size_t dst_pitch, src_pitch;
	size_t width, height;
};

/* Bytes of one copy that any device takes at once, and of several that a stream has before it. */
#define DEV_TAKEN_LEAST     (64u << 10)
#define DEV_TAKEN_ALL_LEAST (1u << 20)

struct device_copy_ops {
	/* write() and read() return when host_buf may be reused or read, that is, they
	 * wait for the stream to get there. */
	CUresult (*write)(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  const void *host_buf, size_t size);
	CUresult (*read)(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 CUdeviceptr src, size_t size);
	/* Takes the bytes (packed rows of width) before it returns, and does not wait for the
	 * stream. CUDA_ERROR_NOT_READY: it would have to, for they are more than DEV_TAKEN_LEAST, or
	 * with those that the stream has not got to yet DEV_TAKEN_ALL_LEAST; nothing was done. */
	CUresult (*write_taken)(struct dev_ctx *ctx, struct dev_stream *st,
				CUdeviceptr dst, size_t pitch, const void *host_buf,
				size_t width, size_t height);
	/* Copies between addresses of the device, memory.host_map()'s among them; never
	 * waits. */
	CUresult (*rows)(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_2d *c);
	/* Digests (digest.h) of n ranges, all of which kernels may read; waits until the stream
	 * has got there and they are known. */
	CUresult (*digest)(struct dev_ctx *ctx, struct dev_stream *st,
			   const struct digest_key *key, const struct digest_range *r,
			   unsigned n, struct digest *ret);
	/* Waits for what the caller has queued there: unlike stream.synchronize(), of
	 * the legacy stream it may be not for other streams. */
	CUresult (*end)(struct dev_ctx *ctx, struct dev_stream *st);
	/* elem_bytes is 1, 2 or 4; width counts elements. Never waits. */
	CUresult (*fill)(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			 size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
			 size_t height);
};

#endif
