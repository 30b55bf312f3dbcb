/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=60 libs=cublas */
/*
 * cuBLAS in threads that have called nothing of CUDA before: handles, streams and memory are
 * another thread's, and the library itself has to make a context current.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define THREADS 4
#define N       300

struct job {
	cublasHandle_t handle;
	cudaStream_t stream;
	double *matrix, *vector, *product;
	double sum;
};

/* All ones times (1, 2, ..., N): each sum is N * (N + 1) / 2. */
static void *multiply(void *arg)
{
	struct job *j = (struct job *)arg;
	double one = 1, zero = 0;

	CHECK(cublasSetStream(j->handle, j->stream));
	CHECK(cublasDgemv(j->handle, CUBLAS_OP_N, N, N, &one, j->matrix, N, j->vector, 1,
			  &zero, j->product, 1));
	CHECK(cublasDasum(j->handle, N, j->product, 1, &j->sum));
	return NULL;
}

static void fill(double *device, int n, double first, double step)
{
	double *v = (double *)malloc(n * sizeof(double));

	for (int i = 0; i < n; i++)
		v[i] = first + i * step;
	CHECK(cudaMemcpy(device, v, n * sizeof(double), cudaMemcpyHostToDevice));
	free(v);
}

static void prepare(struct job *j)
{
	CHECK(cublasCreate(&j->handle));
	CHECK(cudaStreamCreate(&j->stream));
	CHECK(cudaMalloc(&j->matrix, N * N * sizeof(double)));
	CHECK(cudaMalloc(&j->vector, N * sizeof(double)));
	CHECK(cudaMalloc(&j->product, N * sizeof(double)));
	fill(j->matrix, N * N, 1, 0);
	fill(j->vector, N, 1, 1);
}

int main(void)
{
	struct job jobs[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		prepare(&jobs[i]);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, multiply, &jobs[i]));
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], NULL));
		if (jobs[i].sum != (double)N * N * (N + 1) / 2) {
			printf("FAIL blas_threads: %.1f\n", jobs[i].sum);
			return 1;
		}
	}
	puts("ok blas_threads");
	return 0;
}
