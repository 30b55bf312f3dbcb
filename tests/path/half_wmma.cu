/* SPDX-License-Identifier: Apache-2.0 */
/* f16 and bf16 arithmetic and the matrix units through the toolkit's headers (sm_80). */
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void half_math(const float *a, const float *b, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	__half x = __float2half(a[i]), y = __float2half(b[i]);
	out[i * 4] = __half2float(__hadd(x, y));
	out[i * 4 + 1] = __half2float(__hfma(x, y, x));
	__half2 p = __hmul2(__halves2half2(x, y), __halves2half2(y, y));
	out[i * 4 + 2] = __low2float(p) + __high2float(p);
	__nv_bfloat16 u = __float2bfloat16(a[i]), v = __float2bfloat16(b[i]);
	out[i * 4 + 3] = __bfloat162float(__hmul(u, v));
}

template <class T> __device__ T from(float x);
template <> __device__ __half from<__half>(float x)
{
	return __float2half(x);
}
template <> __device__ __nv_bfloat16 from<__nv_bfloat16>(float x)
{
	return __float2bfloat16(x);
}

template <class T, int M, int N, int K>
__global__ void mma(const float *a, const float *b, float *c)
{
	__shared__ T sa[M * K], sb[K * N];

	for (int i = threadIdx.x; i < M * K; i += 32)
		sa[i] = from<T>(a[i]);
	for (int i = threadIdx.x; i < K * N; i += 32)
		sb[i] = from<T>(b[i]);
	__syncwarp();
	wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
	wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> fb;
	wmma::fragment<wmma::accumulator, M, N, K, float> fc;
	wmma::fill_fragment(fc, 0.5f);
	wmma::load_matrix_sync(fa, sa, K);
	wmma::load_matrix_sync(fb, sb, K);
	wmma::mma_sync(fc, fa, fb, fc);
	wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}

__global__ void mma_s8(const signed char *a, const signed char *b, int *c)
{
	wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
	wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;

	wmma::fill_fragment(fc, 7);
	wmma::load_matrix_sync(fa, a, 16);
	wmma::load_matrix_sync(fb, b, 16);
	wmma::mma_sync(fc, fa, fb, fc);
	wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}

template <class T, int M, int N, int K> static void run_mma(const char *what, rng &r)
{
	std::vector<float> a(M * K), b(K * N);

	/* small integers: exact in every format */
	for (auto &x : a)
		x = (float)(int)(r.u32() % 15) - 7;
	for (auto &x : b)
		x = (float)(int)(r.u32() % 15) - 7;
	dev_array<float> da(a), db(b), dc(M * N);
	mma<T, M, N, K><<<1, 32>>>(da.p, db.p, dc.p);
	CK(cudaDeviceSynchronize());
	auto c = dc.get();
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			float s = 0.5f;
			for (int k = 0; k < K; k++)
				s += a[i * K + k] * b[j * K + k];
			if (c[i * N + j] != s)
				fail("%s m%dn%dk%d (%d,%d): %g, not %g", what, M, N, K, i, j,
				     c[i * N + j], s);
		}
}

int main()
{
	check_name = "half_wmma";
	int n = 500;
	rng r(17);
	std::vector<float> a(n), b(n);

	for (int i = 0; i < n; i++) {
		a[i] = r.f32() * 8;
		b[i] = r.f32() * 8;
	}
	dev_array<float> da(a), db(b), dout(n * 4);
	half_math<<<(n + 127) / 128, 128>>>(da.p, db.p, dout.p, n);
	CK(cudaDeviceSynchronize());
	auto o = dout.get();
	for (int i = 0; i < n; i++) {
		/* the CPU's own rounding of the same exact values, through the host's f16 */
		float x = __half2float(__float2half_rn(a[i])), y = __half2float(__float2half_rn(b[i]));
		float u = __bfloat162float(__float2bfloat16_rn(a[i]));
		float v = __bfloat162float(__float2bfloat16_rn(b[i]));
		float w0 = __half2float(__float2half_rn(x + y));
		float w1 = __half2float(__double2half((double)x * y + x));
		float w2 = __half2float(__float2half_rn(x * y)) +
			   __half2float(__float2half_rn(y * y));
		float w3 = __bfloat162float(__float2bfloat16_rn(u * v));
		if (o[i * 4] != w0 || o[i * 4 + 1] != w1 || o[i * 4 + 2] != w2 ||
		    o[i * 4 + 3] != w3)
			fail("element %d: %g %g %g %g, not %g %g %g %g", i, o[i * 4],
			     o[i * 4 + 1], o[i * 4 + 2], o[i * 4 + 3], w0, w1, w2, w3);
	}
	run_mma<__half, 16, 16, 16>("f16", r);
	run_mma<__half, 32, 8, 16>("f16", r);
	run_mma<__half, 8, 32, 16>("f16", r);
	run_mma<__nv_bfloat16, 16, 16, 16>("bf16", r);

	std::vector<signed char> ia(256), ib(256);
	for (auto &x : ia)
		x = (signed char)r.u32();
	for (auto &x : ib)
		x = (signed char)r.u32();
	dev_array<signed char> dia(ia), dib(ib);
	dev_array<int> dic(256);
	mma_s8<<<1, 32>>>(dia.p, dib.p, dic.p);
	auto c = dic.get();
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++) {
			int s = 7;
			for (int k = 0; k < 16; k++)
				s += ia[i * 16 + k] * ib[k * 16 + j];
			if (c[j * 16 + i] != s)
				fail("s8 (%d,%d): %d, not %d", i, j, c[j * 16 + i], s);
		}
	return pass();
}
