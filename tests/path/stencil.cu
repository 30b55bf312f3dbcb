/* SPDX-License-Identifier: Apache-2.0 */
/* Heat on a grid with a shared-memory halo; double-buffered over several steps. */
#include "check.h"

#include <utility>

#define T 16

__global__ void step(const float *in, float *out, int w, int h)
{
	__shared__ float s[T + 2][T + 2];
	int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
	int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
	auto at = [&](int ax, int ay) {
		return ax >= 0 && ax < w && ay >= 0 && ay < h ? in[ay * w + ax] : 0.0f;
	};

	s[ly][lx] = at(x, y);
	if (threadIdx.x == 0)
		s[ly][0] = at(x - 1, y);
	if (threadIdx.x == T - 1)
		s[ly][T + 1] = at(x + 1, y);
	if (threadIdx.y == 0)
		s[0][lx] = at(x, y - 1);
	if (threadIdx.y == T - 1)
		s[T + 1][lx] = at(x, y + 1);
	__syncthreads();
	if (x < w && y < h)
		out[y * w + x] = 0.5f * s[ly][lx] + 0.125f * (s[ly - 1][lx] + s[ly + 1][lx] +
							      s[ly][lx - 1] + s[ly][lx + 1]);
}

int main()
{
	check_name = "stencil";
	int w = 150, h = 101, steps = 20;
	rng r(5);
	std::vector<float> a(w * h), b(w * h);

	for (auto &x : a)
		x = r.f32() * 100;
	dev_array<float> da(a), db(w * h);
	float *src = da.p, *dst = db.p;
	for (int s = 0; s < steps; s++) {
		step<<<dim3((w + T - 1) / T, (h + T - 1) / T), dim3(T, T)>>>(src, dst, w, h);
		std::swap(src, dst);
		for (int y = 0; y < h; y++)
			for (int x = 0; x < w; x++) {
				auto at = [&](int ax, int ay) {
					return ax >= 0 && ax < w && ay >= 0 && ay < h ?
						       a[ay * w + ax] :
						       0.0f;
				};
				b[y * w + x] = 0.5f * at(x, y) +
					       0.125f * (at(x, y - 1) + at(x, y + 1) +
							 at(x - 1, y) + at(x + 1, y));
			}
		std::swap(a, b);
	}
	std::vector<float> got(w * h);
	CK(cudaMemcpy(got.data(), src, w * h * 4, cudaMemcpyDeviceToHost));
	double e = worst_error(got, a);
	if (!(e < 1e-4))
		fail("error %g", e);
	return pass();
}
