/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions run in the program, in stream order, and see results copied before. */
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
	CK(cudaStreamDestroy(st));
	return pass();
}
