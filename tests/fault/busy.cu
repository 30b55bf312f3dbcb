/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works for a while, a line each, and answers with the CUDA error and how much was done:
 *	k MS US		kernels of about US microseconds, one after the other, for MS
 *	w MS US		likewise, each waited for
 *	g MS US		graphs of four
 *	c MS		copies to the device, 4 MiB each
 *	n N US		N kernels as fast as can be; answers when they are in the stream
 *	e		a kernel that does not end
 *	f		one that writes where nothing is; and waits for it
 *	s		waits for all of it
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static const size_t BYTES = 4 << 20;
static double per_us; /* turns of the kernel's loop */
static void *there, *here;

__global__ void spin(long turns, unsigned *never)
{
	unsigned x = threadIdx.x;

	for (long i = 0; i < turns; i++)
		x = x * 1664525 + 1013904223;
	if (x == 0x12345678 && turns < 0)
		*never = x;
}

__global__ void endless(volatile unsigned *never)
{
	while (!*never)
		;
}

__global__ void fault(void)
{
	*(volatile unsigned *)0x10 = 1;
}

static double now_us(void)
{
	using namespace std::chrono;

	return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

static void kernel(double us, cudaStream_t st = 0)
{
	spin<<<1, 32, 0, st>>>((long)(us * per_us), (unsigned *)there);
}

/* How fast the loop is here: it is the software GPU's speed that differs. */
static void measure(void)
{
	double best = 1e9, from;

	for (int i = 0; i < 5; i++) {
		from = now_us();
		spin<<<1, 32>>>(20000, (unsigned *)there);
		cudaDeviceSynchronize();
		best = now_us() - from < best ? now_us() - from : best;
	}
	per_us = 20000 / best;
}

static cudaGraphExec_t graph(double us)
{
	cudaGraphExec_t exec = NULL;
	cudaStream_t st;
	cudaGraph_t g;

	cudaStreamCreate(&st);
	cudaStreamBeginCapture(st, cudaStreamCaptureModeGlobal);
	for (int i = 0; i < 4; i++)
		kernel(us, st);
	cudaStreamEndCapture(st, &g);
	cudaGraphInstantiate(&exec, g, 0);
	return exec;
}

static long work(char what, double ms, double us)
{
	cudaGraphExec_t exec = what == 'g' ? graph(us) : NULL;
	cudaEvent_t before[2];
	double end = now_us() + 1000 * ms;
	long n = 0;

	for (int i = 0; i < 2; i++)
		cudaEventCreate(&before[i]);
	for (; now_us() < end && cudaPeekAtLastError() == cudaSuccess; n++) {
		if (what == 'g')
			cudaGraphLaunch(exec, 0);
		else if (what == 'c')
			cudaMemcpyAsync(there, here, BYTES, cudaMemcpyHostToDevice, 0);
		else
			kernel(us);
		if (what == 'w')
			cudaDeviceSynchronize();
		/* Always some in the stream, and not so many that the end is far away. */
		if (n % 16 == 15) {
			cudaEventRecord(before[n / 16 % 2], 0);
			cudaEventSynchronize(before[(n / 16 + 1) % 2]);
		}
	}
	cudaDeviceSynchronize();
	return n;
}

int main(void)
{
	double a, b;
	char line[64], what;
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (cudaMalloc(&there, BYTES) || cudaMallocHost(&here, BYTES) ||
	    cudaMemset(there, 0, BYTES))
		return 1;
	measure();
	while (fgets(line, sizeof(line), stdin)) {
		a = b = n = 0;
		sscanf(line, "%c %lf %lf", &what, &a, &b);
		if (what == 'n') {
			for (; n < (long)a; n++)
				kernel(b);
		} else if (what == 'e') {
			endless<<<1, 32>>>((unsigned *)there);
		} else if (what == 'f') {
			fault<<<1, 32>>>();
			cudaDeviceSynchronize();
		} else if (what == 's') {
			cudaDeviceSynchronize();
		} else {
			n = work(what, a, b);
		}
		printf("%d %ld\n", cudaGetLastError(), n);
	}
	return 0;
}
