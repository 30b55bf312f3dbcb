/* SPDX-License-Identifier: Apache-2.0 */
/* Templates, virtual functions, function pointers, recursion, lambdas, device new. */
#include "check.h"

struct shape {
	__device__ virtual float area() const = 0;
	__device__ virtual ~shape()
	{
	}
};
struct square : shape {
	float s;
	__device__ explicit square(float x) : s(x)
	{
	}
	__device__ float area() const override
	{
		return s * s;
	}
};
struct circle : shape {
	float r;
	__device__ explicit circle(float x) : r(x)
	{
	}
	__device__ float area() const override
	{
		return 3.0f * r * r;
	}
};

__global__ void shapes(float *out)
{
	shape *s;

	if (threadIdx.x % 2)
		s = new square((float)threadIdx.x);
	else
		s = new circle((float)threadIdx.x);
	out[threadIdx.x] = s ? s->area() : -1;
	delete s;
}

typedef int (*op)(int, int);
__device__ __noinline__ int f_add(int a, int b)
{
	return a + b;
}
__device__ __noinline__ int f_mul(int a, int b)
{
	return a * b;
}
__device__ __noinline__ int f_sub(int a, int b)
{
	return a - b;
}
__device__ op ops[3] = { f_add, f_mul, f_sub };

__global__ void pointers(int *out)
{
	out[threadIdx.x] = ops[threadIdx.x % 3](threadIdx.x, 7);
}

__device__ __noinline__ unsigned fib(unsigned n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

__global__ void recurse(unsigned *out)
{
	out[threadIdx.x] = fib(threadIdx.x % 12);
	out[threadIdx.x + 32] = ackermann(2, threadIdx.x % 4);
}

template <int N, class F> __global__ void apply(int *out, F f)
{
	int v = threadIdx.x;

#pragma unroll
	for (int i = 0; i < N; i++)
		v = f(v);
	out[threadIdx.x] = v;
}

struct big {
	char c;
	double d;
	short s[5];
	long long l;
};

__global__ void by_value(const big b, double *out)
{
	out[threadIdx.x] = b.c + b.d + b.s[threadIdx.x % 5] + (double)b.l;
}

__global__ void switch_many(int *out)
{
	int v = threadIdx.x;

	switch (threadIdx.x % 11) {
	case 0: v += 3; break;
	case 1: v *= 5; break;
	case 2: v ^= 77;
	case 3: v -= 9; break;
	case 4: v <<= 2; break;
	case 5: v = ~v; break;
	case 6: v %= 4; break;
	case 8: v = -v; break;
	case 9: v |= 256; break;
	default: v = 1000;
	}
	out[threadIdx.x] = v;
}

int main()
{
	check_name = "cxx_features";
	dev_array<float> df(64);
	shapes<<<1, 64>>>(df.p);
	auto f = df.get();
	for (int i = 0; i < 64; i++)
		if (f[i] != (i % 2 ? (float)i * i : 3.0f * i * i))
			fail("area %d: %g", i, f[i]);

	dev_array<int> di(64);
	pointers<<<1, 64>>>(di.p);
	auto v = di.get();
	for (int i = 0; i < 64; i++)
		if (v[i] != (i % 3 == 0 ? i + 7 : i % 3 == 1 ? i * 7 : i - 7))
			fail("function pointer %d: %d", i, v[i]);

	CK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
	dev_array<unsigned> du(64);
	recurse<<<1, 32>>>(du.p);
	CK(cudaDeviceSynchronize());
	auto u = du.get();
	unsigned fibs[12] = { 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89 };
	for (int i = 0; i < 32; i++)
		if (u[i] != fibs[i % 12] || u[i + 32] != 2u * (i % 4) + 3)
			fail("recursion %d: %u %u", i, u[i], u[i + 32]);

	int k = 3;
	apply<4><<<1, 64>>>(di.p, [=] __device__(int x) { return x * k + 1; });
	v = di.get();
	for (int i = 0; i < 64; i++) {
		int w = i;
		for (int j = 0; j < 4; j++)
			w = w * k + 1;
		if (v[i] != w)
			fail("lambda %d", i);
	}

	big b = { 'x', 2.25, { 1, -2, 3, -4, 5 }, 1ll << 40 };
	dev_array<double> dd(10);
	by_value<<<1, 10>>>(b, dd.p);
	auto d = dd.get();
	for (int i = 0; i < 10; i++)
		if (d[i] != b.c + b.d + b.s[i % 5] + (double)b.l)
			fail("struct by value %d: %g", i, d[i]);

	switch_many<<<1, 64>>>(di.p);
	v = di.get();
	for (int i = 0; i < 64; i++) {
		int w = i;
		switch (i % 11) {
		case 0: w += 3; break;
		case 1: w *= 5; break;
		case 2: w ^= 77; /* fall through */
		case 3: w -= 9; break;
		case 4: w <<= 2; break;
		case 5: w = ~w; break;
		case 6: w %= 4; break;
		case 8: w = -w; break;
		case 9: w |= 256; break;
		default: w = 1000;
		}
		if (v[i] != w)
			fail("switch %d: %d, not %d", i, v[i], w);
	}
	return pass();
}
