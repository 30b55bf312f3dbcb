/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of every shape, on both carriers; host memory; pointer attributes. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/guest.h"
#include "fake.h"

#define BIG ((size_t)3500001) /* four pieces, none of them round */

static struct fake *start(bool window)
{
	struct fake *f = fake_start(window);
	CUcontext ctx;

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	return f;
}

static CUdeviceptr alloc(size_t size)
{
	CUdeviceptr p = 0;

	cr_assert_eq(cuMemAlloc_v2(&p, size), CUDA_SUCCESS);
	return p;
}

static uint8_t *noise(size_t size)
{
	uint8_t *p = malloc(size);
	uint32_t x = 12345;
	size_t i;

	for (i = 0; i < size; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = (uint8_t)(x >> 24);
	}
	return p;
}

static void round_trip(bool window)
{
	struct fake *f = start(window);
	uint8_t *in = noise(BIG), *out = calloc(1, BIG);
	CUdeviceptr p = alloc(BIG);

	cr_assert_eq(cuMemcpyHtoD_v2(p, in, BIG), CUDA_SUCCESS);
	cr_expect_eq(f->pieces, 4);
	cr_assert_eq(cuMemcpyDtoH_v2(out, p, BIG), CUDA_SUCCESS);
	cr_expect_eq(memcmp(in, out, BIG), 0);
	memset(out, 0, BIG);
	cr_assert_eq(cuMemcpyHtoDAsync_v2(p + 1, in, BIG - 1, NULL), CUDA_SUCCESS);
	cr_assert_eq(cuMemcpyDtoHAsync_v2(out, p + 1, BIG - 1, CU_STREAM_PER_THREAD),
		     CUDA_SUCCESS);
	cr_expect_eq(memcmp(in, out, BIG - 1), 0);
	cr_assert_eq(cuMemcpy(p, (uintptr_t)in + 5, 1000), CUDA_SUCCESS);
	cr_assert_eq(cuMemcpy((uintptr_t)out, p, 1000), CUDA_SUCCESS);
	cr_expect_eq(memcmp(in + 5, out, 1000), 0);
	cr_assert_eq(cuMemcpy((uintptr_t)out + 7, (uintptr_t)in, 100), CUDA_SUCCESS);
	cr_expect_eq(memcmp(in, out + 7, 100), 0);
	free(in);
	free(out);
}

Test(guest_copy, round_trip_window, .timeout = 60)
{
	round_trip(true);
}

Test(guest_copy, round_trip_stream, .timeout = 60)
{
	round_trip(false);
}

