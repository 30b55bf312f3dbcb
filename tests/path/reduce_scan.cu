/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and scans: shuffles, shared memory, cooperative groups, whole-grid sync. */
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

__global__ void sum_shuffle(const int *in, int n, unsigned long long *out)
{
	__shared__ long long part[32];
	long long s = 0;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		s += in[i];
	for (int d = 16; d; d >>= 1)
		s += __shfl_down_sync(~0u, s, d);
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = s;
	__syncthreads();
	if (threadIdx.x < 32) {
		s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
		for (int d = 16; d; d >>= 1)
			s += __shfl_xor_sync(~0u, s, d);
		if (threadIdx.x == 0)
			atomicAdd(out, (unsigned long long)s);
	}
}

__global__ void sum_groups(const int *in, int n, int *tile_sums, int *tile_max, int *scan)
{
	cg::thread_block block = cg::this_thread_block();
	auto tile = cg::tiled_partition<16>(block);
	int i = block.group_index().x * block.size() + block.thread_rank();
	int v = i < n ? in[i] : 0;
	int sum = cg::reduce(tile, v, cg::plus<int>());
	int max = cg::reduce(tile, v, cg::greater<int>());

	if (tile.thread_rank() == 0) {
		tile_sums[i / 16] = sum;
		tile_max[i / 16] = max;
	}
	if (i < n)
		scan[i] = cg::inclusive_scan(tile, v, cg::plus<int>());
}

__global__ void grid_sum(const int *in, int n, long long *part, long long *out)
{
	cg::grid_group grid = cg::this_grid();
	__shared__ long long s[256];
	long long v = 0;

	for (long long i = grid.thread_rank(); i < n; i += grid.size())
		v += in[i];
	s[threadIdx.x] = v;
	for (int d = blockDim.x / 2; d; d /= 2) {
		__syncthreads();
		if (threadIdx.x < d)
			s[threadIdx.x] += s[threadIdx.x + d];
	}
	if (threadIdx.x == 0)
		part[blockIdx.x] = s[0];
	grid.sync();
	if (grid.thread_rank() == 0) {
		long long t = 0;
		for (unsigned b = 0; b < gridDim.x; b++)
			t += part[b];
		*out = t;
	}
}

/* Lanes leave at different times; the rest go on as a coalesced group. */
__global__ void ragged(int *out)
{
	if (threadIdx.x % 3 == 1)
		return;
	cg::coalesced_group g = cg::coalesced_threads();
	out[blockIdx.x * blockDim.x + threadIdx.x] = g.size() * 100 + g.thread_rank();
}

/* Single-pass scan: a block waits for its predecessor (decoupled look-back). */
__global__ void lookback(const int *in, int *out, int n, volatile int *state,
			 volatile int *prefix)
{
	__shared__ int warp_sum[8], before;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	int v = i < n ? in[i] : 0, x = v;

	for (int d = 1; d < 32; d *= 2) {
		int y = __shfl_up_sync(~0u, x, d);
		if (lane >= d)
			x += y;
	}
	if (lane == 31)
		warp_sum[warp] = x;
	__syncthreads();
	for (int w = 0; w < warp; w++)
		x += warp_sum[w];
	if (threadIdx.x == blockDim.x - 1) {
		int p = 0;
		if (blockIdx.x) {
			while (state[blockIdx.x - 1] == 0)
				;
			__threadfence();
			p = prefix[blockIdx.x - 1];
		}
		prefix[blockIdx.x] = p + x;
		__threadfence();
		state[blockIdx.x] = 1;
		before = p;
	}
	__syncthreads();
	if (i < n)
		out[i] = x + before;
}

int main()
{
	check_name = "reduce_scan";
	int n = 100003;
	rng r(7);
	std::vector<int> in(n);
	long long want = 0;

	for (auto &x : in) {
		x = (int)(r.u32() % 2001) - 1000;
		want += x;
	}
	dev_array<int> din(in);
	dev_array<unsigned long long> sum(1);
	sum.zero();
	sum_shuffle<<<16, 256>>>(din.p, n, sum.p);
	CK(cudaDeviceSynchronize());
	if ((long long)sum.get()[0] != want)
		fail("shuffle sum %lld, not %lld", (long long)sum.get()[0], want);

	int m = 4096;
	dev_array<int> ts(m / 16), tm(m / 16), sc(m);
	sum_groups<<<m / 256, 256>>>(din.p, m, ts.p, tm.p, sc.p);
	CK(cudaDeviceSynchronize());
	auto hts = ts.get(), htm = tm.get(), hsc = sc.get();
	for (int t = 0; t < m / 16; t++) {
		int s = 0, mx = in[t * 16];
		for (int k = 0; k < 16; k++) {
			s += in[t * 16 + k];
			mx = in[t * 16 + k] > mx ? in[t * 16 + k] : mx;
			if (hsc[t * 16 + k] != s)
				fail("tile scan at %d", t * 16 + k);
		}
		if (hts[t] != s || htm[t] != mx)
			fail("tile reduce %d: %d %d, not %d %d", t, hts[t], htm[t], s, mx);
	}

	int blocks = 0, dev = 0, sms = 0;
	CK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev));
	CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, grid_sum, 256, 0));
	blocks *= sms;
	blocks = blocks > 8 ? 8 : blocks;
	dev_array<long long> part(blocks), out(1);
	const int *pin = din.p;
	void *args[] = { &pin, &n, &part.p, &out.p };
	CK(cudaLaunchCooperativeKernel((void *)grid_sum, dim3(blocks), dim3(256), args, 0, 0));
	if (out.get()[0] != want)
		fail("grid sum %lld, not %lld", out.get()[0], want);

	dev_array<int> rg(128);
	CK(cudaMemset(rg.p, 0xff, 128 * 4));
	ragged<<<2, 64>>>(rg.p);
	auto hrg = rg.get();
	for (int i = 0; i < 128; i++) {
		int t = i % 64, base = t / 32 * 32, size = 0, rank = 0;
		for (int k = base; k < base + 32; k++)
			if (k % 3 != 1) {
				rank += k < t;
				size++;
			}
		if (hrg[i] != (t % 3 == 1 ? -1 : size * 100 + rank))
			fail("coalesced group at %d: %d", i, hrg[i]);
	}

	int nb = (n + 255) / 256;
	dev_array<int> lo(n), state(nb), prefix(nb);
	state.zero();
	lookback<<<nb, 256>>>(din.p, lo.p, n, state.p, prefix.p);
	auto hlo = lo.get();
	for (int i = 0, s = 0; i < n; i++) {
		s += in[i];
		if (hlo[i] != s)
			fail("look-back scan at %d: %d, not %d", i, hlo[i], s);
	}
	return pass();
}
