/* SPDX-License-Identifier: Apache-2.0 */
/* Has a variable in managed memory, and uses it. */
#include <cstdio>

__managed__ int counter = 5;

__global__ void add(int n)
{
	counter += n;
}

int main()
{
	add<<<1, 1>>>(2);
	if (cudaDeviceSynchronize() || counter != 7)
		return 1;
	puts("right");
	return 0;
}
