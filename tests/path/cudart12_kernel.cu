/* SPDX-License-Identifier: Apache-2.0 */
/* The device half of cudart12: plain C names, PTX old enough for any 12.x runtime. */
extern "C" __global__ void saxpy(const float *x, float *y, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = a * x[i] + y[i];
}
