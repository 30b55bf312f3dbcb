/* SPDX-License-Identifier: Apache-2.0 */
/* cp.async through the pipeline headers, vector loads, volatile and cached loads (sm_80). */
#include "check.h"

#include <cuda_pipeline.h>

__global__ void pipelined(const float4 *in, float4 *out, int tiles)
{
	__shared__ float4 buf[2][64];
	int t = threadIdx.x;

	__pipeline_memcpy_async(&buf[0][t], &in[t], sizeof(float4));
	__pipeline_commit();
	for (int i = 0; i < tiles; i++) {
		if (i + 1 < tiles)
			__pipeline_memcpy_async(&buf[(i + 1) & 1][t], &in[(i + 1) * 64 + t],
						sizeof(float4));
		__pipeline_commit();
		__pipeline_wait_prior(1);
		__syncthreads();
		float4 v = buf[i & 1][63 - t];
		v.x += 1;
		v.w = -v.w;
		out[i * 64 + t] = v;
		__syncthreads();
	}
}

__global__ void loads(const double2 *a, const short4 *b, const uchar2 *c, double *out)
{
	int i = threadIdx.x;
	double2 x = __ldcg(&a[i]);
	short4 y = b[i];
	uchar2 z = c[i];

	out[i] = x.x * x.y + y.x + y.y * 2 + y.z * 3 + y.w * 4 + z.x * 0.5 + z.y;
}

int main()
{
	check_name = "async_copy";
	int tiles = 9, n = tiles * 64;
	rng r(31);
	std::vector<float4> in(n);

	for (auto &v : in)
		v = make_float4(r.f32(), r.f32(), r.f32(), r.f32());
	dev_array<float4> din(in), dout(n);
	pipelined<<<1, 64>>>(din.p, dout.p, tiles);
	CK(cudaDeviceSynchronize());
	auto o = dout.get();
	for (int i = 0; i < n; i++) {
		float4 s = in[i / 64 * 64 + 63 - i % 64];
		if (o[i].x != s.x + 1 || o[i].y != s.y || o[i].z != s.z || o[i].w != -s.w)
			fail("element %d", i);
	}
	std::vector<double2> a(64);
	std::vector<short4> b(64);
	std::vector<uchar2> c(64);
	for (int i = 0; i < 64; i++) {
		a[i] = make_double2(i * 0.5, i + 2);
		b[i] = make_short4((short)(i - 32), (short)(i * 100), -5, (short)-i);
		c[i] = make_uchar2((unsigned char)(i * 3), (unsigned char)(255 - i));
	}
	dev_array<double2> da(a);
	dev_array<short4> db(b);
	dev_array<uchar2> dc(c);
	dev_array<double> dd(64);
	loads<<<1, 64>>>(da.p, db.p, dc.p, dd.p);
	auto d = dd.get();
	for (int i = 0; i < 64; i++) {
		double w = a[i].x * a[i].y + b[i].x + b[i].y * 2 + b[i].z * 3 + b[i].w * 4 +
			   c[i].x * 0.5 + c[i].y;
		if (d[i] != w)
			fail("vector load %d: %g, not %g", i, d[i], w);
	}
	return pass();
}
