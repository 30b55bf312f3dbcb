/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
/* Writes where nothing is. */
#include <cstdio>

__global__ void fault(void)
{
	*(volatile int *)0x10 = 1;
}

int main(void)
{
	fault<<<1, 1>>>();
	puts(cudaGetErrorString(cudaDeviceSynchronize()));
	return 0;
}
