/* SPDX-License-Identifier: Apache-2.0 */
// Relocatable code: with linked_two.cu it makes a module.
__device__ int twice(int);
extern __device__ int table[4];

__global__ void k(int *x)
{
	x[threadIdx.x] = twice(table[threadIdx.x & 3]);
}
