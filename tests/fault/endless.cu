/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	endless MIB [stays]
 *
 * Holds memory and runs a kernel that never ends. Prints "running" when it does. With `stays` a
 * host function does not end either: the kernel cannot be made to stand still.
 */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

__global__ void forever(volatile int *p)
{
	while (*p != 12345)
		;
}

static void CUDART_CB waits(void *)
{
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? (size_t)atoi(argv[1]) : 64;
	cudaStream_t beside;
	int *p;

	if (cudaMalloc(&p, mib << 20) || cudaMemset(p, 0, 4))
		return 2;
	if (argc > 2 && (cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking) ||
			 cudaLaunchHostFunc(beside, waits, NULL)))
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
