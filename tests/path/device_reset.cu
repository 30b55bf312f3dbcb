/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and variables outlive a reset of the device: the runtime registers them once, and
 * each new context has them as the program was built. Shared memory asked for holds too.
 */
#include "check.h"

__device__ int counter = 5;

__global__ void count(int *out)
{
	extern __shared__ int big[];

	big[threadIdx.x] = atomicAdd(&counter, 1);
	__syncthreads();
	*out = counter;
}

int main()
{
	int *p, got, n;

	check_name = "device_reset";
	for (int i = 0; i < 3; i++) {
		CK(cudaMalloc(&p, sizeof(*p)));
		CK(cudaFuncSetAttribute(count, cudaFuncAttributeMaxDynamicSharedMemorySize,
					60000));
		count<<<1, 2, 60000>>>(p);
		CK(cudaGetLastError());
		CK(cudaMemcpy(&got, p, sizeof(got), cudaMemcpyDeviceToHost));
		CK(cudaMemcpyFromSymbol(&n, counter, sizeof(n)));
		REQUIRE(got == 7 && n == 7);
		CK(cudaDeviceReset());
	}
	return pass();
}
