/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit integers: every operator of C, signed and not, edges against edges. */
#include "check.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

#define OPS 16

/* x / 0 and MIN / -1 are left out: they mean nothing. */
template <class T> __host__ __device__ void all_ops(T a, T b, u128 *out)
{
	int n = (int)(b & 127);
	bool whole = b != 0 && !(b == (T)-1 && a == (T)((u128)1 << 127));
	T narrow = (T)(unsigned long long)b, small = (T)(int)b;

	out[0] = (u128)a + (u128)b;
	out[1] = (u128)a - (u128)b;
	out[2] = (u128)a * (u128)b;
	out[3] = whole ? (u128)(a / b) : 1;
	out[4] = whole ? (u128)(a % b) : 1;
	out[5] = (u128)a << n;
	out[6] = (u128)(a >> n);
	out[7] = (u128)(a < b) | (u128)(a <= b) << 1 | (u128)(a == b) << 2 |
		 (u128)(a > b) << 3;
	out[8] = narrow ? (u128)(a / narrow) : 2;
	out[9] = narrow ? (u128)(a % narrow) : 2;
	out[10] = small && small != (T)-1 ? (u128)(a / small) : 3;
	out[11] = small && small != (T)-1 ? (u128)(a % small) : 3;
	out[12] = (u128)(a / 10) ^ (u128)(a % 1000000007);
	out[13] = (u128)-a ^ (u128)~b;
	out[14] = (u128)(a ^ -b) * 3 + (u128)(b >> 1);
	out[15] = (u128)(long long)a * (u128)(long long)b;
}

template <class T> __global__ void run(const u128 *v, int n, u128 *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n * n)
		all_ops<T>((T)v[i / n], (T)v[i % n], out + (size_t)i * OPS);
}

template <class T> static void check(const char *name, const std::vector<u128> &v)
{
	int n = (int)v.size();
	dev_array<u128> in(v), out((size_t)n * n * OPS);

	run<T><<<(n * n + 127) / 128, 128>>>(in.p, n, out.p);
	CK(cudaGetLastError());
	std::vector<u128> got = out.get();
	for (int i = 0; i < n * n; i++) {
		u128 want[OPS];

		all_ops<T>((T)v[i / n], (T)v[i % n], want);
		for (int k = 0; k < OPS; k++) {
			u128 a = v[i / n], b = v[i % n], r = got[(size_t)i * OPS + k];

			if (r != want[k])
				fail("%s, operation %d of %016llx%016llx and "
				     "%016llx%016llx: %016llx%016llx",
				     name, k, (unsigned long long)(a >> 64),
				     (unsigned long long)a, (unsigned long long)(b >> 64),
				     (unsigned long long)b, (unsigned long long)(r >> 64),
				     (unsigned long long)r);
		}
	}
}

int main()
{
	static const int shifts[] = {0,  1,  31, 32, 33, 62,  63,
				     64, 65, 95, 96, 97, 126, 127};
	std::vector<u128> v = {0, 8193, 10, 0xffffffff};
	rng r(128);

	check_name = "int128";
	for (int s : shifts)
		for (int d = -1; d <= 1; d++) {
			v.push_back(((u128)1 << s) + (u128)(s128)d);
			v.push_back(-(((u128)1 << s) + (u128)(s128)d));
		}
	for (int i = 0; i < 60; i++) {
		u128 x = 0;

		for (int k = 0; k < 4; k++)
			x = x << 32 | r.u32();
		v.push_back(x >> r.u32() % 128);
	}
	check<u128>("unsigned", v);
	check<s128>("signed", v);
	return pass();
}
