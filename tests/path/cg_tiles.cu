/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative groups: tiles of 32 to 512 threads, with memory of the block's own and,
 * where the architecture has it, with the system's; groups by label; the whole grid.
 */
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

#define BLOCK   512
#define RESULTS 9
#define ROUNDS  20

template <class Tile> __device__ void work(Tile t, const int *in, long long *out)
{
	int i = threadIdx.x, r = t.thread_rank(), n = t.size(), v = in[i];
	long long *o = out + (size_t)i * RESULTS;
	__shared__ int buf[BLOCK];

	o[0] = cg::reduce(t, v, cg::plus<int>());
	o[1] = cg::reduce(t, (long long)v << 33, cg::greater<long long>());
	o[2] = cg::inclusive_scan(t, v);
	o[3] = cg::exclusive_scan(t, (unsigned)v, cg::bit_xor<unsigned>());
	o[4] = (long long)cg::reduce(t, (float)v, cg::less<float>());
	o[5] = t.shfl(v, n - 1);
	o[6] = t.any(v == 7) + 2 * t.all(v > -1000);
	for (int k = 0; k < ROUNDS; k++) { /* each reads what its neighbour wrote */
		buf[i] = v;
		t.sync();
		v = buf[i - r + (r + 1) % n] + 1;
		t.sync();
	}
	o[7] = v;
	o[8] = t.meta_group_rank() * 1000 + r;
}

template <int N> __global__ void with_memory(const int *in, long long *out)
{
	__shared__ cg::block_tile_memory<BLOCK> memory;
	auto block = cg::this_thread_block(memory);

	work(cg::tiled_partition<N>(block), in, out);
}

template <int N> __global__ void nested(const int *in, long long *out)
{
	__shared__ cg::block_tile_memory<BLOCK> memory;
	auto block = cg::this_thread_block(memory);
	auto outer = cg::tiled_partition<BLOCK>(block);
	auto inner = cg::tiled_partition<N>(outer);

	work(inner, in, out);
}

/* From compute_80 on such tiles need no memory of the program's. */
template <int N> __global__ void without(const int *in, long long *out)
{
#if __CUDA_ARCH__ >= 800
	work(cg::tiled_partition<N>(cg::this_thread_block()), in, out);
#else
	__shared__ cg::block_tile_memory<BLOCK> memory;
	work(cg::tiled_partition<N>(cg::this_thread_block(memory)), in, out);
#endif
}

template <int N>
static void check_result(const char *name, const std::vector<int> &in,
			 const std::vector<long long> &got)
{
	for (int i = 0; i < BLOCK; i++) {
		int first = i / N * N, r = i % N;
		long long want[RESULTS] = {0,
					   (long long)in[first] << 33,
					   0,
					   0,
					   in[first],
					   in[first + N - 1],
					   2,
					   0,
					   i / N * 1000 + r};

		for (int k = 0; k < N; k++) {
			int v = in[first + k];

			want[0] += v;
			want[1] = std::max(want[1], (long long)v << 33);
			want[2] += k <= r ? v : 0;
			want[3] ^= k < r ? (unsigned)v : 0;
			want[4] = std::min(want[4], (long long)v);
			want[6] |= v == 7;
		}
		want[7] = in[first + (r + ROUNDS) % N] + ROUNDS;
		for (int k = 0; k < RESULTS; k++)
			if (got[(size_t)i * RESULTS + k] != want[k])
				fail("%s<%d>, thread %d, result %d: %lld, not %lld", name,
				     N, i, k, got[(size_t)i * RESULTS + k], want[k]);
	}
}

template <int N> static void run(bool is_nested)
{
	std::vector<int> v(BLOCK);
	rng r(N);

	for (int &x : v)
		x = (int)(r.u32() % 100) - 40;
	v[N / 2] = 7;
	dev_array<int> in(v);
	dev_array<long long> out(BLOCK * RESULTS);
	with_memory<N><<<1, BLOCK>>>(in.p, out.p);
	CK(cudaGetLastError());
	check_result<N>("with memory", v, out.get());
	out.zero();
	without<N><<<1, BLOCK>>>(in.p, out.p);
	CK(cudaGetLastError());
	check_result<N>("without", v, out.get());
	if (!is_nested)
		return;
	out.zero();
	nested<(N < BLOCK ? N : BLOCK / 2)><<<1, BLOCK>>>(in.p, out.p);
	CK(cudaGetLastError());
	check_result<(N < BLOCK ? N : BLOCK / 2)>("nested", v, out.get());
}

