/* SPDX-License-Identifier: Apache-2.0 */
/* Holds memory and runs a kernel that never ends. Prints "running" when it does. */
#include <cstdio>
#include <cstdlib>

__global__ void forever(volatile int *p)
{
	while (*p != 12345)
		;
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? (size_t)atoi(argv[1]) : 64;
	int *p;

	if (cudaMalloc(&p, mib << 20) || cudaMemset(p, 0, 4))
		return 2;
	forever<<<2, 64>>>(p);
	if (cudaStreamQuery(0) != cudaErrorNotReady)
		return 3;
	printf("running\n");
	fflush(stdout);
	cudaError_t e = cudaDeviceSynchronize();
	printf("%s\n", cudaGetErrorName(e));
	return e == cudaSuccess ? 4 : 1; /* it cannot have ended */
}
