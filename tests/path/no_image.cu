/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code for one architecture and nothing else (see meson.build). Where the GPU is
 * another one, or runs PTX only, everything that needs the code says so, each way that
 * libraries look for errors: at once, by cudaPeekAtLastError, or by what CUB returns.
 */
#include "check.h"

#include <cub/device/device_reduce.cuh>

#define NO_IMAGE cudaErrorNoKernelImageForDevice

__device__ int symbol;

__global__ void add(int *p)
{
	atomicAdd(p, 1);
}

/* An error is kept until it is asked for. */
static void expect_kept(void)
{
	EXPECT(cudaPeekAtLastError(), NO_IMAGE);
	EXPECT(cudaGetLastError(), NO_IMAGE);
	EXPECT(cudaGetLastError(), cudaSuccess);
}

static void without_image(int *p)
{
	void *args[] = {&p}, *at;
	cudaFuncAttributes a;
	size_t bytes = 0;
	int n = 1;

	for (int i = 0; i < 2; i++) {
		EXPECT(cudaFuncGetAttributes(&a, add), NO_IMAGE);
		expect_kept();
		add<<<1, 1>>>(p);
		expect_kept();
		EXPECT(cudaLaunchKernel((void *)add, 1, 1, args, 0, 0), NO_IMAGE);
		expect_kept();
		EXPECT(cudaFuncSetAttribute(
			       add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024),
		       NO_IMAGE);
		expect_kept();
		EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, add, 32, 0),
		       NO_IMAGE);
		expect_kept();
		EXPECT(cudaMemcpyToSymbol(symbol, &n, sizeof(n)), NO_IMAGE);
		expect_kept();
		EXPECT(cudaGetSymbolAddress(&at, symbol), NO_IMAGE);
		expect_kept();
		EXPECT(cub::DeviceReduce::Sum(nullptr, bytes, p, p + 1, 100), NO_IMAGE);
		(void)cudaGetLastError();
		/* nothing else is lost */
		CK(cudaMemset(p, 0, sizeof(*p)));
		CK(cudaDeviceSynchronize());
	}
}

int main()
{
	check_name = "no_image";
	dev_array<int> d(200);
	cudaDeviceProp prop;
	cudaFuncAttributes a;

	d.zero();
	CK(cudaGetDeviceProperties(&prop, 0));
	if (strstr(prop.name, "software"))
		EXPECT(cudaFuncGetAttributes(&a, add), NO_IMAGE);
	if (cudaFuncGetAttributes(&a, add) == cudaSuccess) {
		add<<<2, 32>>>(d.p);
		REQUIRE(d.get()[0] == 64);
	} else {
		(void)cudaGetLastError();
		without_image(d.p);
	}
	return pass();
}
