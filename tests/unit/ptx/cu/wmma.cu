/* SPDX-License-Identifier: Apache-2.0 */
// Matrix fragments of handlers/mma.h, in every element type that it offers.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

template <int M, int N, int K, typename A, typename C, typename LA, typename LB>
__device__ void one(const A *a, const A *b, const C *c, C *d, int ld)
{
	wmma::fragment<wmma::matrix_a, M, N, K, A, LA> fa;
	wmma::fragment<wmma::matrix_b, M, N, K, A, LB> fb;
	wmma::fragment<wmma::accumulator, M, N, K, C> fc;

	wmma::load_matrix_sync(fa, a, ld);
	wmma::load_matrix_sync(fb, b, ld);
	wmma::load_matrix_sync(fc, c, ld, wmma::mem_row_major);
	wmma::mma_sync(fc, fa, fb, fc);
	for (int i = 0; i < fc.num_elements; i++)
		fc.x[i] = fc.x[i] * C(2);
	wmma::store_matrix_sync(d, fc, ld, wmma::mem_col_major);
}

__global__ void halves(const __half *a, const __half *b, float *c, __half *h, float *d)
{
	one<16, 16, 16, __half, float, wmma::row_major, wmma::col_major>(a, b, c, d, 16);
	one<32, 8, 16, __half, float, wmma::col_major, wmma::row_major>(a, b, c, d, 32);
	one<8, 32, 16, __half, __half, wmma::row_major, wmma::row_major>(a, b, h, h, 32);
}

__global__ void bytes(const signed char *a, const unsigned char *b, int *c)
{
	one<16, 16, 16, signed char, int, wmma::row_major, wmma::col_major>(a, a, c, c, 16);
	one<8, 32, 16, unsigned char, int, wmma::col_major, wmma::col_major>(b, b, c, c, 16);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__global__ void wide(const __nv_bfloat16 *a, const float *t, const double *x, float *c,
		     double *d)
{
	one<16, 16, 16, __nv_bfloat16, float, wmma::row_major, wmma::col_major>(a, a, c, c,
										16);
	one<8, 8, 4, double, double, wmma::row_major, wmma::col_major>(x, x, d, d, 8);

	wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
	wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
	wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;

	wmma::fill_fragment(fc, 0.0f);
	wmma::load_matrix_sync(fa, t, 16);
	wmma::load_matrix_sync(fb, t, 16);
	for (int i = 0; i < fa.num_elements; i++)
		fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
	wmma::mma_sync(fc, fa, fb, fc);
	wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
#endif
