/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays: of every kind, mipmapped as well; copies between them, device memory and
 * host memory, of boxes at odd places; what a driver answers to nonsense.
 */
#include "driver.h"

#include <stdbool.h>

static uint8_t *noise(size_t n, uint32_t seed)
{
	uint8_t *p = malloc(n);

	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (uint8_t)(seed >> 24);
	}
	return p;
}

static CUarray make(size_t w, size_t h, size_t d, CUarray_format f, unsigned channels,
		    unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {w, h, d, f, channels, flags}, back;
	CUarray a;

	CK(cuArray3DCreate(&a, &desc));
	CK(cuArray3DGetDescriptor(&back, a));
	REQUIRE(back.Width == w && back.Height == h && back.Depth == d &&
		back.Format == f && back.NumChannels == channels && back.Flags == flags);
	return a;
}

/* Host to array to device memory to another array to host, a box in the middle. */
static void round_trip(size_t w, size_t h, size_t d, unsigned elem, unsigned flags)
{
	CUarray_format f = elem == 1 ? CU_AD_FORMAT_UNSIGNED_INT8 : CU_AD_FORMAT_FLOAT;
	unsigned channels = elem == 1 ? 1 : elem / 4;
	size_t rows = h ? h : 1, slices = d ? d : 1, row = w * elem;
	size_t pitch = row + 32, size = pitch * (rows + 1) * slices;
	CUarray a = make(w, h, d, f, channels, flags), b = make(w, h, d, f, channels, flags);
	uint8_t *in = noise(size, 7), *out = noise(size, 8);
	CUDA_MEMCPY3D c = {0};
	CUdeviceptr dev;
	CUstream st;

	CK(cuMemAlloc(&dev, size));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = in;
	c.srcPitch = pitch;
	c.srcHeight = rows + 1;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = a;
	c.WidthInBytes = row;
	c.Height = rows;
	c.Depth = slices;
	CK(cuMemcpy3D(&c));

	memset(&c, 0, sizeof(c)); /* all of it, packed */
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = a;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = dev;
	c.dstPitch = row;
	c.dstHeight = rows;
	c.WidthInBytes = row;
	c.Height = rows;
	c.Depth = slices;
	CK(cuMemcpy3DAsync(&c, st));

	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = dev;
	c.srcPitch = row;
	c.srcHeight = rows;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = b;
	c.WidthInBytes = row;
	c.Height = rows;
	c.Depth = slices;
	CK(cuMemcpy3DAsync(&c, st));

	/* a part of b over a part of itself's copy in a, one element and row further */
	size_t x = w > 2 ? elem : 0, y = rows > 2 ? 1 : 0, z = slices > 2 ? 1 : 0;

	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = b;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = a;
	c.dstXInBytes = x;
	c.dstY = y;
	c.dstZ = z;
	c.WidthInBytes = row - x;
	c.Height = rows - y;
	c.Depth = slices - z;
	CK(cuMemcpy3DAsync(&c, st));

	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = a;
	c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	c.dstDevice = (uintptr_t)out;
	c.dstPitch = pitch;
	c.dstHeight = rows + 1;
	c.WidthInBytes = row;
	c.Height = rows;
	c.Depth = slices;
	CK(cuMemcpy3DAsync(&c, st));
	CK(cuStreamSynchronize(st));

	for (size_t k = 0; k < slices; k++) {
		for (size_t j = 0; j < rows; j++) {
			for (size_t i = 0; i < row; i++) {
				bool moved = k >= z && j >= y && i >= x;
				size_t to = (k * (rows + 1) + j) * pitch + i;
				size_t from = moved ? ((k - z) * (rows + 1) + j - y) * pitch +
							      i - x
						    : to;

				if (out[to] != in[from])
					fail("%zux%zux%zu of %u, flags %x: byte %zu,%zu,%zu",
					     w, h, d, elem, flags, i, j, k);
			}
		}
	}
	CK(cuStreamDestroy(st));
	CK(cuMemFree(dev));
	CK(cuArrayDestroy(a));
	CK(cuArrayDestroy(b));
	free(in);
	free(out);
}

