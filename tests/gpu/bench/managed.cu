/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=120 */
/* Managed memory, 1 GiB: touched by the program, by a kernel, and by the program again; moved
 * by prefetching; and read by kernels where it is, as a part of what plain memory gives. */
#include <cuda_runtime.h>
#include <unistd.h>

#include "bench.h"

#define BYTES   (1ull << 30)
#define REPEATS 5

#define CKR(x)                                                                           \
	do {                                                                             \
		cudaError_t e_ = (x);                                                    \
		if (e_) {                                                                \
			fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e_));         \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

__global__ void add(int4 *p, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i].x++;
}

__global__ void answer(volatile int *p)
{
	while (!p[0])
		;
	p[1] = 1;
}

static double run_ms(int *p)
{
	double start = now_us();

	add<<<2048, 256>>>((int4 *)p, BYTES / sizeof(int4));
	CKR(cudaDeviceSynchronize());
	return (now_us() - start) / 1e3;
}

/* A word of each page. */
static double touch_ms(volatile int *p)
{
	double start = now_us();

	for (size_t i = 0; i < BYTES / sizeof(int); i += 1024)
		p[i] += 1;
	return (now_us() - start) / 1e3;
}

/* The kernel waits for a while before it is told. */
static double talk_us(volatile int *p)
{
	double start;

	p[0] = p[1] = 0;
	CKR(cudaMemPrefetchAsync((void *)p, BYTES, {cudaMemLocationTypeDevice, 0}, 0,
				 nullptr));
	CKR(cudaDeviceSynchronize());
	answer<<<1, 1>>>(p);
	usleep(1000);
	start = now_us();
	p[0] = 1;
	while (!p[1])
		;
	start = now_us() - start;
	CKR(cudaDeviceSynchronize());
	return start;
}

static double prefetch_gbps(int *p, cudaMemLocation to)
{
	double start = now_us();

	CKR(cudaMemPrefetchAsync(p, BYTES, to, 0, nullptr));
	CKR(cudaDeviceSynchronize());
	return BYTES / (now_us() - start) / 1e3;
}

static double best_of(int *p)
{
	double best = run_ms(p);

	for (int i = 0; i < 20; i++) {
		double t = run_ms(p);

		best = t < best ? t : best;
	}
	return best;
}

int main(void)
{
	cudaMemLocation device = {cudaMemLocationTypeDevice, 0},
			host = {cudaMemLocationTypeHost, 0};
	double first[REPEATS], gpu[REPEATS], again[REPEATS], back[REPEATS], in[REPEATS],
		out[REPEATS], one[REPEATS], talk[REPEATS];
	int *p, *plain;

	CKR(cudaMalloc(&plain, BYTES));
	CKR(cudaMemset(plain, 0, BYTES));
	run_ms(plain); /* loads the kernel */
	for (int i = 0; i < REPEATS; i++) {
		double start;

		CKR(cudaMallocManaged(&p, BYTES));
		first[i] = touch_ms(p);
		gpu[i] = run_ms(p);
		again[i] = touch_ms(p);
		back[i] = run_ms(p);
		start = now_us();
		if (p[BYTES / sizeof(int) / 2] != 4)
			return 1;
		one[i] = now_us() - start;
		talk[i] = talk_us(p);
		run_ms(p);
		CKR(cudaMemPrefetchAsync(p, BYTES, host, 0, nullptr));
		in[i] = prefetch_gbps(p, device);
		out[i] = prefetch_gbps(p, host);
		CKR(cudaFree(p));
	}
	printf("managed_first %.3f\nmanaged_gpu %.3f\nmanaged_again %.3f\n"
	       "managed_back %.3f\nmanaged_one %.3f\nmanaged_talk %.3f\n"
	       "managed_in %.3f\nmanaged_out %.3f\n",
	       median(first, REPEATS), median(gpu, REPEATS), median(again, REPEATS),
	       median(back, REPEATS), median(one, REPEATS), median(talk, REPEATS),
	       median(in, REPEATS), median(out, REPEATS));
	CKR(cudaMallocManaged(&p, BYTES));
	CKR(cudaMemPrefetchAsync(p, BYTES, device, 0, nullptr));
	printf("managed_there %.3f\n", best_of(plain) / best_of(p));
	return 0;
}
