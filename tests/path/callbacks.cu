/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions run in the program, in stream order, and see results copied before.
 * Callbacks run even when the context has been lost, once each, and are told so.
 */
#include "check.h"

#include <atomic>
#include <unistd.h>

__global__ void put(int *p, int v)
{
	*p = v;
}

struct seen {
	int *host;
	int value;
	std::atomic<int> runs;
	cudaError_t status;
};

static void CUDART_CB on_host(void *arg)
{
	seen *s = (seen *)arg;

	usleep(1000);
	s->value = *s->host;
	s->runs++;
}

static void CUDART_CB on_stream(cudaStream_t, cudaError_t status, void *arg)
{
	seen *s = (seen *)arg;

	s->status = status;
	s->runs++;
}

/* Waits until the host says so, then writes where nothing is. */
__global__ void fault_when(volatile int *go, int *nowhere)
{
	while (!*go)
		;
	*nowhere = 1;
}

static void CUDART_CB slowly(cudaStream_t st, cudaError_t status, void *arg)
{
	usleep(50000);
	on_stream(st, status, arg);
}

static void CUDART_CB never(void *arg)
{
	((seen *)arg)->runs++;
}

/* Functions and callbacks when a fault ends the context. */
static void lost(cudaStream_t st)
{
	static seen s[4], f;
	cudaError_t e;
	int *go, n = 3;

	CK(cudaHostAlloc(&go, sizeof(*go), cudaHostAllocMapped));
	*go = 0;
	fault_when<<<1, 1, 0, st>>>(go, (int *)0x26f000000000);
	CK(cudaGetLastError());
	for (int i = 0; i < n; i++)
		CK(cudaStreamAddCallback(st, slowly, &s[i], 0));
	CK(cudaLaunchHostFunc(st, never, &f));
	*(volatile int *)go = 1;
	usleep(100000);
	e = cudaStreamAddCallback(st, slowly, &s[n], 0);
	REQUIRE(e == cudaSuccess || e == cudaErrorIllegalAddress);
	n += e == cudaSuccess;
	EXPECT(cudaStreamSynchronize(st), cudaErrorIllegalAddress);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 2000 && !s[i].runs; k++)
			usleep(10000);
		if (s[i].runs != 1 || s[i].status == cudaSuccess)
			fail("context lost, callback %d: ran %d times, status %d", i,
			     s[i].runs.load(), s[i].status);
	}
	if (f.runs)
		fail("a host function ran although the context was lost");
}

int main()
{
	check_name = "callbacks";
	cudaStream_t st;
	dev_array<int> d(1);
	int *host;

	CK(cudaStreamCreate(&st));
	CK(cudaMallocHost(&host, sizeof(int)));
	seen s[20];
	for (int i = 0; i < 20; i++) {
		s[i].host = host;
		s[i].value = -1;
		s[i].runs = 0;
		s[i].status = cudaErrorUnknown;
		put<<<1, 1, 0, st>>>(d.p, 100 + i);
		CK(cudaMemcpyAsync(host, d.p, 4, cudaMemcpyDeviceToHost, st));
		CK(cudaLaunchHostFunc(st, on_host, &s[i]));
	}
	CK(cudaStreamSynchronize(st));
	for (int i = 0; i < 20; i++)
		if (s[i].runs != 1 || s[i].value != 100 + i)
			fail("host function %d: ran %d times, saw %d", i, s[i].runs.load(),
			     s[i].value);
	CK(cudaStreamAddCallback(st, on_stream, &s[0], 0));
	CK(cudaStreamSynchronize(st));
	REQUIRE(s[0].runs == 2 && s[0].status == cudaSuccess);
	CK(cudaFreeHost(host));
	lost(st);
	return pass();
}
