/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that grow and shrink between many launches in a row: by cudaLimitStackSize, for kernels
 * that call themselves, and by kernels that need more local memory than any before them.
 */
#include "check.h"

#define LAUNCHES 600
#define BLOCKS   16
#define THREADS  64
#define DEPTH    40

__global__ void tick(unsigned *n)
{
	if (threadIdx.x == 0)
		atomicAdd(n, 1);
}

/* A call reads what it keeps after the next one has returned. */
__device__ __noinline__ unsigned down(unsigned depth, unsigned seed)
{
	volatile unsigned kept[16];
	unsigned below;

	for (unsigned i = 0; i < 16; i++)
		kept[i] = seed + i * depth;
	below = depth ? down(depth - 1, seed * 3 + 1) : seed;
	return below + kept[below % 16];
}

static unsigned down_here(unsigned depth, unsigned seed)
{
	unsigned below = depth ? down_here(depth - 1, seed * 3 + 1) : seed;

	return below + seed + below % 16 * depth;
}

__global__ void deep(unsigned depth, unsigned first, unsigned *out)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] += down(depth, first + i);
}

/* Local memory that ptxas knows of: 2 KiB for each thread. */
__global__ void wide(unsigned first, unsigned *out)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	volatile unsigned kept[512];

	for (unsigned k = 0; k < 512; k++)
		kept[k] = first + k;
	out[i] += kept[(first + i) % 512];
}

static unsigned want[BLOCKS * THREADS], got[BLOCKS * THREADS], ticks;

/* Short kernels, of which many go at once, and among them those that need stacks. */
static void launch_all(unsigned *d, unsigned *n, unsigned depth)
{
	for (unsigned k = 0; k < LAUNCHES; k++) {
		if (k % 40 == 39) {
			wide<<<BLOCKS, THREADS>>>(k, d);
			for (unsigned i = 0; i < BLOCKS * THREADS; i++)
				want[i] += k + (k + i) % 512;
		} else if (k % 40 == 3) {
			deep<<<BLOCKS, THREADS>>>(depth, k, d);
			for (unsigned i = 0; i < BLOCKS * THREADS; i++)
				want[i] += down_here(depth, k + i);
		} else {
			tick<<<BLOCKS, THREADS>>>(n);
			ticks += BLOCKS;
		}
	}
	CK(cudaGetLastError());
}

int main(void)
{
	static const size_t limits[] = {1024, 12288, 1024, 16384, 2048, 12288};
	unsigned *d, *n, all;

	check_name = "stack_limits";
	CK(cudaMalloc(&d, sizeof(got)));
	CK(cudaMalloc(&n, sizeof(*n)));
	CK(cudaMemset(d, 0, sizeof(got)));
	CK(cudaMemset(n, 0, sizeof(*n)));
	for (unsigned r = 0; r < sizeof(limits) / sizeof(limits[0]); r++) {
		size_t now;

		CK(cudaDeviceSetLimit(cudaLimitStackSize, limits[r]));
		CK(cudaDeviceGetLimit(&now, cudaLimitStackSize));
		REQUIRE(now >= limits[r]);
		launch_all(d, n, limits[r] < 4096 ? 1 : DEPTH);
		CK(cudaMemcpy(got, d, sizeof(got), cudaMemcpyDeviceToHost));
		for (unsigned i = 0; i < BLOCKS * THREADS; i++) {
			if (got[i] != want[i])
				fail("%zu bytes, word %u: %u, not %u", limits[r], i, got[i],
				     want[i]);
		}
	}
	CK(cudaMemcpy(&all, n, sizeof(all), cudaMemcpyDeviceToHost));
	REQUIRE(all == ticks);
	return pass();
}
