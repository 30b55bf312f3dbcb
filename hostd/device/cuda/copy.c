/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. With unified addressing the driver would take any address of this process for
 * one side of a copy, so each device address is checked to be device memory that was
 * mapped for the guest before the driver sees it.
 */
#include "base/clock.h"
#include "device/cuda/copy.h"
#include "device/cuda/freeze/freeze.h"
#include "device/cuda/memory.h"
#include "device/cuda/output.h"

/* How long a stream is asked whether it has ended: as long as few bytes take. */
#define ASK_NS (20 * NSEC_PER_USEC)

static bool rows_ok(struct device *dev, CUdeviceptr addr, size_t pitch, size_t width,
		    size_t height)
{
	size_t span;

	if (!width || !height)
		return true;
	if (__builtin_mul_overflow(height > 1 ? pitch : 0, height - 1, &span) ||
	    __builtin_add_overflow(span, width, &span) || addr + span < addr)
		return false;
	if (cuda_may(dev, addr, span))
		return true;
	if (!cuda_may(dev, addr + span - width, width))
		return false;
	for (size_t i = 0; i < height; i++) { /* there may be gaps between rows */
		if (!cuda_may(dev, addr + i * pitch, width))
			return false;
	}
	return true;
}

static CUresult check(struct dev_ctx *ctx, CUdeviceptr addr, size_t size)
{
	CUresult res = cuda_enter(ctx);

	if (!res && !cuda_may(ctx->dev, addr, size))
		res = CUDA_ERROR_INVALID_VALUE;
	return res;
}

/*
 * cuStreamSynchronize() sees the end of a copy 0.8 us later than asking again and again
 * does (7.3 against 6.5 us for 4 KiB from an H200, driver 580), that of a kernel at the
 * same moment. It also waits, on the legacy stream, for streams that block it.
 */
static CUresult wait_for_end(struct dev_stream *st)
{
	uint64_t until = clock_now_ns() + ASK_NS;
	CUresult res;

	do {
		res = cu.cuStreamQuery(cuda_stream_of(st));
	} while (res == CUDA_ERROR_NOT_READY && clock_now_ns() < until);
	return res == CUDA_ERROR_NOT_READY ? cu.cuStreamSynchronize(cuda_stream_of(st))
					   : res;
}

CUresult cuda_copy_end(struct dev_ctx *ctx, struct dev_stream *st)
{
	CUresult res = cuda_enter(ctx);

	if (!res)
		res = cuda_note(ctx, wait_for_end(st));
	cuda_output_look(ctx);
	return res;
}

static CUresult wait_for(struct dev_ctx *ctx, struct dev_stream *st, CUresult res)
{
	if (!res)
		res = wait_for_end(st);
	cuda_output_look(ctx);
	return cuda_note(ctx, res);
}

CUresult cuda_write(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		    const void *host_buf, size_t size)
{
	CUresult res = check(ctx, dst, size);

	if (res || !size)
		return res;
	return wait_for(ctx, st,
			cu.cuMemcpyHtoDAsync(dst, host_buf, size, cuda_stream_of(st)));
}

CUresult cuda_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
		   CUdeviceptr src, size_t size)
{
	CUresult res = check(ctx, src, size);

	if (res || !size)
		return res;
	return wait_for(ctx, st,
			cu.cuMemcpyDtoHAsync(host_buf, src, size, cuda_stream_of(st)));
}

/* A copy counts as so many bytes: a stream holds a thousand commands, and is to have room for
 * others. */
#define COUNTED_LEAST 2048u

/*
 * Whether the driver can take so much without waiting for the stream. The count begins again
 * whenever it is asked whether the stream has ended, and that has. Measured on an H200, driver 580:
 * of copies of up to 64 KiB a stream takes 3.9 MiB, or 1,021 copies; of longer ones two.
 */
static bool may_take(struct dev_ctx *ctx, struct dev_stream *st, size_t size)
{
	struct cuda_run *r = cuda_run_of(ctx, st);

	if (size > DEV_TAKEN_LEAST)
		return false;
	size = MAX(size, COUNTED_LEAST);
	if (atomic_fetch_add_explicit(&r->taken, size, memory_order_relaxed) + size <=
	    DEV_TAKEN_ALL_LEAST)
		return true;
	if (cu.cuStreamQuery(cuda_stream_of(st)) == CUDA_ERROR_NOT_READY) {
		atomic_fetch_sub_explicit(&r->taken, size, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&r->taken, size, memory_order_relaxed);
	return true;
}

/* host_buf is pageable to the driver, so it copies the bytes out. */
CUresult cuda_write_taken(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  size_t pitch, const void *host_buf, size_t width, size_t height)
{
	CUDA_MEMCPY2D d = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host_buf,
		.srcPitch = width,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dst,
		.dstPitch = pitch,
		.WidthInBytes = width,
		.Height = height,
	};
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (!rows_ok(ctx->dev, dst, pitch, width, height))
		return CUDA_ERROR_INVALID_VALUE;
	if (!may_take(ctx, st, width * height))
		return CUDA_ERROR_NOT_READY;
	cuda_is_other(ctx, st);
	if (height == 1)
		res = cu.cuMemcpyHtoDAsync(dst, host_buf, width, cuda_stream_of(st));
	else
		res = cu.cuMemcpy2DAsync(&d, cuda_stream_of(st));
	cuda_was_other(ctx, st);
	return cuda_note(ctx, res);
}