/* Many bytes without gaps, there and back, in one array and in slices. */
static void large(size_t depth)
{
	const size_t row = 1500 * 4, size = row * 1001 * depth;
	CUarray a = make(1500, 1001, depth > 1 ? depth : 0, CU_AD_FORMAT_FLOAT, 1, 0);
	uint8_t *in = noise(size, 11), *out = calloc(1, size);
	CUDA_MEMCPY3D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = in,
			    .srcPitch = row,
			    .srcHeight = 1001,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .dstArray = a,
			    .WidthInBytes = row,
			    .Height = 1001,
			    .Depth = depth};
	CUDA_MEMCPY3D from = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .srcArray = a,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = out,
			      .dstPitch = row,
			      .dstHeight = 1001,
			      .WidthInBytes = row,
			      .Height = 1001,
			      .Depth = depth};

	CK(cuMemcpy3D(&to));
	CK(cuMemcpy3D(&from));
	REQUIRE(memcmp(in, out, size) == 0);
	memset(in, 3, size / 2);
	memset(out, 0, size);
	CK(cuMemcpy3DAsync(&to, CU_STREAM_PER_THREAD));
	CK(cuMemcpy3DAsync(&from, CU_STREAM_PER_THREAD));
	CK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	REQUIRE(memcmp(in, out, size) == 0);
	CK(cuArrayDestroy(a));
	free(in);
	free(out);
}

