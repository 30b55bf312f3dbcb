/* SPDX-License-Identifier: Apache-2.0 */
/* Shared and global atomics of every kind, checked against a histogram on the CPU. */
#include "check.h"

__global__ void hist_shared(const unsigned char *in, int n, unsigned *bins)
{
	__shared__ unsigned s[256];

	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		s[i] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&s[in[i]], 1u);
	__syncthreads();
	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		if (s[i])
			atomicAdd(&bins[i], s[i]);
}

__global__ void hist_global(const unsigned char *in, int n, unsigned *bins)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		atomicInc(&bins[in[i]], ~0u);
}

struct results {
	int imin, imax, iand, ior, ixor, idec, exch_seen;
	unsigned umin, umax;
	unsigned long long l;
	float f;
	double d;
	int lock, guarded;
};

__global__ void kinds(const int *in, int n, results *r)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	atomicMin(&r->imin, in[i]);
	atomicMax(&r->imax, in[i]);
	atomicMin(&r->umin, (unsigned)in[i]);
	atomicMax(&r->umax, (unsigned)in[i]);
	atomicAnd(&r->iand, in[i] | 0xff);
	atomicOr(&r->ior, in[i] & 0xff00);
	atomicXor(&r->ixor, in[i]);
	atomicSub(&r->idec, 2);
	atomicAdd(&r->l, (unsigned long long)(unsigned)in[i]);
	atomicAdd(&r->f, 1.0f);
	atomicAdd(&r->d, 0.5);
	/* a lock taken by lanes of one warp in turn */
	for (bool done = false; !done;) {
		if (atomicCAS(&r->lock, 0, 1) == 0) {
			__threadfence();
			*(volatile int *)&r->guarded = *(volatile int *)&r->guarded + 1;
			__threadfence();
			atomicExch(&r->lock, 0);
			done = true;
		}
	}
}

int main()
{
	check_name = "histogram";
	int n = 200000;
	rng r(3);
	std::vector<unsigned char> in(n);
	std::vector<unsigned> want(256);

	for (auto &x : in) {
		unsigned v = r.u32();
		x = (v & 7) ? v >> 24 : 17; /* one bin is hot */
		want[x]++;
	}
	dev_array<unsigned char> din(in);
	dev_array<unsigned> bins(256);
	bins.zero();
	hist_shared<<<8, 128>>>(din.p, n, bins.p);
	if (bins.get() != want)
		fail("shared atomics");
	bins.zero();
	hist_global<<<(n + 255) / 256, 256>>>(din.p, n, bins.p);
	if (bins.get() != want)
		fail("global atomics");

	int m = 3000;
	std::vector<int> v(m);
	results w = {};
	w.imin = w.iand = -1;
	w.umin = ~0u;
	w.idec = 5;
	std::vector<results> init(1, w);
	for (auto &x : v) {
		x = (int)r.u32();
		w.imin = x < w.imin ? x : w.imin;
		w.imax = x > w.imax ? x : w.imax;
		w.umin = (unsigned)x < w.umin ? x : w.umin;
		w.umax = (unsigned)x > w.umax ? x : w.umax;
		w.iand &= x | 0xff;
		w.ior |= x & 0xff00;
		w.ixor ^= x;
		w.idec -= 2;
		w.l += (unsigned)x;
		w.f += 1;
		w.d += 0.5;
		w.guarded++;
	}
	dev_array<int> dv(v);
	dev_array<results> dr(init);
	kinds<<<(m + 127) / 128, 128>>>(dv.p, m, dr.p);
	CK(cudaDeviceSynchronize());
	results g = dr.get()[0];
	REQUIRE(g.imin == w.imin && g.imax == w.imax);
	REQUIRE(g.umin == w.umin && g.umax == w.umax);
	REQUIRE(g.iand == w.iand && g.ior == w.ior && g.ixor == w.ixor);
	REQUIRE(g.idec == w.idec && g.l == w.l);
	REQUIRE(g.f == w.f && g.d == w.d);
	REQUIRE(g.guarded == w.guarded);
	return pass();
}
