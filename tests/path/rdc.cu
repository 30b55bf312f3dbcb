/* SPDX-License-Identifier: Apache-2.0 */
/* Relocatable device code: a call and a variable across translation units (-rdc=true). */
#include "check.h"

__device__ int shared_counter;
extern __device__ int twice_plus(int x);

__global__ void use(int *p)
{
	p[threadIdx.x] = twice_plus(threadIdx.x);
}

int main()
{
	check_name = "rdc";
	dev_array<int> d(64);

	use<<<1, 64>>>(d.p);
	CK(cudaGetLastError());
	auto v = d.get();
	for (int i = 0; i < 64; i++)
		if (v[i] != 2 * i + 1)
			fail("element %d: %d", i, v[i]);
	int n = 0;
	CK(cudaMemcpyFromSymbol(&n, shared_counter, sizeof(n)));
	REQUIRE(n == 64);
	return pass();
}
