/* SPDX-License-Identifier: Apache-2.0 */
// Kernels for tests/unit/simt/lanes.c: lanes that part, meet, wait and exchange values.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

KERNEL collatz(int *out)
{
	unsigned x = blockIdx.x * blockDim.x + threadIdx.x + 1, n = 0;

	while (x != 1) {
		if (x % 2)
			x = 3 * x + 1;
		else
			x /= 2;
		n++;
	}
	out[blockIdx.x * blockDim.x + threadIdx.x] = n;
}

// Loops with break, continue and an early return.
KERNEL tangle(int *out)
{
	int t = threadIdx.x, v = 0;

	out[t] = -1;
	for (int i = 0; i < t; i++) {
		for (int j = 0; j < 10; j++) {
			if ((i + j + t) % 7 == 3)
				continue;
			if (j > t % 9)
				break;
			v += i * j;
			if (v > 1000 && t % 5 == 2) {
				out[t] = v;
				return;
			}
		}
		if (i == 50)
			break;
	}
	out[t] = v;
}

KERNEL lock(int *state)
{
	volatile int *count = state + 1;

	while (atomicCAS(state, 0, 1) != 0)
		;
	*count = *count + 1;
	__threadfence();
	atomicExch(state, 0);
}

// Each lane waits for the one before it.
KERNEL turns(volatile int *turn, int *out)
{
	while (*turn != threadIdx.x)
		;
	out[threadIdx.x] = *turn;
	*turn = threadIdx.x + 1;
}

// Lane 31 waits for a value of lane 0, which comes later in the code.
KERNEL handover(int *out)
{
	__shared__ volatile int flag, value;

	if (threadIdx.x == 0)
		flag = 0;
	__syncwarp();
	if (threadIdx.x == 31) {
		while (!flag)
			;
		out[0] = value;
	} else if (threadIdx.x == 0) {
		value = 42;
		__threadfence_block();
		flag = 1;
	}
}

KERNEL partial_sync(int *out)
{
	__shared__ int s[32];
	int l = threadIdx.x;

	if (l < 12) {
		s[l] = l * l;
		__syncwarp(0xfff);
		out[l] = s[11 - l];
	} else {
		s[l] = l + 100;
		__syncwarp(0xfffff000);
		out[l] = s[12 + (31 - l)];
	}
	__syncwarp();
	out[32 + l] = s[31 - l];
}

KERNEL shuffles(int *out)
{
	int l = threadIdx.x, v = l * 3 + 1;

	out[l] = __shfl_sync(~0u, v, (l * 7) % 32);
	out[32 + l] = __shfl_up_sync(~0u, v, 3);
	out[64 + l] = __shfl_down_sync(~0u, v, 5);
	out[96 + l] = __shfl_xor_sync(~0u, v, 9);
	out[128 + l] = __shfl_sync(~0u, v, 2, 8);
	out[160 + l] = __shfl_up_sync(~0u, v, 1, 4);
	out[192 + l] = __shfl_down_sync(~0u, v, 2, 16);
	out[224 + l] = __shfl_xor_sync(~0u, v, 3, 8);
	// the two halves use masks of their own
	out[256 + l] = __shfl_xor_sync(l < 16 ? 0xffff : 0xffff0000, v, 1);
	if (l % 2)
		out[288 + l] = __shfl_down_sync(0xaaaaaaaa, v, 2);
	else
		out[288 + l] = __shfl_up_sync(0x55555555, v, 2);
}

#if __CUDA_ARCH__ < 800
// As __reduce_*_sync of later architectures: one instruction there, a loop here.
template <class T, class F> __device__ T reduce(unsigned mask, T v, F f)
{
	T all = __shfl_sync(mask, v, __ffs(mask) - 1);

	for (unsigned rest = mask & (mask - 1); rest; rest &= rest - 1)
		all = f(all, __shfl_sync(mask, v, __ffs(rest) - 1));
	return all;
}
#define REDUCE(name, expr)                                                               \
	template <class T> __device__ T __reduce_##name##_sync(unsigned mask, T v)       \
	{                                                                                \
		return reduce(mask, v, [](T a, T b) { return expr; });                   \
	}
REDUCE(add, a + b)
REDUCE(max, a > b ? a : b)
REDUCE(min, a < b ? a : b)
REDUCE(xor, a ^ b)
#endif

KERNEL votes(unsigned *out)
{
	unsigned l = threadIdx.x;

	out[l] = __ballot_sync(~0u, l % 3 == 0);
	out[32 + l] = __any_sync(~0u, l == 7) + 2 * __all_sync(~0u, l < 32) +
		      4 * __all_sync(~0u, l < 31) + 8 * __any_sync(~0u, l > 40);
	out[64 + l] = __match_any_sync(~0u, l / 5);
	int same;
	out[96 + l] = __match_all_sync(~0u, 77, &same) + same;
	out[128 + l] = __match_all_sync(~0u, l, &same) + same;
	out[160 + l] = __reduce_add_sync(~0u, l);
	out[192 + l] = __reduce_max_sync(l < 8 ? 0xff : 0xffffff00, l);
	out[224 + l] = __reduce_xor_sync(~0u, l * 5);
	out[256 + l] = __reduce_min_sync(~0u, (int)l - 16);
	if (l >= 20)
		out[288 + l] = __activemask();
	else
		out[288 + l] = __popc(__activemask());
	out[320 + l] = __match_any_sync(~0u, (unsigned long long)(l % 4) << 40);
}

