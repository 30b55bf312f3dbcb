/* SPDX-License-Identifier: Apache-2.0 */
// The language: virtual functions, function pointers, recursion, printf, assert, device
// malloc, constant tables with addresses, switches, local arrays, volatile, textures not.
#include <assert.h>
#include <stdio.h>

struct shape {
	__device__ virtual float area() const = 0;
	__device__ virtual ~shape() {}
};
struct square : shape {
	float s;
	__device__ square(float x) : s(x) {}
	__device__ float area() const override { return s * s; }
};
struct circle : shape {
	double r;
	__device__ circle(double x) : r(x) {}
	__device__ float area() const override { return 3.14159 * r * r; }
};

struct big {
	int v[13];
	char c;
	double d;
};

typedef int (*binop)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int sub(int a, int b) { return a - b; }
__device__ int table_data[4] = {1, 2, 3, 4};
__device__ int *table_ptr = table_data + 2;
__constant__ const char *names[] = {"one", "two", "three"};
__device__ binop ops[2] = {add, sub};
__constant__ float coef[16];
__managed__ int managed_counter = 7;
extern __shared__ char dyn[];

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ big by_value(big b, char c)
{
	b.v[c & 7] += c;
	b.d *= 2;
	return b;
}

__device__ int pick(int x)
{
	switch (x) {
	case 0: return 17;
	case 1: return table_data[1];
	case 2: return x * 3;
	case 3: return 99 - x;
	case 4: return table_data[x & 3] * 2;
	case 5: return 4;
	case 6: return fib(x);
	case 7: return 1000;
	default: return -1;
	}
}

__global__ void __launch_bounds__(256, 2) lang(big b, char c, short s, float3 f, int *out)
{
	__shared__ int sh[64];
	volatile int local[32];
	int i = threadIdx.x;
	shape *p = i & 1 ? (shape *)new square(i) : (shape *)new circle(i);

	b = by_value(b, c);
	local[i & 31] = b.v[i % 13] + s;
	sh[i & 63] = ops[i & 1](i, 3);
	__syncthreads();
	((int *)dyn)[i] = sh[i ^ 1];
	assert(i < 1000);
	if (names[i % 3][0] == 't' && *table_ptr > 2)
		printf("%d %f %s\n", i, p->area(), names[i % 3]);
	for (int k = 0; k < i; k++) {
		if (local[k & 31] == 5)
			break;
		if (local[k & 31] == 6)
			continue;
		out[k] += pick(k) + (int)coef[k & 15] + managed_counter;
	}
	delete p;
	if (i == 12345)
		__trap();
	out[i] = local[(i + 1) & 31] + (int)f.y + ((int *)dyn)[i] + (int)b.d;
}

template <typename T> __global__ void math(T *x, unsigned *u, long long *l)
{
	int i = threadIdx.x;
	T v = x[i];

	x[i] = sin(v) + cos(v) * tan(v) - exp(v) / log(v) + pow(v, T(1.7)) + sqrt(v) +
	       rsqrt(v) + erf(v) + tgamma(v) + fmod(v, T(3)) + floor(v) + rint(v) + cbrt(v) +
	       copysign(v, T(-1)) + (isnan(v) ? T(1) : T(0)) + fma(v, v, v) + hypot(v, v);
	u[i] = __popc(u[i]) + __clz(u[i]) + __ffs(u[i]) + __brev(u[i]) +
	       __byte_perm(u[i], u[i + 1], 0x3210) + __umulhi(u[i], 77) +
	       __funnelshift_l(u[i], u[i + 1], 5) + __sad(i, 3, 4) + __vadd4(u[i], 3) +
	       __vabsdiffs2(u[i], u[i + 1]) + __vmaxu2(u[i], 9) + __mul24(i, 3) + __dp4a(i, 3, 4);
	l[i] = __mul64hi(l[i], 99) + __popcll(l[i]) + l[i] / 7 % 11 + llrint((double)v) +
	       (long long)v + __double_as_longlong((double)l[i]) + __clzll(l[i]);
	x[i + 1] = __int2float_rz(i) + __fdividef(1.f, (float)v) + __expf((float)v) +
		   __sinf((float)v) + __fmaf_ru(1.f, 2.f, (float)v) + __saturatef((float)v) +
		   __dadd_rd((double)v, 1.0) + __frcp_rn((float)v) + __fsqrt_ru((float)v);
}
template __global__ void math<float>(float *, unsigned *, long long *);
template __global__ void math<double>(double *, unsigned *, long long *);

__global__ void wide128(unsigned __int128 *a, const int4 *p, int4 *q, const double2 *d)
{
	a[0] = a[1] * a[2] + a[3];
	q[threadIdx.x] = __ldg(p + threadIdx.x);
	q[1].x = (int)__ldcs(d).x + __ldcg(&p->x) + __ldca(&p->y) + __ldlu(&p->z);
	__stcs(&q->w, 5);
	__stwt(&q->z, 6);
}
