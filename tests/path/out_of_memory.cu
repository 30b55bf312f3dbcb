/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory is real: it fills up, says so, comes back, and the numbers agree. */
#include "check.h"

__global__ void stamp(unsigned *p, size_t n, unsigned v)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] = v;
}

int main()
{
	check_name = "out_of_memory";
	size_t free0, total, free1;
	unsigned *first;

	/* the module is loaded when it is first needed */
	CK(cudaMalloc(&first, 4096));
	stamp<<<1, 32>>>(first, 1, 1);
	CK(cudaDeviceSynchronize());
	CK(cudaMemGetInfo(&free0, &total));
	REQUIRE(free0 <= total && total >= 64u << 20);
	cudaDeviceProp prop;
	CK(cudaGetDeviceProperties(&prop, 0));
	REQUIRE(prop.totalGlobalMem == total);

	const size_t step = 32u << 20;
	std::vector<unsigned *> held;
	unsigned *p;
	cudaError_t e;
	while ((e = cudaMalloc(&p, step)) == cudaSuccess && held.size() < 40)
		held.push_back(p);
	REQUIRE(e == cudaSuccess || e == cudaErrorMemoryAllocation);
	if (held.size() < 40)
		EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
	EXPECT(cudaMalloc(&p, total + 1), cudaErrorMemoryAllocation);
	EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
	EXPECT(cudaGetLastError(), cudaSuccess); /* not sticky */
	CK(cudaMemGetInfo(&free1, &total));
	REQUIRE(free0 - free1 >= held.size() * step);

	/* every allocation is memory of its own */
	size_t some = held.size() < 3 ? held.size() : 3;
	for (size_t i = 0; i < some; i++)
		stamp<<<4, 256>>>(held[i], 1 << 16, (unsigned)i + 1);
	for (size_t i = 0; i < some; i++) {
		unsigned v[2];
		CK(cudaMemcpy(&v[0], held[i], 4, cudaMemcpyDeviceToHost));
		CK(cudaMemcpy(&v[1], held[i] + 65535, 4, cudaMemcpyDeviceToHost));
		REQUIRE(v[0] == i + 1 && v[1] == i + 1);
	}
	for (auto q : held)
		CK(cudaFree(q));
	CK(cudaMemGetInfo(&free1, &total));
	/* a driver may keep some for itself, but not what was allocated */
	REQUIRE(free1 + step >= free0);
	CK(cudaMalloc(&p, step));
	CK(cudaFree(p));
	EXPECT(cudaFree((void *)0x1000), cudaErrorInvalidValue);
	return pass();
}
