/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

__global__ void forces(const float4 *pos, float3 *acc, int n)
{
	extern __shared__ float4 tile[];
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float4 me = pos[i];
	float3 a = { 0, 0, 0 };

	for (int t = 0; t < n; t += blockDim.x) {
		tile[threadIdx.x] = pos[t + threadIdx.x];
		__syncthreads();
#pragma unroll 8
		for (int j = 0; j < (int)blockDim.x; j++) {
			float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
			float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
			float f = tile[j].w * inv * inv * inv;
			a.x += dx * f;
			a.y += dy * f;
			a.z += dz * f;
		}
		__syncthreads();
	}
	acc[i] = a;
}

int main()
{
	check_name = "nbody";
	int n = 512;
	rng r(9);
	std::vector<float4> p(n);

	for (auto &q : p)
		q = make_float4(r.f32(), r.f32(), r.f32(), fabsf(r.f32()));
	dev_array<float4> dp(p);
	dev_array<float3> da(n);
	forces<<<n / 128, 128, 128 * sizeof(float4)>>>(dp.p, da.p, n);
	auto got = da.get();
	for (int i = 0; i < n; i++) {
		double a[3] = { 0, 0, 0 };
		for (int j = 0; j < n; j++) {
			double d[3] = { (double)p[j].x - p[i].x, (double)p[j].y - p[i].y,
					(double)p[j].z - p[i].z };
			double q = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01;
			double f = p[j].w / (q * sqrt(q));
			for (int k = 0; k < 3; k++)
				a[k] += d[k] * f;
		}
		double e = fabs(got[i].x - a[0]) + fabs(got[i].y - a[1]) + fabs(got[i].z - a[2]);
		double m = fabs(a[0]) + fabs(a[1]) + fabs(a[2]);
		if (!(e < 1e-4 * (m + 1)))
			fail("body %d: off by %g of %g", i, e, m);
	}
	return pass();
}
