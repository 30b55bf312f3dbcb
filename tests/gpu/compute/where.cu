/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
/*
 * Says which TPCs its kernels run on, as a mask of 128 bits in hexadecimal (TPC k has the SMs
 * 2k and 2k + 1), or how long they take, as it is told, a line each:
 *	kernel, thread	one in the legacy stream, in the thread's own
 *	graph		one of two kernels, the same each time
 *	batch		64 launches
 *	fill		memory, 256 MiB, and then a kernel
 *	sms		how many SMs the device has
 *	rate		microseconds of a kernel that computes only
 *	launch, wait	microseconds of a launch, and of one that is waited for
 *	change		launches until kernels run elsewhere: where, and the seconds of
 *			CLOCK_MONOTONIC when the first did
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.h"

using clock_type = std::chrono::steady_clock;
typedef unsigned __int128 mask;

static const int sms_max = 256, blocks = 4096;
static unsigned *hits; /* of each SM, the host's */
static float *out;

__global__ void where(unsigned *hits)
{
	long long from = clock64();
	unsigned sm;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	hits[sm] = 1;
	while (clock64() - from < 3000)
		;
}

__global__ void compute(float *out, int n)
{
	float a = threadIdx.x;

	for (int i = 0; i < n; i++)
		a = a * 1.0001f + 0.5f;
	if (a == 0.123f)
		*out = a;
}

__global__ void nothing(void)
{
}

static double us_since(clock_type::time_point from)
{
	return std::chrono::duration<double, std::micro>(clock_type::now() - from).count();
}

static mask seen(void)
{
	mask m = 0;

	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < sms_max; i++)
		if (hits[i])
			m |= (mask)1 << i / 2;
	memset(hits, 0, sms_max * sizeof(*hits));
	return m;
}

static void print(mask m)
{
	printf("%016llx%016llx\n", (unsigned long long)(m >> 64), (unsigned long long)m);
}

static void graph(void)
{
	static cudaGraphExec_t exec;
	static cudaStream_t st;
	cudaGraph_t g;

	if (!exec) {
		CHECK(cudaStreamCreate(&st));
		CHECK(cudaStreamBeginCapture(st, cudaStreamCaptureModeGlobal));
		where<<<blocks, 64, 0, st>>>(hits);
		where<<<blocks, 64, 0, st>>>(hits);
		CHECK(cudaStreamEndCapture(st, &g));
		CHECK(cudaGraphInstantiate(&exec, g, 0));
	}
	CHECK(cudaGraphLaunch(exec, st));
}

static void fill(void)
{
	static char *p;

	if (!p)
		CHECK(cudaMalloc(&p, 256 << 20));
	CHECK(cudaMemset(p, 1, 256 << 20));
	where<<<blocks, 64>>>(hits);
}

/* Blocks in whole rounds of each set that is measured: of 1, 2, 5, 17, 33 and 66 TPCs. */
static double rate(void)
{
	double best = 0;

	for (int i = 0; i < 5; i++) {
		CHECK(cudaDeviceSynchronize());
		auto from = clock_type::now();

		compute<<<16 * 5610, 256>>>(out, 4000);
		CHECK(cudaDeviceSynchronize());
		double us = us_since(from);

		best = !best || us < best ? us : best;
	}
	return best;
}

static double launch(bool wait)
{
	const int n = 20000;
	double best = 0;

	for (int i = 0; i < 5; i++) {
		CHECK(cudaDeviceSynchronize());
		auto from = clock_type::now();

		for (int k = 0; k < n; k++) {
			nothing<<<1, 32>>>();
			if (wait)
				CHECK(cudaDeviceSynchronize());
		}
		CHECK(cudaDeviceSynchronize());
		double us = us_since(from) / n;

		best = !best || us < best ? us : best;
	}
	return best;
}

static void change(void)
{
	mask first = 0, m;
	double at;

	do {
		where<<<blocks, 64>>>(hits);
		m = seen();
		at = std::chrono::duration<double>(
			     clock_type::now().time_since_epoch())
			     .count();
		if (!first) {
			first = m;
			puts("ready");
			fflush(stdout);
		}
	} while (m == first);
	printf("%016llx%016llx %.6f\n", (unsigned long long)(m >> 64), (unsigned long long)m,
	       at);
}

static bool run(const char *what)
{
	int sms;

	if (!strcmp(what, "kernel"))
		where<<<blocks, 64>>>(hits);
	else if (!strcmp(what, "thread"))
		where<<<blocks, 64, 0, cudaStreamPerThread>>>(hits);
	else if (!strcmp(what, "graph"))
		graph();
	else if (!strcmp(what, "fill"))
		fill();
	else if (!strcmp(what, "batch"))
		for (int i = 0; i < 64; i++)
			where<<<blocks, 64>>>(hits);
	else if (!strcmp(what, "rate"))
		return printf("%.1f\n", rate()) > 0;
	else if (!strcmp(what, "launch") || !strcmp(what, "wait"))
		return printf("%.3f\n", launch(*what == 'w')) > 0;
	else if (!strcmp(what, "change"))
		return change(), true;
	else if (!strcmp(what, "sms")) {
		CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
		return printf("%d\n", sms) > 0;
	} else
		return false;
	CHECK(cudaGetLastError());
	print(seen());
	return true;
}

int main()
{
	char line[64];

	CHECK(cudaHostAlloc(&hits, sms_max * sizeof(*hits), cudaHostAllocMapped));
	CHECK(cudaMalloc(&out, 4));
	memset(hits, 0, sms_max * sizeof(*hits));
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!run(line))
			return 64;
		fflush(stdout);
	}
	return 0;
}