KERNEL groups(int *out)
{
	auto block = cg::this_thread_block();
	auto tile = cg::tiled_partition<8>(block);
	int t = threadIdx.x;

	out[t] = cg::reduce(tile, t, cg::plus<int>());
	if (t % 3 == 0) {
		auto c = cg::coalesced_threads();

		out[256 + t] = c.thread_rank() * 100 + c.size();
	}
	block.sync();
	auto pair = cg::tiled_partition<2>(tile);
	out[512 + t] = pair.shfl(t, 0) + pair.meta_group_rank();
}

// Threads that are gone count as arrived.
KERNEL early_exit(int *out)
{
	__shared__ int s[256];
	int t = threadIdx.x;

	if (t % 5 == 0 || t >= 192)
		return;
	s[t] = t;
	__syncthreads();
	int o = 191 - t;
	out[t] = o % 5 ? s[o] : -1;
}

KERNEL block_votes(int *out)
{
	int t = threadIdx.x;

	out[t] = __syncthreads_count(t % 3 == 0);
	out[256 + t] = __syncthreads_and(t < 1000) + 2 * __syncthreads_and(t < 100);
	out[512 + t] = __syncthreads_or(t == 77) + 2 * __syncthreads_or(t > 5000);
}

// Two warps produce for two others through named barriers.
KERNEL named(int *out)
{
	__shared__ int buf[64];
	int t = threadIdx.x;

	for (int i = 0; i < 10; i++) {
		if (t < 64) {
			asm volatile("bar.sync 2, 128;" ::: "memory");
			buf[t] = t * 10 + i;
			__threadfence_block();
			asm volatile("bar.arrive 1, 128;" ::: "memory");
		} else {
			asm volatile("bar.arrive 2, 128;" ::: "memory");
			asm volatile("bar.sync 1, 128;" ::: "memory");
			out[i * 64 + t - 64] = buf[127 - t];
		}
	}
}

// The two paths reach different barrier instructions.
KERNEL split_barrier(int *out)
{
	__shared__ int s[64];
	int t = threadIdx.x;

	if (t % 2) {
		s[t] = t;
		__syncthreads();
		out[t] = s[t - 1];
	} else {
		s[t] = -t;
		__syncthreads();
		out[t] = s[t + 1];
	}
}

__device__ __noinline__ int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

KERNEL recursion(int *out)
{
	out[threadIdx.x] = fib(threadIdx.x % 12);
}

__device__ __noinline__ int forever(int n)
{
	volatile int x[16];

	x[n % 16] = n;
	return forever(n + 1) + x[n % 16];
}

KERNEL overflow(int *out)
{
	out[threadIdx.x] = forever(threadIdx.x);
}

__device__ int plus1(int a)
{
	return a + 1;
}
__device__ int twice(int a)
{
	return a * 2;
}
__device__ int square(int a)
{
	return a * a;
}
typedef int (*fn)(int);
__device__ fn table[3] = {plus1, twice, square};

KERNEL pointers(int *out)
{
	out[threadIdx.x] = table[threadIdx.x % 3](threadIdx.x) + table[0](1);
}

KERNEL bad_pointer(int *out, fn f)
{
	out[threadIdx.x] = f(3);
}

struct Shape {
	int k;
	__device__ virtual int area() = 0;
};
struct Square : Shape {
	__device__ int area() override
	{
		return k * k;
	}
};
struct Box : Shape {
	int h;
	__device__ int area() override
	{
		return k * h;
	}
};

KERNEL virtuals(int *out)
{
	Square s;
	Box b;
	Shape *p = threadIdx.x % 2 ? (Shape *)&s : &b;

	s.k = b.k = threadIdx.x;
	b.h = 3;
	out[threadIdx.x] = p->area();
}

struct Big {
	int v[40];
};

__device__ __noinline__ Big change(Big b, int k)
{
	for (int i = 0; i < 40; i++)
		b.v[i] += k * i;
	return b;
}

KERNEL by_value(Big p, int *out)
{
	Big r = change(p, threadIdx.x);
	int s = 0;

	for (int i = 0; i < 40; i++)
		s += r.v[i];
	out[threadIdx.x] = s;
}

KERNEL switches(int *out)
{
	int r;

	switch (out[threadIdx.x]) {
	case 0:
		r = 5;
		break;
	case 1:
		r = out[32];
		break;
	case 2:
		r = out[33] * 3;
		break;
	case 3:
		r = threadIdx.x;
		break;
	case 4:
		r = out[34] - 2;
		break;
	case 5:
		r = 99;
		break;
	case 6:
		r = out[35] / 3;
		break;
	default:
		r = -1;
	}
	out[threadIdx.x] = r;
}

KERNEL endless(volatile int *p)
{
	while (*p == 0)
		;
}

KERNEL endless_pure(int *p)
{
	unsigned x = threadIdx.x;

	do
		x = x * 1664525 + 1013904223 | 1;
	while (x != 0);
	*p = x;
}
