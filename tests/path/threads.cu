/* SPDX-License-Identifier: Apache-2.0 */
/* Many host threads on one device: own streams, the shared legacy stream, hand-overs. */
#include "check.h"

#include <atomic>
#include <chrono>
#include <thread>

__global__ void work(int *p, int n, int seed)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = i * seed + (p[i] & 1);
}

__global__ void bump(int *p)
{
	atomicAdd(p, 1);
}

static std::atomic<int> bad;

static void one(int seed, bool own_stream)
{
	int n = 5000;
	cudaStream_t s = 0;
	int *d;
	std::vector<int> h(n, seed), got(n);

	if (own_stream && cudaStreamCreate(&s) != cudaSuccess)
		bad++;
	if (cudaMalloc(&d, n * 4) != cudaSuccess)
		bad++;
	for (int round = 0; round < 10; round++) {
		cudaMemcpyAsync(d, h.data(), n * 4, cudaMemcpyHostToDevice, s);
		work<<<(n + 127) / 128, 128, 0, s>>>(d, n, seed);
		cudaMemcpyAsync(got.data(), d, n * 4, cudaMemcpyDeviceToHost, s);
		if (cudaStreamSynchronize(s) != cudaSuccess)
			bad++;
		for (int i = 0; i < n; i++)
			if (got[i] != i * seed + (seed & 1))
				bad++;
	}
	cudaFree(d);
	if (own_stream)
		cudaStreamDestroy(s);
}

struct left {
	std::atomic<bool> wanted{false}, over{false}, in_vain{false};
};

/* For some seconds, in case that somebody waits for it after all. */
static void CUDART_CB until_wanted(void *arg)
{
	left *l = (left *)arg;

	for (int i = 0; i < 5000 && !l->wanted; i++)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	l->in_vain = !l->wanted;
	l->over = true;
}

/* Work left in a thread's default stream is no business of the next thread's. */
static void default_streams()
{
	dev_array<int> c(1);
	left l;

	c.zero();
	CK(cudaDeviceSynchronize());
	std::thread([&] {
		CK(cudaLaunchHostFunc(cudaStreamPerThread, until_wanted, &l));
	}).join();
	bool ended_before = !l.over;
	std::thread([&] {
		bump<<<1, 32, 0, cudaStreamPerThread>>>(c.p);
		CK(cudaStreamSynchronize(cudaStreamPerThread));
		l.wanted = true;
	}).join();
	CK(cudaDeviceSynchronize());
	if (ended_before && l.in_vain)
		fail("a thread waits for what another one has left");
}

int main()
{
	check_name = "threads";
	std::vector<std::thread> t;

	for (int i = 0; i < 8; i++)
		t.emplace_back(one, i + 1, i % 2 == 0);
	for (auto &x : t)
		x.join();
	if (bad)
		fail("%d wrong results", bad.load());

	/* what one thread queued before it signalled comes before what the other queues */
	dev_array<int> c(1);
	c.zero();
	cudaStream_t s;
	CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int round = 0; round < 50; round++) {
		std::thread a([&] {
			for (int k = 0; k < 10; k++)
				bump<<<1, 32, 0, s>>>(c.p);
		});
		a.join();
		int v = -1;
		CK(cudaMemcpyAsync(&v, c.p, 4, cudaMemcpyDeviceToHost, s));
		CK(cudaStreamSynchronize(s));
		if (v != (round + 1) * 320)
			fail("round %d: %d", round, v);
	}
	CK(cudaStreamDestroy(s));
	default_streams();
	return pass();
}
