/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says which TPCs its kernels run on, as it is told to launch them, a line each, and answers
 * each with the CUDA error and a number:
 *	k BLOCKS	a kernel	g BLOCKS	a graph of two, the same each time
 *	c BLOCKS	a cluster of so many
 *	o BLOCKS	a cooperative launch: which TPCs had a block, a bit for each
 *	s		how many SMs the device has
 */
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>

static const unsigned THREADS = 32, SMS = 128;
static unsigned *hits; /* of each SM, the host's */

__device__ void note(unsigned *hits)
{
	unsigned sm;
	long long from = clock64();

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	hits[sm] = 1;
	while (clock64() - from < 2000)
		;
}

__global__ void kernel(unsigned *hits)
{
	note(hits);
}

__global__ void grid(unsigned *hits)
{
	note(hits);
	cooperative_groups::this_grid().sync();
}

static cudaError_t cluster(unsigned blocks)
{
	cudaLaunchConfig_t c = {};
	cudaLaunchAttribute attr;

	attr.id = cudaLaunchAttributeClusterDimension;
	attr.val.clusterDim.x = blocks;
	attr.val.clusterDim.y = attr.val.clusterDim.z = 1;
	c.gridDim = blocks;
	c.blockDim = THREADS;
	c.attrs = &attr;
	c.numAttrs = 1;
	return cudaLaunchKernelEx(&c, kernel, hits);
}

static cudaError_t graph(unsigned blocks)
{
	static cudaGraphExec_t exec;
	static cudaStream_t st;
	cudaGraph_t g;

	if (!exec) {
		cudaStreamCreate(&st);
		cudaStreamBeginCapture(st, cudaStreamCaptureModeGlobal);
		kernel<<<blocks, THREADS, 0, st>>>(hits);
		kernel<<<blocks, THREADS, 0, st>>>(hits);
		cudaStreamEndCapture(st, &g);
		if (cudaGraphInstantiate(&exec, g, 0))
			return cudaGetLastError();
	}
	return cudaGraphLaunch(exec, st);
}

static cudaError_t launch(char what, unsigned blocks)
{
	void *args[] = {&hits};

	switch (what) {
	case 'k':
		kernel<<<blocks, THREADS>>>(hits);
		return cudaGetLastError();
	case 'g':
		return graph(blocks);
	case 'c':
		return cluster(blocks);
	default:
		return cudaLaunchCooperativeKernel((void *)grid, blocks, THREADS, args);
	}
}

static cudaError_t run(char what, unsigned blocks, unsigned long long *ret_n)
{
	cudaDeviceProp prop;
	cudaError_t e;

	if (what == 's') {
		e = cudaGetDeviceProperties(&prop, 0);
		*ret_n = prop.multiProcessorCount;
		return e;
	}
	for (unsigned i = 0; i < SMS; i++)
		hits[i] = 0;
	e = launch(what, blocks);
	if (!e)
		e = cudaDeviceSynchronize();
	(void)cudaGetLastError();
	for (unsigned i = 0; i < SMS; i++)
		*ret_n |= (unsigned long long)hits[i] << i / 2;
	return e;
}

int main()
{
	unsigned blocks = 0;
	char what, line[64];

	if (cudaHostAlloc(&hits, SMS * sizeof(*hits), cudaHostAllocMapped))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long long n = 0;

		if (sscanf(line, "%c %u", &what, &blocks) < 1)
			return 2;
		cudaError_t e = run(what, blocks, &n);

		printf("%d %llu\n", (int)e, n);
		fflush(stdout);
	}
	return 0;
}
