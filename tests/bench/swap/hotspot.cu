/* SPDX-License-Identifier: Apache-2.0 */
/* How the heat of a chip spreads: a five-point stencil with a source in every cell. */
#include "workload.h"

#include <algorithm>

#define SIDE 16

/* A cell's temperature after one step; the border is insulated. */
__host__ __device__ static inline float next(const float *t, const float *power, size_t w,
					     size_t h, size_t x, size_t y)
{
	size_t i = y * w + x;
	float c = t[i], twice = c + c;
	float up = t[y ? i - w : i], down = t[y + 1 < h ? i + w : i];
	float left = t[x ? i - 1 : i], right = t[x + 1 < w ? i + 1 : i];

	return c + (power[i] + (up + down - twice) * 0.20f +
		    (left + right - twice) * 0.15f + (80.0f - c) * 0.01f);
}

__global__ void step(const float *in, const float *power, float *out, size_t w, size_t h)
{
	size_t x = blockIdx.x * SIDE + threadIdx.x;

	for (size_t y = blockIdx.y * SIDE + threadIdx.y; y < h; y += gridDim.y * SIDE)
		if (x < w)
			out[y * w + x] = next(in, power, w, h, x, y);
}

int main(int argc, char **argv)
{
	workload work("hotspot", argc, argv, 192, 4);
	size_t cells = work.bytes / 12, w = 128;

	while (w * w < cells)
		w *= 2;
	size_t h = cells / w, n = w * h;
	std::vector<float> heat(n), power(n), other(n);
	in_parts(n, [&](size_t i, size_t end) {
		for (; i < end; i++) {
			heat[i] = 320.0f + 20.0f * mixf((uint32_t)i, 1, 0);
			power[i] = mixf((uint32_t)i, 2, 0);
		}
	});
	work_array<float> dheat(work, heat), dpower(work, power), dother(work, n);
	float *src = dheat.p, *dst = dother.p;

	work.traffic = 12 * n * work.steps;
	work.loaded(step);
	for (int s = 0; s < work.steps; s++, std::swap(src, dst)) {
		dim3 blocks(grid(w, SIDE), std::min(grid(h, SIDE), 65535u));

		step<<<blocks, dim3(SIDE, SIDE)>>>(src, dpower.p, dst, w, h);
		CK(cudaGetLastError());
	}
	work.took();

	for (int s = 0; s < work.steps; s++, std::swap(heat, other))
		in_parts(h, [&](size_t y, size_t end) {
			for (; y < end; y++)
				for (size_t x = 0; x < w; x++)
					other[y * w + x] = next(heat.data(), power.data(),
								w, h, x, y);
		});
	(src == dheat.p ? dheat : dother).must_equal(heat, "heat");
	(src == dheat.p ? dother : dheat).must_equal(other, "heat one step before");
	dpower.must_equal(power, "power");
	return pass();
}
