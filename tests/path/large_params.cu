/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters up to 32,764 bytes, more than 64 of them, and a const struct by value. */
#include "check.h"

struct huge {
	int v[8188]; /* with the pointer behind it 32,760 of 32,764 bytes */
};

__global__ void sum_huge(const __grid_constant__ huge h, int *out)
{
	int s = 0;

	for (int i = threadIdx.x; i < 8188; i += 32)
		s += h.v[i];
	for (int d = 16; d; d /= 2)
		s += __shfl_xor_sync(~0u, s, d);
	if (threadIdx.x == 0)
		*out = s;
}

#define P8(n) int a##n##0, int a##n##1, int a##n##2, int a##n##3, int a##n##4, int a##n##5, int a##n##6, int a##n##7
#define S8(n) a##n##0 + a##n##1 * 2 + a##n##2 * 3 + a##n##3 * 4 + a##n##4 * 5 + a##n##5 * 6 + a##n##6 * 7 + a##n##7 * 8
__global__ void many(int *out, P8(0), P8(1), P8(2), P8(3), P8(4), P8(5), P8(6), P8(7), P8(8),
		     char c, double d)
{
	*out = S8(0) + S8(1) + S8(2) + S8(3) + S8(4) + S8(5) + S8(6) + S8(7) + S8(8) + c + (int)d;
}

struct small_const {
	const char tag;
	const double weight;
	const float *ptr;
};

__global__ void by_const(const small_const s, float *out)
{
	*out = s.ptr[0] * (float)s.weight + s.tag;
}

int main()
{
	check_name = "large_params";
	static huge h;
	int want = 0;
	rng r(8);

	for (auto &x : h.v) {
		x = (int)(r.u32() % 1000);
		want += x;
	}
	dev_array<int> out(1);
	sum_huge<<<1, 32>>>(h, out.p);
	CK(cudaGetLastError());
	if (out.get()[0] != want)
		fail("sum %d, not %d", out.get()[0], want);

#define A8(n) n##0, n##1, n##2, n##3, n##4, n##5, n##6, n##7
	many<<<1, 1>>>(out.p, A8(1), A8(2), A8(3), A8(4), A8(5), A8(6), A8(7), A8(8), A8(9), 'c',
		       8.0);
	want = 'c' + 8;
	for (int g = 1; g <= 9; g++)
		for (int i = 0; i < 8; i++)
			want += (g * 10 + i) * (i + 1);
	if (out.get()[0] != want)
		fail("74 parameters: %d, not %d", out.get()[0], want);

	dev_array<float> in(std::vector<float>{ 2.5f }), res(1);
	by_const<<<1, 1>>>(small_const{ 3, 4.0, in.p }, res.p);
	REQUIRE(res.get()[0] == 13.0f);
	return pass();
}
