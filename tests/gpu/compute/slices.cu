/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
//
// A program that keeps all it has in one allocation, as llama.cpp keeps a model: each kernel is
// given all of it and reads a slice, and a round comes by two eighths of it (rounds.h).
#include "rounds.h"

static const unsigned blocks = 528, slices = 8;

static float *model;
static size_t n; /* of a slice */
static float *sums;

/* Sums from before count half, so that each round matters. */
__global__ void layer(const float4 *p, size_t from, size_t n4, float *y)
{
	__shared__ float part[threads_each];
	float sum = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n4;
	     i += (size_t)gridDim.x * blockDim.x) {
		float4 v = p[from + i];

		sum += v.x + v.y + v.z + v.w;
	}
	part[threadIdx.x] = sum;
	for (unsigned half = threads_each / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
	}
	if (threadIdx.x == 0)
		y[blockIdx.x] = 0.5f * y[blockIdx.x] + part[0];
}

static void setup(enum size size)
{
	size_t bytes = size == TINY ? 16u << 20 : (size_t)512 << 20 << 2 * (size - SMALL);

	n = bytes / sizeof(float) / 8 / slices;
	model = get_units(bytes / sizeof(float), 21);
	sums = get_result<float>(blocks);
}

static void round_of_slices(void)
{
	/* The third eighth and the sixth. */
	for (unsigned i = 0; i < 2 * slices; i++) {
		size_t eighth = i < slices ? 2 : 5;

		layer<<<blocks, threads_each>>>((const float4 *)model,
						(eighth * slices + i % slices) * n / 4,
						n / 4, sums);
	}
}

int main(int argc, char **argv)
{
	static const struct app apps[] = {{"slices", setup, round_of_slices, true}};

	return rounds_main(argc, argv, apps, 1);
}
