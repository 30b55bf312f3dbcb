/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc libs=cublas */
/*
 * Routines of cuBLAS on slices of one buffer of 1 GiB, so many rounds, each with matrices of other
 * sizes, which a seed says:
 *
 *	blas SEED ROUNDS
 */
#include <cstdio>
#include <cstdlib>

#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "check.h"

#define TRY(call) CHECK_BY(cublasGetStatusString, call)

static const size_t mib = 1 << 20;
static const int smallest = 1536, step = 128, steps = 22;

/* The linear congruential generator of Numerical Recipes. */
static int next_size(unsigned *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return smallest + (int)(*seed >> 16) % steps * step;
}

static void one_round(cublasHandle_t h, char *all, int m, int n, int k)
{
	const float one = 1, zero = 0;
	const double one_d = 1, zero_d = 0;
	const __half one_h = __float2half(1), zero_h = __float2half(0);
	void *a = all + 100 * mib, *b = all + 400 * mib, *c = all + 700 * mib;
	float *fa = (float *)a, *fb = (float *)b, *fc = (float *)c;

	TRY(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, fa, m, fb, k, &zero, fc, m));
	TRY(cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one_d, (double *)a, m,
			  (double *)b, k, &zero_d, (double *)c, m));
	TRY(cublasHgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one_h, (__half *)a, m,
			  (__half *)b, k, &zero_h, (__half *)c, m));
	TRY(cublasSgemv(h, CUBLAS_OP_N, m, n, &one, fa, m, fb, 1, &zero, fc, 1));
	TRY(cublasSaxpy(h, m * n, &one, fa, 1, fb, 1));
	TRY(cublasSscal(h, m * k, &one, fb, 1));
	TRY(cublasScopy(h, n * k, fa, 1, fc, 1));
	TRY(cublasSgeam(h, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one, fa, n, &one, fb, m, fc, m));
	CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? atoi(argv[1]) : 1;
	int rounds = argc > 2 ? atoi(argv[2]) : 8;
	cublasHandle_t h;
	char *all;

	CHECK(cudaMalloc(&all, 1024 * mib));
	TRY(cublasCreate(&h));
	for (int i = 0; i < rounds; i++) {
		int m = next_size(&seed), n = next_size(&seed), k = next_size(&seed);

		one_round(h, all, m, n, k);
	}
	TRY(cublasDestroy(h));
	return 0;
}