static void one_row(void)
{
	CUarray a = make(64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	CUarray b = make(64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	uint8_t *in = noise(1024, 3), out[256];
	CUdeviceptr dev;

	CK(cuMemAlloc(&dev, 1024));
	CK(cuMemcpyHtoA(a, 16, in, 100));
	CK(cuMemcpyAtoA(b, 4, a, 16, 100));
	CK(cuMemcpyAtoD(dev, b, 4, 100));
	CK(cuMemcpyDtoA(a, 8, dev, 100));
	CK(cuMemcpyAtoH(out, a, 8, 100));
	REQUIRE(memcmp(out, in, 100) == 0);
	CK(cuMemcpyHtoAAsync(a, 0, in, 256, 0));
	CK(cuMemcpyAtoHAsync(out, a, 0, 256, 0));
	CK(cuStreamSynchronize(0));
	REQUIRE(memcmp(out, in, 256) == 0);
	/* one row and no more */
	EXPECT(cuMemcpyHtoA(a, 0, in, 300), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoA(a, 252, in, 8), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoA(a, 0, NULL, 4), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemcpyHtoA(a, 0, in, 0));
	EXPECT(cuMemcpyAtoD(dev, a, 0, 260), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyAtoA(b, 0, a, 0, 16384), CUDA_ERROR_INVALID_VALUE);
	CK(cuArrayDestroy(a));
	CK(cuArrayDestroy(b));
	CK(cuMemFree(dev));
	free(in);
}

static void bounds(void)
{
	CUarray a = make(64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	CUarray one = make(16, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	static char host[65536];
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = host,
			   .srcPitch = 256,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = a,
			   .WidthInBytes = 256,
			   .Height = 64};

	CK(cuMemcpy2D(&c));
	CK(cuMemcpy2DUnaligned(&c));
	c.dstXInBytes = 4;
	EXPECT(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpy2DAsync(&c, 0), CUDA_ERROR_INVALID_VALUE);
	c.dstXInBytes = 0;
	c.dstY = 1;
	EXPECT(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
	c.dstY = 65;
	c.Height = 0;
	CK(cuMemcpy2D(&c));
	c.dstY = 0;
	c.Height = 64;
	c.dstArray = NULL;
	EXPECT(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
	c.dstArray = one;
	c.WidthInBytes = 64;
	EXPECT(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
	c.Height = 1;
	CK(cuMemcpy2D(&c));
	CK(cuArrayDestroy(a));
	CK(cuArrayDestroy(one));
}

static CUresult try(size_t w, size_t h, size_t d, int f, unsigned channels, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {w, h, d, (CUarray_format)f, channels, flags};
	CUarray a;
	CUresult r = cuArray3DCreate(&a, &desc);

	if (r == CUDA_SUCCESS)
		CK(cuArrayDestroy(a));
	return r;
}

static void refused(void)
{
	const int fl = CU_AD_FORMAT_FLOAT;
	CUDA_ARRAY_DESCRIPTOR d2;
	CUarray a;

	EXPECT(try(0, 64, 0, fl, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 0, 4, fl, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 0, fl, 3, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 0, fl, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 0, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 0, 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 32, 6, fl, 1, CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 5, fl, 1, CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 4, fl, 1, CUDA_ARRAY3D_TEXTURE_GATHER),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 0, fl, 1, CUDA_ARRAY3D_DEPTH_TEXTURE), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(64, 64, 0, fl, 1, 0x400), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(131073, 2, 0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(131073, 0, 0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(16385, 2, 2, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(2, 2, 2049, 1, 1, CUDA_ARRAY3D_LAYERED), CUDA_ERROR_INVALID_VALUE);
	EXPECT(try(16384, 16384, 16384, fl, 4, 0), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(try(32769, 2, 0, 1, 1, CUDA_ARRAY3D_SURFACE_LDST), CUDA_SUCCESS);
	EXPECT(cuArray3DCreate(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuArrayGetDescriptor(&d2, NULL), CUDA_ERROR_INVALID_HANDLE);
	a = make(64, 64, 0, CU_AD_FORMAT_HALF, 2, 0);
	CK(cuArrayGetDescriptor(&d2, a));
	REQUIRE(d2.Width == 64 && d2.Height == 64 && d2.NumChannels == 2);
	CK(cuArrayDestroy(a));
}

static void mipmaps(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0}, d;
	CUarray level[7], again;
	CUmipmappedArray m;

	CK(cuMipmappedArrayCreate(&m, &desc, 100)); /* as many as there can be */
	for (unsigned i = 0; i < 7; i++) {
		CK(cuMipmappedArrayGetLevel(&level[i], m, i));
		CK(cuArray3DGetDescriptor(&d, level[i]));
		REQUIRE(d.Width == 64u >> i && d.Height == (i < 5 ? 32u >> i : 1));
	}
	CK(cuMipmappedArrayGetLevel(&again, m, 3));
	REQUIRE(again == level[3]);
	EXPECT(cuMipmappedArrayGetLevel(&again, m, 7), CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < 7; i++) {
		size_t row = (64u >> i) * 4, rows = i < 5 ? 32u >> i : 1;
		uint8_t *in = noise(row * rows, i), *out = noise(row * rows, 99);
		CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
				   .srcHost = in,
				   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
				   .dstArray = level[i],
				   .WidthInBytes = row,
				   .Height = rows};
		CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
				      .srcArray = level[i],
				      .dstMemoryType = CU_MEMORYTYPE_HOST,
				      .dstHost = out,
				      .WidthInBytes = row,
				      .Height = rows};

		CK(cuMemcpy2D(&c));
		CK(cuMemcpy2D(&back));
		REQUIRE(memcmp(in, out, row * rows) == 0);
		c.Height++;
		EXPECT(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
		free(in);
		free(out);
	}
	EXPECT(cuMipmappedArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	CK(cuMipmappedArrayDestroy(m));
}

/* Arrays come out of the same memory as everything else, and go back. */
static void memory(void)
{
	size_t before, with, after, total;
	CUarray a[8];

	CK(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 8; i++)
		a[i] = make(1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	CK(cuMemGetInfo(&with, &total));
	REQUIRE(before - with >= 8 * 4u << 20);
	for (int i = 0; i < 8; i++)
		CK(cuArrayDestroy(a[i]));
	CK(cuMemGetInfo(&after, &total));
	REQUIRE(after > with);
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;

	check_name = "drv_arrays";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	round_trip(1024, 0, 0, 4, 0);
	round_trip(33, 17, 0, 1, 0);
	round_trip(100, 100, 0, 16, CUDA_ARRAY3D_SURFACE_LDST);
	round_trip(33, 17, 5, 4, 0);
	round_trip(700, 900, 2, 4, CUDA_ARRAY3D_LAYERED);
	round_trip(64, 0, 5, 4, CUDA_ARRAY3D_LAYERED);
	round_trip(16, 16, 6, 8, CUDA_ARRAY3D_CUBEMAP);
	round_trip(16, 16, 12, 4, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED);
	round_trip(131072, 2, 0, 16, 0); /* rows longer than a message */
	large(1);
	large(3);
	one_row();
	bounds();
	refused();
	mipmaps();
	memory();
	CK(cuCtxDestroy(ctx));
	return pass();
}
