/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic shared memory above 48 KiB, constant and __device__ variables, local arrays. */
#include "check.h"

__constant__ float coeff[64];
__constant__ int magic = 42;
__device__ int counter = 5;
__device__ float table[3] = { 1.5f, 2.5f, -3.5f };
__device__ int *pointer_to_counter = &counter;

__global__ void dyn(const int *in, int *out, int n)
{
	extern __shared__ int s[];

	for (int i = threadIdx.x; i < n; i += blockDim.x)
		s[i] = in[i];
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		out[i] = s[n - 1 - i];
}

__global__ void poly(const float *x, float *y)
{
	float s = 0;

	for (int i = 63; i >= 0; i--)
		s = s * x[threadIdx.x] + coeff[i];
	y[threadIdx.x] = s + (magic - 42);
}

__global__ void globals()
{
	atomicAdd(pointer_to_counter, 10);
	if (threadIdx.x == 0 && blockIdx.x == 0)
		table[1] += table[0] * table[2];
}

/* an array indexed at run time has to live in local memory */
__global__ void local(int *out, int k)
{
	int a[40];

	for (int i = 0; i < 40; i++)
		a[i] = i * threadIdx.x;
	for (int r = 0; r < 5; r++)
		for (int i = 0; i < 40; i++)
			a[(i * k + r) % 40] += a[i];
	int s = 0;
	for (int i = 0; i < 40; i++)
		s ^= a[i] * (i + 1);
	out[threadIdx.x] = s;
}

static int local_cpu(int t, int k)
{
	int a[40], s = 0;

	for (int i = 0; i < 40; i++)
		a[i] = i * t;
	for (int r = 0; r < 5; r++)
		for (int i = 0; i < 40; i++)
			a[(i * k + r) % 40] += a[i];
	for (int i = 0; i < 40; i++)
		s ^= a[i] * (i + 1);
	return s;
}

int main()
{
	check_name = "memory_spaces";
	int n = 24000; /* 96,000 bytes */
	rng r(2);
	std::vector<int> in(n);

	for (auto &x : in)
		x = r.u32();
	dev_array<int> din(in), dout(n);
	dyn<<<1, 256, n * 4>>>(din.p, dout.p, n);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	CK(cudaFuncSetAttribute(dyn, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4));
	dyn<<<1, 256, n * 4>>>(din.p, dout.p, n);
	CK(cudaGetLastError());
	auto got = dout.get();
	for (int i = 0; i < n; i++)
		if (got[i] != in[n - 1 - i])
			fail("dynamic shared memory at %d", i);
	cudaFuncAttributes fa;
	CK(cudaFuncGetAttributes(&fa, dyn));
	REQUIRE(fa.maxDynamicSharedSizeBytes == n * 4 && fa.maxThreadsPerBlock == 1024);

	float c[64], x[32];
	for (auto &e : c)
		e = r.f32();
	for (auto &e : x)
		e = r.f32() * 0.5f;
	CK(cudaMemcpyToSymbol(coeff, c, sizeof(c)));
	dev_array<float> dx(std::vector<float>(x, x + 32)), dy(32);
	poly<<<1, 32>>>(dx.p, dy.p);
	auto y = dy.get();
	for (int i = 0; i < 32; i++) {
		double s = 0;
		for (int k = 63; k >= 0; k--)
			s = s * x[i] + c[k];
		if (!(fabs(y[i] - s) < 1e-5))
			fail("polynomial at %d: %g, not %g", i, y[i], s);
	}

	int ctr;
	float tb[3];
	globals<<<2, 64>>>();
	CK(cudaMemcpyFromSymbol(&ctr, counter, sizeof(ctr)));
	CK(cudaMemcpyFromSymbol(tb, table, sizeof(tb)));
	REQUIRE(ctr == 5 + 128 * 10);
	REQUIRE(tb[0] == 1.5f && tb[2] == -3.5f && tb[1] == 2.5f + 1.5f * -3.5f);
	void *addr;
	size_t size;
	CK(cudaGetSymbolAddress(&addr, table));
	CK(cudaGetSymbolSize(&size, table));
	REQUIRE(addr != nullptr && size == sizeof(tb));

	dev_array<int> dl(96);
	local<<<1, 96>>>(dl.p, 7);
	auto l = dl.get();
	for (int i = 0; i < 96; i++)
		if (l[i] != local_cpu(i, 7))
			fail("local array of thread %d", i);
	return pass();
}
