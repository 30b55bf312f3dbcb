/* SPDX-License-Identifier: Apache-2.0 */
// Cooperative groups, warp primitives, asynchronous copies and barriers.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

__global__ void tiles(const int *in, int *out, int n)
{
	cg::thread_block b = cg::this_thread_block();
	cg::thread_block_tile<16> t = cg::tiled_partition<16>(b);
	cg::coalesced_group c = cg::coalesced_threads();
	int v = in[b.thread_rank()];

	v += cg::reduce(t, v, cg::plus<int>());
	v += cg::inclusive_scan(t, v) + cg::exclusive_scan(t, v, cg::plus<int>());
	v ^= t.shfl_down(v, 1) + t.shfl_xor(v, 2) + t.match_any(v);
	if (v & 1) {
		cg::coalesced_group o = cg::coalesced_threads();

		v += o.shfl(v, 0) + cg::reduce(o, v, cg::less<int>());
		if (o.thread_rank() == 0)
			atomicAdd(out + n, o.size());
	}
	cg::labeled_partition(c, v & 3).sync();
	cg::binary_partition(t, v & 4).sync();
	b.sync();
	out[b.thread_rank()] = v;
}

__global__ void grid_sync(double *a, float *f)
{
	cg::grid_group g = cg::this_grid();
	cg::thread_block_tile<32> w = cg::tiled_partition<32>(cg::this_thread_block());

	a[g.thread_rank()] += cg::reduce(w, a[0], cg::plus<double>());
	g.sync();
	f[g.thread_rank()] = a[g.thread_rank() ^ 1] + cg::reduce(w, f[1], cg::greater<float>());
}

__global__ void warp_ops(unsigned *o, float *f, double *d, long long *l)
{
	unsigned m = __activemask(), i = threadIdx.x;

	o[i] = __ballot_sync(m, i & 1) + __any_sync(m, i > 3) + __all_sync(m, i < 99) +
	       __match_any_sync(m, i / 3) + __shfl_sync(m, i, 3, 8);
	int p;
	o[i + 32] = __match_all_sync(m, i, &p) + p;
	f[i] = __shfl_up_sync(m, f[i], 2) + __shfl_xor_sync(m, f[i], 1);
	d[i] = __shfl_down_sync(m, d[i], 1);
#if __CUDA_ARCH__ >= 800
	o[i] += __reduce_add_sync(m, i) + __reduce_max_sync(m, (int)i) +
		__reduce_xor_sync(m, i);
#endif
	__syncwarp();
	o[i] += __syncthreads_count(i) + __syncthreads_and(i) + __syncthreads_or(i);
	__threadfence();
	__threadfence_block();
	__threadfence_system();
	l[i] = clock64() + atomicMax(l, 3ll) + atomicCAS((unsigned long long *)l, 1ull, 2ull);
	o[i] += atomicInc(o, 7) + atomicDec(o, 9) + atomicExch(o, 5) + atomicCAS(o, 5, 6) +
		atomicAnd_block(o, 3) + atomicOr_system(o, 8) + atomicXor(o, 2);
	atomicAdd(f, 1.0f);
	atomicAdd(d, 1.0);
	__nanosleep(100);
	__prof_trigger(3);
}

__global__ void async_copy(const float4 *in, float4 *out)
{
	__shared__ float4 s[256];
	__shared__ cuda::barrier<cuda::thread_scope_block> bar;
	cg::thread_block b = cg::this_thread_block();

	if (b.thread_rank() == 0)
		init(&bar, b.size());
	b.sync();
	cuda::memcpy_async(b, s, in, sizeof(s), bar);
	bar.arrive_and_wait();
	cg::memcpy_async(b, s, in, sizeof(s));
	cg::wait(b);
	__pipeline_memcpy_async(s + threadIdx.x, in + threadIdx.x, 16);
	__pipeline_memcpy_async((char *)(s + threadIdx.x), (char *)(in + threadIdx.x), 8, 4);
	__pipeline_commit();
	__pipeline_wait_prior(0);
	out[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void staged(const int *in, int *out, int n)
{
	constexpr int stages = 2;
	__shared__ int s[stages][128];
	__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> st;
	auto b = cg::this_thread_block();
	auto p = cuda::make_pipeline(b, &st);
	int acc = 0;

	for (int i = 0; i < n; i++) {
		p.producer_acquire();
		cuda::memcpy_async(b, s[i % stages], in + i * 128, sizeof(s[0]), p);
		p.producer_commit();
		p.consumer_wait();
		acc += s[i % stages][threadIdx.x];
		p.consumer_release();
	}
	out[threadIdx.x] = acc;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) clusters(int *out)
{
	__shared__ int s;
	cg::cluster_group c = cg::this_cluster();

	s = c.block_rank();
	c.sync();
	out[blockIdx.x] = *c.map_shared_rank(&s, c.block_rank() ^ 1) + c.num_blocks();
	c.sync();
}
#endif
