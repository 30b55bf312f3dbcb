/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A neighbour to be afraid of: hostile wild | abort | endless | leak
 * wild exits 0 if the store is reported as CUDA reports it; the others do not come back.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

__global__ void store(int *p)
{
	p[threadIdx.x] = 42;
}

__global__ void spin(volatile int *p)
{
	while (p[0] == 0)
		;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int *p;

	if (cudaMalloc(&p, 1 << 20) != cudaSuccess ||
	    cudaMemset(p, 0, 1 << 20) != cudaSuccess) {
		printf("no memory\n");
		return 2;
	}
	if (!strcmp(mode, "wild")) {
		store<<<1, 32>>>((int *)0x123456789000ull);
		cudaError_t e = cudaDeviceSynchronize();
		printf("%s\n", cudaGetErrorName(e));
		return e == cudaErrorIllegalAddress ? 0 : 1;
	}
	if (!strcmp(mode, "abort")) {
		spin<<<1, 32>>>(p);
		abort();
	}
	if (!strcmp(mode, "endless")) {
		spin<<<4, 128>>>(p);
		printf("spinning\n");
		fflush(stdout);
		cudaDeviceSynchronize();
	}
	if (!strcmp(mode, "leak")) {
		while (cudaMalloc(&p, 8 << 20) == cudaSuccess)
			;
		printf("full\n");
		fflush(stdout);
		pause();
	}
	return 3;
}
