/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LU decomposition in place, without pivoting, in tiles: the tile on the
 * diagonal, then the tiles right of and below it, then all that is left. The
 * matrix is made on the device as the product of two that are known: L with a
 * few small integers per row and ones on the diagonal, U of small integers with
 * powers of two on the diagonal. All that is computed is then exact, so the
 * result must be these two, bit by bit. Each step takes another matrix.
 */
#include "workload.h"

#define TILE 16
#define FEW  6 /* entries of a row of L beside the diagonal, at most */

/* Entry t of row i of L: its column, and its value. */
__host__ __device__ static inline uint32_t lower_at(uint32_t seed, uint32_t i, int t)
{
	return mix(seed, i, t) % i;
}

__host__ __device__ static inline int lower_is(uint32_t seed, uint32_t i, int t)
{
	return (int)(mix(seed + 1, i, t) % 5) - 2;
}

__host__ __device__ static inline int upper(uint32_t seed, uint32_t i, uint32_t j)
{
	uint32_t h = mix(seed + 2, i, j);

	if (i > j)
		return 0;
	return i < j   ? (int)(h % 7) - 3
	       : h & 1 ? -(1 << (h >> 1 & 1))
		       : 1 << (h >> 1 & 1);
}

__global__ void make(float *a, uint32_t n, uint32_t seed)
{
	uint32_t i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
	int sum = upper(seed, i, j);

	for (int t = 0; i && t < FEW; t++)
		sum += lower_is(seed, i, t) * upper(seed, lower_at(seed, i, t), j);
	a[(size_t)i * n + j] = (float)sum;
}

__global__ void corner(float *a, size_t n)
{
	__shared__ float s[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;

	s[y][x] = a[y * n + x];
	for (int k = 0; k < TILE - 1; k++) {
		__syncthreads();
		if (y > k && x == k)
			s[y][k] = s[y][k] / s[k][k];
		__syncthreads();
		if (y > k && x > k)
			s[y][x] = s[y][x] - s[y][k] * s[k][x];
	}
	__syncthreads();
	a[y * n + x] = s[y][x];
}

/* Tiles right of the corner (y 0) and below it (y 1), block x of each. */
__global__ void edges(float *a, size_t n)
{
	__shared__ float c[TILE][TILE], s[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	size_t far = (blockIdx.x + 1) * (size_t)TILE;
	float *tile = blockIdx.y ? a + far * n : a + far;

	c[y][x] = a[y * n + x];
	s[y][x] = tile[y * n + x];
	for (int k = 0; k < TILE; k++) {
		__syncthreads();
		if (!blockIdx.y && y > k)
			s[y][x] = s[y][x] - c[y][k] * s[k][x];
		if (blockIdx.y && x == k)
			s[y][k] = s[y][k] / c[k][k];
		__syncthreads();
		if (blockIdx.y && x > k)
			s[y][x] = s[y][x] - s[y][k] * c[k][x];
	}
	__syncthreads();
	tile[y * n + x] = s[y][x];
}

__global__ void rest(float *a, size_t n)
{
	__shared__ float l[TILE][TILE], u[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	size_t row = (blockIdx.y + 1) * (size_t)TILE,
	       column = (blockIdx.x + 1) * (size_t)TILE;
	float sum;

	l[y][x] = a[(row + y) * n + x];
	u[y][x] = a[y * n + column + x];
	__syncthreads();
	sum = a[(row + y) * n + column + x];
	for (int k = 0; k < TILE; k++)
		sum = sum - l[y][k] * u[k][x];
	a[(row + y) * n + column + x] = sum;
}

static void check_result(const std::vector<float> &got, uint32_t n, uint32_t seed)
{
	in_parts(n, [&](size_t first, size_t end) {
		for (uint32_t i = (uint32_t)first; i < end; i++) {
			std::vector<float> want(n);

			for (int t = 0; i && t < FEW; t++)
				want[lower_at(seed, i, t)] += (float)lower_is(seed, i, t);
			for (uint32_t j = i; j < n; j++)
				want[j] = (float)upper(seed, i, j);
			/* of zero, either */
			for (uint32_t j = 0; j < n; j++)
				if (got[(size_t)i * n + j] != want[j])
					fail("row %u, column %u of %u: %g instead of %g",
					     i, j, n, (double)got[(size_t)i * n + j],
					     (double)want[j]);
		}
	});
}

int main(int argc, char **argv)
{
	workload work("lud", argc, argv, 100, 2);
	uint32_t n = (uint32_t)sqrt((double)work.bytes / 4.0) / TILE * TILE,
		 tiles = n / TILE;
	work_array<float> a(work, (size_t)n * n);
	dim3 block(TILE, TILE);

	for (size_t left = n; left; left -= TILE)
		work.traffic += left * left * 8 * work.steps;
	work.loaded(make, corner, edges, rest);
	for (int s = 0; s < work.steps; s++) {
		make<<<dim3(tiles, tiles), block>>>(a.p, n, 10 * s);
		for (uint32_t k = 0; k < tiles; k++) {
			float *at = a.p + ((size_t)k * n + k) * TILE;
			unsigned left = tiles - k - 1;

			corner<<<1, block>>>(at, n);
			if (!left)
				break;
			edges<<<dim3(left, 2), block>>>(at, n);
			rest<<<dim3(left, left), block>>>(at, n);
		}
		CK(cudaGetLastError());
	}
	work.took();

	std::vector<float> got((size_t)n * n);
	CK(cudaMemcpy(got.data(), a.p, got.size() * 4, cudaMemcpyDeviceToHost));
	check_result(got, n, 10 * (work.steps - 1));
	return pass();
}
