/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels whose reach profile.py looks for, with numbers of one set or another. They touch less, and
 * tell pagemap_double.c what kernels of such a kind would reach, in whole pieces of 2 MiB, as the
 * driver moves memory.
 */
#include <dlfcn.h>

#include "../check.h"

typedef void unmap_fn(uint64_t from, uint64_t to);

static const uint64_t piece = 2 << 20;
static unmap_fn *unmap;

#define ROUNDS 5

static void reaches(const void *p, uint64_t bytes)
{
	uint64_t from = (uint64_t)p & ~(piece - 1);
	uint64_t to = ((uint64_t)p + bytes + piece - 1) & ~(piece - 1);

	unmap(from, to);
}

/* PTX says nothing of addresses that are given to a function. */
__device__ __noinline__ static void store(float *p, float v)
{
	*p = v;
}

/* Linear. */
__global__ void twice(const float *in, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		store(&out[i], 2 * in[i]);
}

/* A slice of what it is given. */
__global__ void slice(float *all, int row, int width)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < width)
		store(&all[(size_t)row * 4096 + i], 1);
}

/* Strided. */
__global__ void columns(float *all, int rows, int pitch, int width)
{
	for (int i = threadIdx.x; i < width; i += blockDim.x)
		store(&all[(size_t)(blockIdx.x % rows) * pitch + i], 1);
}

/* Always the same. */
__global__ void head(float *p)
{
	store(&p[threadIdx.x], 1);
}

/* By a pointer that lies in memory. */
__global__ void follow(float **list)
{
	list[0][threadIdx.x] = 1;
}

/* By n^2 and a divisor: nothing that templates say. */
__global__ void odd(float *p, int n)
{
	store(&p[n * n / 7], 1);
}

int main(int argc, char **argv)
{
	static const int sizes[2][ROUNDS] = {{2 << 20, 11 << 20, 5 << 20, 8 << 20, 3 << 20},
					     {4 << 20, 10 << 20, 7 << 20, 6 << 20, 9 << 20}};
	static const int shapes[2][ROUNDS][2] = {
		{{3, 4 << 20}, {5, 2 << 20}, {2, 7 << 20}, {6, 3 << 19}, {4, 5 << 19}},
		{{4, 5 << 19}, {2, 11 << 19}, {3, 7 << 19}, {5, 2 << 20}, {2, 4 << 20}}};
	int set = argc > 1 ? atoi(argv[1]) : 0;
	float *a, *b, **list;

	check_name = "profiled";
	CK(cudaMalloc(&a, 48 << 20));
	CK(cudaMalloc(&b, 48 << 20));
	CK(cudaMalloc(&list, 4096));
	CK(cudaMemcpy(list, &b, sizeof(b), cudaMemcpyDefault));
	unmap = (unmap_fn *)dlsym(RTLD_DEFAULT, "pagemap_double_unmap");
	REQUIRE(unmap);
	for (int k = 0; k < ROUNDS; k++) {
		int n = sizes[set][k], rows = shapes[set][k][0], pitch = shapes[set][k][1];

		reaches(a, (size_t)n * 4);
		reaches(b, (size_t)n * 4);
		twice<<<4, 256>>>(a, b, n);
		unmap(1, 0);
		reaches(a + (size_t)n, 3 << 20);
		slice<<<4, 256>>>(a, n / 4096, 3 << 18);
		unmap(1, 0);
		for (int r = 0; r < rows; r++)
			reaches(b + (size_t)r * pitch, 4096);
		columns<<<4, 256>>>(b, rows, pitch, 1024);
		unmap(1, 0);
		reaches(a, 4096);
		head<<<k + 1, 256>>>(a);
		unmap(1, 0);
		reaches(list, 8);
		reaches(b, 1024);
		follow<<<k + 1, 256>>>(list);
		unmap(1, 0);
		n = 6000 - 700 * k;
		reaches(a + n * n / 7, 4);
		odd<<<1, 1>>>(a, n);
		unmap(1, 0);
		CK(cudaDeviceSynchronize());
	}
	return pass();
}
