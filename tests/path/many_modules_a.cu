/* SPDX-License-Identifier: Apache-2.0 */
/* Second translation unit of many_modules: its own fatbin, same names in anonymous scope. */
#include <cuda_runtime.h>

namespace
{
__constant__ int salt = 1000;
__global__ void tag(int *p)
{
	p[threadIdx.x] = salt + threadIdx.x;
}
}

void tag_from_a(int *p)
{
	tag<<<1, 32>>>(p);
}
