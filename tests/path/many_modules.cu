/* SPDX-License-Identifier: Apache-2.0 */
/* Several translation units, each with a module of its own and equal names inside. */
#include "check.h"

void tag_from_a(int *p);

namespace
{
__constant__ int salt = 2000;
__global__ void tag(int *p)
{
	p[threadIdx.x] = salt + threadIdx.x;
}
}

int main()
{
	check_name = "many_modules";
	dev_array<int> d(64);

	tag_from_a(d.p);
	tag<<<1, 32>>>(d.p + 32);
	auto v = d.get();
	for (int i = 0; i < 64; i++)
		if (v[i] != (i < 32 ? 1000 + i : 2000 + i - 32))
			fail("element %d: %d", i, v[i]);
	int other = 3000;
	CK(cudaMemcpyToSymbol(salt, &other, sizeof(other)));
	tag_from_a(d.p);
	tag<<<1, 32>>>(d.p + 32);
	v = d.get();
	REQUIRE(v[0] == 1000 && v[32] == 3000);
	return pass();
}
