/* SPDX-License-Identifier: Apache-2.0 */
/* The other half of rdc: device code that is linked, not inlined. */
extern __device__ int shared_counter;

__device__ __noinline__ int twice_plus(int x)
{
	atomicAdd(&shared_counter, 1);
	return 2 * x + 1;
}
