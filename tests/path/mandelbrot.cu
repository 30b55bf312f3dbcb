/* SPDX-License-Identifier: Apache-2.0 */
/* Strong divergence: every lane leaves its loop at another time. f32 and f64. */
#include "check.h"

template <class F> __host__ __device__ int escape(F cx, F cy, int limit)
{
	F x = 0, y = 0;
	int i = 0;

	/* explicit rounding: no fused operations, so that CPU and GPU agree */
#ifdef __CUDA_ARCH__
#define MUL(a, b) mul_rn(a, b)
	auto mul_rn = [](F a, F b) {
		if constexpr (sizeof(F) == 8)
			return __dmul_rn(a, b);
		else
			return __fmul_rn(a, b);
	};
#else
#define MUL(a, b) ((a) * (b))
#endif
	while (i < limit) {
		F xx = MUL(x, x), yy = MUL(y, y), xy = MUL(x, y);
		if (xx + yy > (F)4)
			break;
		y = xy + xy + cy;
		x = xx - yy + cx;
		i++;
	}
	return i;
#undef MUL
}

template <class F> __global__ void mandel(int *out, int w, int h, int limit)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

	if (x < w && y < h)
		out[y * w + x] = escape<F>((F)x * (F)3 / (F)w - (F)2, (F)y * (F)2 / (F)h - (F)1,
					   limit);
}

template <class F> static void run(int w, int h, int limit)
{
	dev_array<int> d(w * h);
	mandel<F><<<dim3((w + 15) / 16, (h + 7) / 8), dim3(16, 8)>>>(d.p, w, h, limit);
	auto got = d.get();
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			int want = escape<F>((F)x * (F)3 / (F)w - (F)2,
					     (F)y * (F)2 / (F)h - (F)1, limit);
			if (got[y * w + x] != want)
				fail("%zu bytes (%d,%d): %d, not %d", sizeof(F), x, y,
				     got[y * w + x], want);
		}
}

int main()
{
	check_name = "mandelbrot";
	run<float>(160, 120, 200);
	run<double>(120, 80, 150);
	return pass();
}
