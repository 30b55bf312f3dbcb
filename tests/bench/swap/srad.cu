/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speckle reducing anisotropic diffusion: an image is smoothed, but little where its
 * coefficient of variation is far from that of the whole. Each step takes the statistics
 * of the image, then a coefficient for each pixel, then the divergence.
 */
#include "workload.h"

#include <algorithm>
#include <atomic>

#define BLOCK  256
#define LAMBDA 0.125f /* of 0.5 / 4 neighbours */

typedef unsigned long long u64;

struct image {
	size_t w, h;
	__host__ __device__ size_t up(size_t i) const
	{
		return i >= w ? i - w : i;
	}
	__host__ __device__ size_t down(size_t i) const
	{
		return i + w < w * h ? i + w : i;
	}
	__host__ __device__ size_t left(size_t i) const
	{
		return i % w ? i - 1 : i;
	}
	__host__ __device__ size_t right(size_t i) const
	{
		return (i + 1) % w ? i + 1 : i;
	}
};

__host__ __device__ static inline float coefficient(const float *j, image m, size_t i,
						    float q0)
{
	float c = j[i], a = j[m.up(i)] - c, b = j[m.down(i)] - c;
	float d = j[m.left(i)] - c, e = j[m.right(i)] - c;
	float g2 = (a * a + b * b + d * d + e * e) / (c * c);
	float l = (a + b + d + e) / c, den = 1.0f + 0.25f * l;
	float q = (0.5f * g2 - 0.0625f * (l * l)) / (den * den);
	float k = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));

	return k < 0.0f ? 0.0f : k > 1.0f ? 1.0f : k;
}

__host__ __device__ static inline float diffused(const float *j, const float *k, image m,
						 size_t i)
{
	float c = j[i], here = k[i];
	float away =
		k[m.down(i)] * (j[m.down(i)] - c) + k[m.right(i)] * (j[m.right(i)] - c);

	return c + LAMBDA * (away + here * (j[m.up(i)] - c) + here * (j[m.left(i)] - c));
}

/* Sum and sum of squares, in fixed point: the same in whatever order. */
__global__ void statistics(const float *j, size_t n, u64 *sums)
{
	__shared__ u64 part[2][BLOCK];
	u64 sum = 0, squares = 0;

	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK) {
		u64 v = (u64)(j[i] * FIX);
		sum += v;
		squares += v * v;
	}
	part[0][threadIdx.x] = sum;
	part[1][threadIdx.x] = squares;
	for (int half = BLOCK / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half) {
			part[0][threadIdx.x] += part[0][threadIdx.x + half];
			part[1][threadIdx.x] += part[1][threadIdx.x + half];
		}
	}
	if (!threadIdx.x) {
		atomicAdd(&sums[0], part[0][0]);
		atomicAdd(&sums[1], part[1][0]);
	}
}

__global__ void coefficients(const float *j, float *k, image m, float q0)
{
	size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x;

	if (i < m.w * m.h)
		k[i] = coefficient(j, m, i, q0);
}

__global__ void diffuse(const float *j, const float *k, float *out, image m)
{
	size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x;

	if (i < m.w * m.h)
		out[i] = diffused(j, k, m, i);
}

/* The image's own squared coefficient of variation. */
static float variation(const u64 *sums, size_t n)
{
	double mean = (double)sums[0] / (double)n;

	return (float)(((double)sums[1] / (double)n - mean * mean) / (mean * mean));
}

int main(int argc, char **argv)
{
	workload work("srad", argc, argv, 192, 3);
	image m = {256, 0};
	size_t pixels = work.bytes / 12;

	while (m.w * m.w < pixels)
		m.w *= 2;
	m.h = std::max<size_t>(pixels / m.w, 1);
	size_t n = m.w * m.h;
	std::vector<float> j(n), k(n), other(n);
	in_parts(n, [&](size_t i, size_t end) {
		for (; i < end; i++)
			j[i] = 1.0f + (i / 64 % 2 ? 0.5f : 0.0f) +
			       0.5f * mixf((uint32_t)i, 3, 0);
	});
	work_array<float> dj(work, j), dk(work, n), dother(work, n);
	work_array<u64> dsums(work, 2);
	float *src = dj.p, *dst = dother.p;

	work.traffic = 24 * n * work.steps;
	work.loaded(statistics, coefficients, diffuse);
	for (int s = 0; s < work.steps; s++, std::swap(src, dst)) {
		u64 sums[2];

		CK(cudaMemset(dsums.p, 0, sizeof(sums)));
		statistics<<<std::min(grid(n, BLOCK), 1024u), BLOCK>>>(src, n, dsums.p);
		CK(cudaMemcpy(sums, dsums.p, sizeof(sums), cudaMemcpyDeviceToHost));
		coefficients<<<grid(n, BLOCK), BLOCK>>>(src, dk.p, m, variation(sums, n));
		diffuse<<<grid(n, BLOCK), BLOCK>>>(src, dk.p, dst, m);
		CK(cudaGetLastError());
	}
	work.took();

	for (int s = 0; s < work.steps; s++, std::swap(j, other)) {
		std::atomic<u64> sum{0}, squares{0};

		in_parts(n, [&](size_t i, size_t end) {
			u64 part = 0, part_squares = 0;

			for (; i < end; i++) {
				u64 v = (u64)(j[i] * FIX);
				part += v;
				part_squares += v * v;
			}
			sum += part;
			squares += part_squares;
		});
		u64 sums[2] = {sum, squares};
		float q0 = variation(sums, n);
		in_parts(n, [&](size_t i, size_t end) {
			for (; i < end; i++)
				k[i] = coefficient(j.data(), m, i, q0);
		});
		in_parts(n, [&](size_t i, size_t end) {
			for (; i < end; i++)
				other[i] = diffused(j.data(), k.data(), m, i);
		});
	}
	(src == dj.p ? dj : dother).must_equal(j, "image");
	(src == dj.p ? dother : dj).must_equal(other, "image one step before");
	dk.must_equal(k, "coefficients");
	return pass();
}