/* A tile that sits beside the user's own shared memory, static and dynamic. */
__global__ void beside(int *out)
{
	extern __shared__ int dynamic[];
	__shared__ int fixed[BLOCK];
	__shared__ cg::block_tile_memory<BLOCK> memory;
	auto tile = cg::tiled_partition<128>(cg::this_thread_block(memory));
	int i = threadIdx.x;

	fixed[i] = i;
	dynamic[i] = 2 * i;
	__syncthreads();
	int sum = cg::reduce(tile, 1, cg::plus<int>());
	__syncthreads();
	out[i] = fixed[BLOCK - 1 - i] + dynamic[BLOCK - 1 - i] + sum;
}

__global__ void labels(int *out)
{
	auto warp = cg::tiled_partition<32>(cg::this_thread_block());
	int i = threadIdx.x;
	auto odd = cg::binary_partition(warp, i & 1);
	auto mod = cg::labeled_partition(warp, i % 5);
	auto some = cg::coalesced_threads();

	out[4 * i] = cg::reduce(odd, i % 32, cg::plus<int>());
	out[4 * i + 1] = cg::inclusive_scan(mod, 1) * 100 + mod.size();
	out[4 * i + 2] = 0;
	if (i % 3 == 0) {
		auto third = cg::coalesced_threads();
		out[4 * i + 2] = cg::reduce(third, 1, cg::plus<int>());
	}
	out[4 * i + 3] = some.size();
}

__global__ void grid_rounds(int *a, int rounds)
{
	auto grid = cg::this_grid();
	int n = (int)grid.size(), i = (int)grid.thread_rank();

	for (int k = 0; k < rounds; k++) {
		int v = a[(k & 1) * n + (i + 97) % n];

		a[(~k & 1) * n + i] = v + 1;
		grid.sync();
	}
}

static void check_others(void)
{
	dev_array<int> out(BLOCK * 4), a(2 * 8 * 64);
	int rounds = 30, n = 8 * 64;
	void *args[] = {&a.p, &rounds};

	beside<<<1, BLOCK, BLOCK * sizeof(int)>>>(out.p);
	std::vector<int> got = out.get();
	for (int i = 0; i < BLOCK; i++)
		if (got[i] != 3 * (BLOCK - 1 - i) + 128)
			fail("beside, thread %d: %d", i, got[i]);
	labels<<<1, 64>>>(out.p);
	got = out.get();
	for (int i = 0; i < 64; i++) {
		int odd = 0, mod = 0, before = 0, third = 0;

		for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++) {
			odd += (k & 1) == (i & 1) ? k % 32 : 0;
			mod += k % 5 == i % 5;
			before += k % 5 == i % 5 && k <= i;
			third += k % 3 == 0;
		}
		if (got[4 * i] != odd || got[4 * i + 1] != before * 100 + mod ||
		    got[4 * i + 2] != (i % 3 ? 0 : third) || got[4 * i + 3] != 32)
			fail("labels, thread %d: %d %d %d %d", i, got[4 * i],
			     got[4 * i + 1], got[4 * i + 2], got[4 * i + 3]);
	}
	std::vector<int> start(2 * n);
	for (int i = 0; i < n; i++)
		start[i] = i;
	CK(cudaMemcpy(a.p, start.data(), start.size() * sizeof(int),
		      cudaMemcpyHostToDevice));
	CK(cudaLaunchCooperativeKernel((void *)grid_rounds, 8, 64, args, 0, 0));
	got = a.get();
	for (int i = 0; i < n; i++)
		if (got[i] != (i + 97 * rounds) % n + rounds)
			fail("grid, thread %d: %d", i, got[i]);
}

int main()
{
	check_name = "cg_tiles";
	run<32>(false);
	run<64>(true);
	run<128>(false);
	run<256>(true);
	run<512>(false);
	check_others();
	return pass();
}
