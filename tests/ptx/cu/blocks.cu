/* SPDX-License-Identifier: Apache-2.0 */
// Kernels for tests/unit/simt/blocks.c: blocks that wait for each other, share atomics,
// copy asynchronously or form clusters.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

// All blocks meet several times, as grid.sync() makes them.
KERNEL meet(unsigned *arrived, int *data, int *out)
{
	for (int round = 1; round <= 4; round++) {
		data[blockIdx.x * blockDim.x + threadIdx.x] = round * (blockIdx.x + 1);
		__threadfence();
		__syncthreads();
		if (threadIdx.x == 0) {
			atomicAdd(arrived, 1);
			while (*(volatile unsigned *)arrived < round * gridDim.x)
				;
			__threadfence();
		}
		__syncthreads();
		int other = (blockIdx.x + round) % gridDim.x;
		out[(round - 1) * gridDim.x * blockDim.x + blockIdx.x * blockDim.x +
		    threadIdx.x] = ((volatile int *)data)[other * blockDim.x + threadIdx.x];
		__syncthreads();
		if (threadIdx.x == 0) {
			atomicAdd(arrived + 1, 1);
			while (*(volatile unsigned *)(arrived + 1) < round * gridDim.x)
				;
		}
		__syncthreads();
	}
}

// A scan in which each block waits for the sum of the one before it.
KERNEL lookback(const int *in, int *out, volatile int *flag, volatile int *sum)
{
	__shared__ int s[256], before;
	int t = threadIdx.x, i = blockIdx.x * 256 + t;

	s[t] = in[i];
	__syncthreads();
	for (int d = 1; d < 256; d *= 2) {
		int v = t >= d ? s[t - d] : 0;

		__syncthreads();
		s[t] += v;
		__syncthreads();
	}
	if (t == 0) {
		if (blockIdx.x == 0) {
			before = 0;
		} else {
			while (!flag[blockIdx.x - 1])
				;
			__threadfence();
			before = sum[blockIdx.x - 1];
		}
		sum[blockIdx.x] = before + s[255];
		__threadfence();
		flag[blockIdx.x] = 1;
	}
	__syncthreads();
	out[i] = before + s[t];
}

KERNEL histogram(const unsigned char *in, unsigned n, unsigned *bins)
{
	__shared__ unsigned s[256];

	s[threadIdx.x] = 0;
	__syncthreads();
	for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
		atomicAdd(&s[in[i]], 1);
	__syncthreads();
	atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
}

struct Cells {
	unsigned add, inc, dec, min, max, and_, or_, xor_;
	int smin, smax;
	unsigned long long add64, max64, cas64;
	long long smin64;
	float fadd;
	double dadd;
	__half2 h2;
	__nv_bfloat162 b2;
	__half h;
	unsigned short cas16;
	unsigned cas_count;
};

KERNEL atomics(Cells *c)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	atomicAdd(&c->add, i);
	atomicInc(&c->inc, 99);
	atomicDec(&c->dec, 99);
	atomicMin(&c->min, i + 5);
	atomicMax(&c->max, i);
	atomicAnd(&c->and_, ~(1u << i % 20));
	atomicOr(&c->or_, 1u << i % 27);
	atomicXor(&c->xor_, i);
	atomicMin(&c->smin, -(int)i);
	atomicMax(&c->smax, (int)i - 100);
	atomicAdd(&c->add64, 1ull << 33);
	atomicMax(&c->max64, (unsigned long long)i << 20);
	atomicMin(&c->smin64, -((long long)i << 34));
	atomicAdd(&c->fadd, 1.0f);
	atomicAdd(&c->dadd, 0.5);
	if (i < 512) {
		atomicAdd(&c->h2, __floats2half2_rn(1.0f, 2.0f));
		atomicAdd(&c->h, __float2half(1.0f));
	}
	if (i < 128)
		atomicAdd(&c->b2, __floats2bfloat162_rn(1.0f, 0.5f));
	unsigned long long old = c->cas64, seen;
	while ((seen = atomicCAS(&c->cas64, old, old + 3)) != old)
		old = seen;
	unsigned short o16 = c->cas16, s16;
	while ((s16 = atomicCAS(&c->cas16, o16, (unsigned short)(o16 + 1))) != o16)
		o16 = s16;
	if (atomicExch(&c->cas_count, i) == 0xffffffff)
		atomicAdd(&c->add, 1);
}

KERNEL async_copy(const float *in, float *out)
{
	__shared__ float s[2][256];
	int t = threadIdx.x;

	__pipeline_memcpy_async(&s[0][t], &in[t], 4);
	__pipeline_commit();
	for (int i = 0; i < 8; i++) {
		if (i < 7)
			__pipeline_memcpy_async(&s[(i + 1) % 2][t], &in[(i + 1) * 256 + t], 4);
		__pipeline_commit();
		__pipeline_wait_prior(1);
		__syncthreads();
		out[i * 256 + t] = s[i % 2][255 - t] * 2;
		__syncthreads();
	}
}

KERNEL block_barrier(int *out)
{
	__shared__ cuda::barrier<cuda::thread_scope_block> bar;
	__shared__ int s[128];
	int t = threadIdx.x;

	if (t == 0)
		init(&bar, blockDim.x);
	__syncthreads();
	for (int i = 0; i < 5; i++) {
		s[t] = t + i;
		bar.arrive_and_wait();
		out[i * 128 + t] = s[127 - t];
		auto token = bar.arrive();
		bar.wait(std::move(token));
	}
}

// Four blocks read each other's shared memory.
#if __CUDA_ARCH__ >= 900
KERNEL __cluster_dims__(4, 1, 1) cluster(int *out)
{
	__shared__ int s[64];
	auto c = cg::this_cluster();
	unsigned r = c.block_rank(), t = threadIdx.x;

	s[t] = r * 1000 + t;
	c.sync();
	int *other = c.map_shared_rank(s, (r + 1) % 4);
	out[blockIdx.x * 64 + t] = other[63 - t];
	atomicAdd(&c.map_shared_rank(s, 0)[t], 1);
	c.sync();
	if (r == 0)
		out[256 + blockIdx.x / 4 * 64 + t] = s[t];
	c.sync();
}
#endif

KERNEL where(unsigned *out, unsigned long long *times)
{
	unsigned sm, warp, lane, nsm, lt;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	asm volatile("mov.u32 %0, %%nsmid;" : "=r"(nsm));
	asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
	asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	out[i] = sm | nsm << 8 | warp << 16 | lane << 24;
	out[256 + i] = lt;
	long long c = clock64();
	unsigned long long g;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
	times[2 * i] = clock64() - c;
	times[2 * i + 1] = g;
}
