/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

__global__ void add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

int main()
{
	check_name = "vector_add";
	for (int n : { 1, 31, 1000, 1 << 20 }) {
		rng r(n);
		std::vector<float> a(n), b(n), want(n);

		for (int i = 0; i < n; i++) {
			a[i] = r.f32();
			b[i] = r.f32();
			want[i] = a[i] + b[i];
		}
		dev_array<float> da(a), db(b), dc(n);
		add<<<(n + 255) / 256, 256>>>(da.p, db.p, dc.p, n);
		CK(cudaGetLastError());
		if (dc.get() != want)
			fail("n=%d: sums differ", n);
	}
	return pass();
}
