/* SPDX-License-Identifier: Apache-2.0 */
__device__ int table[4] = {1, 2, 3, 4};

__device__ int twice(int a)
{
	return 2 * a;
}