Test(guest_copy, wrong_copies_are_refused_and_the_next_goes_on)
{
	char buf[16];
	CUdeviceptr p;
	CUstream st;

	start(true);
	p = alloc(16);
	cr_expect_eq(cuMemcpyHtoD_v2(p, buf, 0), CUDA_SUCCESS);
	cr_expect_eq(cuMemcpyHtoD_v2(0, buf, 4), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemcpyHtoD_v2(p, NULL, 4), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemcpyHtoD_v2((uintptr_t)buf, buf, 4), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemcpyHtoD_v2(FAKE_BAND_BASE + FAKE_HEAP_SIZE - 8, buf, 16),
		     CUDA_ERROR_INVALID_VALUE, "refused by the worker");
	cr_expect_eq(cuMemcpyDtoH_v2(buf, FAKE_BAND_BASE + FAKE_HEAP_SIZE - 8, 16),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemcpyDtoH_v2(buf, p, 16), CUDA_SUCCESS, "and goes on");
	cr_expect_eq(cuMemsetD8Async(0x1000, 1, 4, NULL), CUDA_ERROR_INVALID_VALUE,
		     "at once");
	cr_expect_eq(cuMemsetD32Async(p + 1, 1, 4, NULL), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemsetD2D16Async(p, 8, 1, 0, 4, NULL), CUDA_SUCCESS);
	cr_assert_eq(cuStreamCreate(&st, 0), CUDA_SUCCESS);
	cr_assert_eq(cuStreamDestroy_v2(st), CUDA_SUCCESS);
	cr_expect_eq(cuMemcpyHtoDAsync_v2(p, buf, 16, st), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(cuMemAlloc_v2(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemAlloc_v2(&p, 1ull << 40), CUDA_ERROR_OUT_OF_MEMORY);
}

/*
 * An asynchronous copy to memory that is not there fails at once. What was there when the
 * worker was asked shows at the next call that waits.
 */
Test(guest_copy, a_posted_copys_error_shows_at_the_next_wait)
{
	struct fake *f = start(true);
	char buf[16];

	cr_expect_eq(cuMemcpyHtoDAsync_v2(FAKE_BAND_BASE + FAKE_HEAP_SIZE, buf, 16, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemsetD8Async(FAKE_BAND_BASE + FAKE_HEAP_SIZE - 8, 0, 16, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	f->beyond = 4096;
	cr_expect_eq(cuMemcpyHtoDAsync_v2(FAKE_BAND_BASE + FAKE_HEAP_SIZE, buf, 16, NULL),
		     CUDA_SUCCESS);
	cr_expect_eq(cuCtxSynchronize(), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void copy_2d(bool window, size_t width, size_t rows)
{
	struct fake *f = start(window);
	size_t pitch = width + 13, dpitch = width + 40, i;
	uint8_t *in = noise(rows * pitch), *out = calloc(rows, pitch);
	CUdeviceptr p = alloc(rows * dpitch);
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = in,
			   .srcPitch = pitch,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstDevice = p,
			   .dstPitch = dpitch,
			   .dstXInBytes = 3,
			   .WidthInBytes = width,
			   .Height = rows};

	cr_assert_eq(cuMemcpy2D_v2(&c), CUDA_SUCCESS);
	fake_drain(f);
	for (i = 0; i < rows; i++)
		cr_assert_eq(memcmp(f->heap + (p - FAKE_BAND_BASE) + i * dpitch + 3,
				    in + i * pitch, width),
			     0, "row %zu", i);
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			    .srcDevice = p,
			    .srcPitch = dpitch,
			    .srcXInBytes = 3,
			    .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			    .dstDevice = (uintptr_t)out,
			    .dstPitch = pitch,
			    .WidthInBytes = width,
			    .Height = rows};
	cr_assert_eq(cuMemcpy2DAsync_v2(&c, NULL), CUDA_SUCCESS);
	for (i = 0; i < rows; i++) {
		cr_assert_eq(memcmp(out + i * pitch, in + i * pitch, width), 0);
		cr_assert_eq(out[i * pitch + width], 0, "written past the row");
	}
	c.srcPitch = width + 2;
	cr_expect_eq(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE, "pitch below width");
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	cr_expect_eq(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	free(in);
	free(out);
}

Test(guest_copy, rows_short_window, .timeout = 60)
{
	copy_2d(true, 1000, 3000);
}

Test(guest_copy, rows_short_stream, .timeout = 60)
{
	copy_2d(false, 17, 50);
}

Test(guest_copy, rows_long, .timeout = 60)
{
	copy_2d(true, 1500000, 3);
}

Test(guest_copy, a_box_is_copied_by_pitch_and_height)
{
	struct fake *f = start(true);
	uint8_t *in = noise(4 * 5 * 6);
	CUdeviceptr p = alloc(1000);
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = in,
			   .srcPitch = 6,
			   .srcHeight = 5,
			   .srcXInBytes = 1,
			   .srcY = 1,
			   .srcZ = 1,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstDevice = p,
			   .dstPitch = 10,
			   .dstHeight = 4,
			   .WidthInBytes = 5,
			   .Height = 3,
			   .Depth = 2};
	size_t x, y, z;

	cr_assert_eq(cuMemcpy3D_v2(&c), CUDA_SUCCESS);
	fake_drain(f);
	for (z = 0; z < 2; z++)
		for (y = 0; y < 3; y++)
			for (x = 0; x < 5; x++)
				cr_assert_eq(f->heap[(p - FAKE_BAND_BASE) +
						     (z * 4 + y) * 10 + x],
					     in[((z + 1) * 5 + y + 1) * 6 + x + 1]);
	c.srcHeight = 2;
	cr_expect_eq(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
	c.Depth = 0;
	cr_expect_eq(cuMemcpy3D_v2(&c), CUDA_SUCCESS);
	free(in);
}

Test(guest_copy, host_memory)
{
	unsigned flags = 99, type = 99;
	CUdeviceptr dp;
	char own[4096];
	void *p = NULL, *host = NULL;
	CUdeviceptr base;
	size_t size;

	start(true);
	cr_expect_eq(cuMemHostAlloc(&p, 0, 0), CUDA_SUCCESS);
	cr_expect_eq(p, NULL);
	cr_expect_eq(cuMemHostAlloc(&p, 100, 0x100), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(cuMemHostAlloc(&p, 5000, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
	memset(p, 1, 5000);
	cr_expect_eq(cuMemHostGetFlags(&flags, (char *)p + 100), CUDA_SUCCESS);
	cr_expect_eq(flags, CU_MEMHOSTALLOC_DEVICEMAP, "the driver drops PORTABLE");
	cr_expect_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					   (uintptr_t)p + 9),
		     CUDA_SUCCESS);
	cr_expect_eq(type, CU_MEMORYTYPE_HOST);
	cr_expect_eq(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
					   (uintptr_t)p + 9),
		     CUDA_SUCCESS);
	cr_expect_eq(host, (char *)p + 9);
	cr_expect_eq(cuMemGetAddressRange_v2(&base, &size, (uintptr_t)p + 4999),
		     CUDA_SUCCESS);
	cr_expect(base == (uintptr_t)p && size == 5000);
	cr_expect_eq(cuMemHostRegister_v2((char *)p + 64, 64, 0),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemFreeHost((char *)p + 1), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemFreeHost(p), CUDA_SUCCESS);
	cr_expect_eq(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	cr_expect_eq(cuMemHostRegister_v2(own, sizeof(own), 0), CUDA_SUCCESS);
	cr_expect_eq(cuMemHostRegister_v2(own, 64, 0),
		     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	cr_expect_eq(cuMemHostUnregister(own + 64), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemHostGetDevicePointer_v2(&dp, own, 0), CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(cuMemFreeHost(own), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuMemHostUnregister(own), CUDA_SUCCESS);
}

Test(guest_copy, pointer_attributes)
{
	CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned type = 99, on = 99;
	int ordinal = 99, local;
	uint64_t dptr = 99, id = 0;
	void *data[] = {&type, &dptr, &ordinal};
	CUdeviceptr p;

	start(true);
	p = alloc(100);
	cr_expect_eq(cuPointerGetAttributes(3, attrs, data, p + 4), CUDA_SUCCESS);
	cr_expect_eq(type, CU_MEMORYTYPE_DEVICE);
	cr_expect_eq(dptr, p + 4);
	cr_expect_eq(ordinal, 0);
	cr_expect_eq(cuPointerGetAttributes(3, attrs, data, (uintptr_t)&local),
		     CUDA_SUCCESS);
	cr_expect_eq(type, 0);
	cr_expect_eq(dptr, 0);
	cr_expect_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					   (uintptr_t)&local),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuPointerGetAttribute(&type, 77, p), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p), 0);
	cr_expect_eq(id, 42);
	cr_expect_eq(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
	cr_expect_eq(on, 0);
	on = 1;
	cr_expect_eq(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
	on = 99;
	cr_expect_eq(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
	cr_expect_eq(on, 1);
	cr_expect_eq(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_CONTEXT, p),
		     CUDA_ERROR_INVALID_VALUE);
}

/* The worker's answers are kept, however many there are. */
static void each_is_asked_about_once(uint32_t block)
{
	struct fake *f = start(true);
	unsigned n = FAKE_HEAP_SIZE / block, i, round, calls;
	CUdeviceptr base;
	size_t size;

	f->block = block;
	for (round = 0; round < 3; round++) {
		calls = f->calls;
		for (i = 0; i < n; i++)
			cr_assert_eq(
				cuMemsetD8Async(FAKE_BAND_BASE + i * block + 37 * round,
						1, block - 200, NULL),
				CUDA_SUCCESS);
		cr_expect_eq(f->calls, round ? calls : calls + n);
	}
	calls = f->calls;
	cr_assert_eq(
		cuMemGetAddressRange_v2(&base, &size, FAKE_BAND_BASE + 3 * block + 100),
		CUDA_SUCCESS);
	cr_expect_eq(base, FAKE_BAND_BASE + 3 * block);
	cr_expect_eq(size, block - 100);
	cr_expect_eq(cuMemsetD8Async(FAKE_BAND_BASE + block, 1, block + 1, NULL),
		     CUDA_ERROR_INVALID_VALUE, "beyond its end");
	cr_expect_eq(f->calls, calls);
	cr_assert_eq(cuMemFree_v2(FAKE_BAND_BASE + block), CUDA_SUCCESS);
	calls = f->calls;
	for (i = 0; i < n; i++)
		cr_assert_eq(cuMemsetD8Async(FAKE_BAND_BASE + i * block, 1, 16, NULL),
			     CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1, "about the one that was freed");
}

Test(guest_copy, small_allocations_are_asked_about_once, .timeout = 60)
{
	each_is_asked_about_once(4096);
}

Test(guest_copy, odd_allocations_are_asked_about_once, .timeout = 60)
{
	each_is_asked_about_once(3 * 1024 * 512);
}

Test(guest_copy, large_allocations_are_asked_about_once, .timeout = 60)
{
	each_is_asked_about_once(4u << 20);
}

Test(guest_copy, pointers_are_asked_about_once, .timeout = 60)
{
	struct fake *f = start(true);
	unsigned long long id;
	unsigned calls, type;
	CUcontext ctx;
	char to[16];

	f->block = 1u << 20;
	cr_assert_eq(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					   FAKE_BAND_BASE + (5u << 20)),
		     CUDA_SUCCESS);
	calls = f->calls;
	cr_assert_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					   FAKE_BAND_BASE + (5u << 20) + 77),
		     CUDA_SUCCESS);
	cr_expect_eq(type, CU_MEMORYTYPE_DEVICE);
	cr_expect_eq(f->calls, calls);
	cr_assert_eq(cuMemcpyDtoH_v2(to, FAKE_BAND_BASE + (5u << 20), 16), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1, "the copy alone");
	cr_assert_eq(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
	cr_assert_eq(cuCtxDestroy_v2(ctx), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	calls = f->calls;
	cr_assert_eq(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					   FAKE_BAND_BASE + (5u << 20)),
		     CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1, "what the context had is gone");
}

static void *copy_there(void *ctx)
{
	bool ok = cuCtxSetCurrent(ctx) == CUDA_SUCCESS;

	for (unsigned i = 0; i < 3000 && ok; i++)
		ok = cuMemsetD8Async(FAKE_BAND_BASE + i % 64 * 65536, 1, 16, NULL) ==
		     CUDA_SUCCESS;
	return ok ? NULL : ctx;
}

/* Neighbours come and go while others are looked up. */
Test(guest_copy, allocations_are_looked_up_while_others_are_freed, .timeout = 60)
{
	struct fake *f = start(true);
	pthread_t t[4];
	CUcontext ctx;
	void *bad;

	f->block = 65536;
	cr_assert_eq(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, copy_there, ctx), 0);
	for (unsigned i = 0; i < 1000; i++) {
		CUdeviceptr p = FAKE_BAND_BASE + i % 64 * 65536;

		cr_assert_eq(cuMemsetD8Async(p, 1, 16, NULL), CUDA_SUCCESS);
		cr_assert_eq(cuMemFree_v2(p), CUDA_SUCCESS);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		cr_expect_eq(bad, NULL);
	}
}