/* Host memory of the guest is named as such: the driver then knows which engine. */
static CUresult copy_row(const struct dev_copy_2d *c, CUstream st)
{
	bool to_host = cuda_is_host(c->dst), from_host = cuda_is_host(c->src);

	if (to_host == from_host)
		return to_host ? cu.cuMemcpyAsync(c->dst, c->src, c->width, st)
			       : cu.cuMemcpyDtoDAsync(c->dst, c->src, c->width, st);
	if (to_host)
		return cu.cuMemcpyDtoHAsync((void *)(uintptr_t)c->dst, c->src, c->width,
					    st);
	return cu.cuMemcpyHtoDAsync(c->dst, (const void *)(uintptr_t)c->src, c->width,
				    st);
}

bool cuda_copy_ok(struct device *dev, const struct dev_copy_2d *c)
{
	return (c->height <= 1 ||
		(c->dst_pitch >= c->width && c->src_pitch >= c->width)) &&
	       rows_ok(dev, c->dst, c->dst_pitch, c->width, c->height) &&
	       rows_ok(dev, c->src, c->src_pitch, c->width, c->height);
}

CUresult cuda_copy(struct dev_ctx *ctx, struct dev_stream *st,
		   const struct dev_copy_2d *c)
{
	CUDA_MEMCPY2D d = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = c->src,
		.srcPitch = c->src_pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = c->dst,
		.dstPitch = c->dst_pitch,
		.WidthInBytes = c->width,
		.Height = c->height,
	};
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (!cuda_copy_ok(ctx->dev, c))
		return CUDA_ERROR_INVALID_VALUE;
	if (!c->width || !c->height)
		return CUDA_SUCCESS;
	cuda_is_other(ctx, st);
	if (c->height == 1)
		res = copy_row(c, cuda_stream_of(st));
	else
		res = cu.cuMemcpy2DAsync(&d, cuda_stream_of(st));
	cuda_was_other(ctx, st);
	return cuda_note(ctx, res);
}

static CUresult fill_1d(CUdeviceptr dst, uint32_t value, unsigned elem_bytes, size_t n,
			CUstream st)
{
	if (elem_bytes == 1)
		return cu.cuMemsetD8Async(dst, (unsigned char)value, n, st);
	if (elem_bytes == 2)
		return cu.cuMemsetD16Async(dst, (unsigned short)value, n, st);
	return cu.cuMemsetD32Async(dst, value, n, st);
}

static CUresult fill_2d(CUdeviceptr dst, size_t pitch, uint32_t value,
			unsigned elem_bytes, size_t width, size_t height, CUstream st)
{
	if (elem_bytes == 1)
		return cu.cuMemsetD2D8Async(dst, pitch, (unsigned char)value, width,
					    height, st);
	if (elem_bytes == 2)
		return cu.cuMemsetD2D16Async(dst, pitch, (unsigned short)value, width,
					     height, st);
	return cu.cuMemsetD2D32Async(dst, pitch, value, width, height, st);
}

bool cuda_fill_ok(struct device *dev, CUdeviceptr dst, size_t pitch, unsigned elem_bytes,
		  size_t width, size_t height)
{
	size_t bytes;

	return (elem_bytes == 1 || elem_bytes == 2 || elem_bytes == 4) &&
	       !(dst % elem_bytes) && !(height > 1 && pitch % elem_bytes) &&
	       !__builtin_mul_overflow(width, (size_t)elem_bytes, &bytes) &&
	       !(height > 1 && pitch < bytes) && rows_ok(dev, dst, pitch, bytes, height);
}

CUresult cuda_fill(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		   size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
		   size_t height)
{
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (!cuda_fill_ok(ctx->dev, dst, pitch, elem_bytes, width, height))
		return CUDA_ERROR_INVALID_VALUE;
	if (!width || !height)
		return CUDA_SUCCESS;
	cuda_is_other(ctx, st);
	if (height == 1)
		res = fill_1d(dst, value, elem_bytes, width, cuda_stream_of(st));
	else
		res = fill_2d(dst, pitch, value, elem_bytes, width, height,
			      cuda_stream_of(st));
	cuda_was_other(ctx, st);
	return cuda_note(ctx, res);
}
