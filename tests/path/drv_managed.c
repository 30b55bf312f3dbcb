/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory by the driver's API: what may be asked of a part, several ranges at once, and
 * what is refused. */
#include <string.h>

#include "driver.h"

#define BYTES ((size_t)1 << 20)

static const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
			   host = {CU_MEM_LOCATION_TYPE_HOST, 0},
			   elsewhere = {CU_MEM_LOCATION_TYPE_DEVICE, 9};

static CUdeviceptr managed(size_t bytes)
{
	CUdeviceptr p = 0;

	CK(cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
	return p;
}

static int attribute(CUdeviceptr p, CUmem_range_attribute a)
{
	int v = -77;

	CK(cuMemRangeGetAttribute(&v, sizeof(v), a, p, BYTES));
	return v;
}

/* Neighbours on one page are asked about one by one. */
static void neighbours(void)
{
	static const size_t sizes[] = {5000, 100 << 10, 700 << 10};
	CUdeviceptr p[3], base;
	size_t size;

	for (int i = 0; i < 3; i++)
		p[i] = managed(sizes[i]);
	for (int i = 0; i < 3; i++) {
		CK(cuMemGetAddressRange(&base, &size, p[i] + sizes[i] - 1));
		REQUIRE(base == p[i] && size == sizes[i]);
		CK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					 p[i] + 17));
		REQUIRE(base == p[i]);
		CK(cuMemAdvise(p[i], sizes[i], CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
			       host));
	}
	for (int i = 0; i < 3; i++)
		CK(cuMemFree(p[i]));
}

static void allocating(void)
{
	CUdeviceptr p;
	void *pinned;
	unsigned flags;

	EXPECT(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(&p, 16, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(&p, 16, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(NULL, 16, CU_MEM_ATTACH_GLOBAL),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemAllocManaged(&p, 16, CU_MEM_ATTACH_HOST));
	*(volatile char *)p = 1;
	EXPECT(cuMemFree(p + 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFreeHost((void *)p), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostGetFlags(&flags, (void *)p), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(p));
	EXPECT(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	/* Pinned memory is not managed. */
	CK(cuMemAllocHost(&pinned, BYTES));
	EXPECT(cuMemAdvise((CUdeviceptr)pinned, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY,
			   here),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFreeHost(pinned));
	/* Freed and allocated over and over, none of it is left. */
	for (int i = 0; i < 50; i++) {
		p = managed(64 * BYTES);
		memset((void *)p, i, BYTES);
		CK(cuMemFree(p));
	}
}

static void advice(void)
{
	CUdeviceptr p = managed(BYTES);
	void *data[2];
	int one, two;
	size_t sizes[2] = {sizeof(one), sizeof(two)};
	CUmem_range_attribute both[2] = {CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
					 CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};

	REQUIRE(attribute(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) ==
		CU_DEVICE_INVALID);
	REQUIRE(attribute(p, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) ==
		CU_DEVICE_INVALID);
	CK(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	CK(cuMemPrefetchAsync(p + 4096, BYTES - 4096, host, 0, NULL));
	data[0] = &one;
	data[1] = &two;
	CK(cuMemRangeGetAttributes(data, sizes, both, 2, p, BYTES));
	REQUIRE(one == CU_MEM_LOCATION_TYPE_DEVICE && two == CU_DEVICE_CPU);
	CK(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, here));
	REQUIRE(attribute(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) ==
		CU_DEVICE_INVALID);
	EXPECT(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, elsewhere),
	       CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuMemAdvise(p, BYTES, (CUmem_advise)99, here), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAdvise(p + BYTES, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, here),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAdvise(p, 2 * BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, here),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemRangeGetAttribute(&one, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p,
				      BYTES),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(p));
}

static void in_streams(void)
{
	CUdeviceptr p[3] = {managed(BYTES), managed(BYTES), managed(BYTES)};
	size_t sizes[3] = {BYTES, BYTES, BYTES}, at[2] = {0, 2}, wrong[2] = {0, 3};
	CUmemLocation to[2] = {here, host};
	CUgraph g = NULL;
	CUgraphExec x;
	CUstream st;

	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuMemPrefetchBatchAsync(p, sizes, 3, to, at, 2, 0, st));
	for (int i = 0; i < 3; i++)
		REQUIRE(attribute(p[i], CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) ==
			(i < 2 ? 0 : CU_DEVICE_CPU));
	EXPECT(cuMemPrefetchBatchAsync(p, sizes, 3, to, wrong, 2, 0, st),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPrefetchBatchAsync(p, sizes, 0, to, at, 2, 0, st),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemDiscardBatchAsync(p, sizes, 3, 0, st));
	CK(cuStreamAttachMemAsync(st, p[0], 0, CU_MEM_ATTACH_SINGLE));
	EXPECT(cuStreamAttachMemAsync(st, p[0] + 8, 0, CU_MEM_ATTACH_SINGLE),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamAttachMemAsync(st, p[0], 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPrefetchAsync(p[0], BYTES, elsewhere, 0, st),
	       CUDA_ERROR_INVALID_DEVICE);
	/* A fill of it in a graph. */
	CK(cuStreamBeginCapture(st, CU_STREAM_CAPTURE_MODE_RELAXED));
	CK(cuMemsetD8Async(p[0], 5, BYTES, st));
	CK(cuStreamEndCapture(st, &g));
	CK(cuGraphInstantiate(&x, g, 0));
	CK(cuGraphLaunch(x, st));
	CK(cuStreamSynchronize(st));
	REQUIRE(((char *)p[0])[0] == 5 && ((char *)p[0])[BYTES - 1] == 5);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuMemsetD8Async(p[0], 6, BYTES, st));
	CK(cuMemcpyAsync(p[1], p[0], BYTES, st));
	CK(cuStreamSynchronize(st));
	REQUIRE(((char *)p[1])[BYTES - 1] == 6);
	CK(cuStreamDestroy(st));
	for (int i = 0; i < 3; i++)
		CK(cuMemFree(p[i]));
}

int main(void)
{
	CUcontext ctx;
	CUdevice dev;
	int there;

	check_name = "drv_managed";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDeviceGetAttribute(&there, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, dev));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	if (there) {
		neighbours();
		allocating();
		advice();
		in_streams();
		/* Left to the end of the context. */
		(void)managed(BYTES);
	} else {
		EXPECT(cuMemAllocManaged(&(CUdeviceptr){0}, 16, CU_MEM_ATTACH_GLOBAL),
		       CUDA_ERROR_NOT_SUPPORTED);
	}
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
