/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as most programs make them: a stream is captured, and what was captured runs
 * again and again. */
#include "check.h"

static const int n = 1000;

__global__ void add(int *p, int v)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] += v;
}

__global__ void sum(int *out, const int *a, const int *b)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = a[i] + b[i];
}

__global__ void accumulate(int *total, const int *p)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		total[i] += p[i];
}

#define GRID dim3((n + 127) / 128), dim3(128), 0

static cudaStream_t new_stream(void)
{
	cudaStream_t s;

	CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	return s;
}

static cudaGraphExec_t end(cudaStream_t s)
{
	cudaGraphExec_t x;
	cudaGraph_t g;

	CK(cudaStreamEndCapture(s, &g));
	CK(cudaGraphInstantiate(&x, g, 0));
	CK(cudaGraphDestroy(g));
	return x;
}

/* Copies see the host's memory when their turn comes, launch after launch. */
static void round_trip(cudaStreamCaptureMode mode)
{
	dev_array<int> a(n), b(n);
	cudaStream_t s = new_stream();
	cudaGraphExec_t x;
	int *in, *out;

	CK(cudaMallocHost(&in, n * sizeof(int)));
	CK(cudaMallocHost(&out, n * sizeof(int)));
	memset(out, 0xff, n * sizeof(int));
	CK(cudaStreamBeginCapture(s, mode));
	CK(cudaMemcpyAsync(a.p, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	add<<<GRID, s>>>(a.p, 7);
	CK(cudaGetLastError());
	CK(cudaMemcpyAsync(b.p, a.p, n * sizeof(int), cudaMemcpyDeviceToDevice, s));
	CK(cudaMemsetAsync(a.p, 0, n * sizeof(int), s));
	add<<<GRID, s>>>(b.p, 1000);
	CK(cudaMemcpyAsync(out, b.p, n * sizeof(int), cudaMemcpyDeviceToHost, s));
	x = end(s);
	REQUIRE(out[0] == -1); /* nothing has run yet */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++)
			in[i] = i * (round + 1);
		CK(cudaGraphLaunch(x, s));
		CK(cudaStreamSynchronize(s));
		for (int i = 0; i < n; i++)
			REQUIRE(out[i] == i * (round + 1) + 1007);
		REQUIRE(a.get()[5] == 0);
	}
	CK(cudaGraphExecDestroy(x));
	CK(cudaFreeHost(in));
	CK(cudaFreeHost(out));
	CK(cudaStreamDestroy(s));
}

static void CUDART_CB bump(void *arg)
{
	++*(int *)arg;
}

/* Two streams that fork from one and join it again; a host function in between. */
static void fork_join(void)
{
	dev_array<int> a(n), b(n), c(n), total(n);
	cudaStream_t s = new_stream(), s2 = new_stream();
	cudaEvent_t fork, join;
	cudaGraphExec_t x;
	int calls = 0;

	CK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	total.zero();
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	CK(cudaMemsetAsync(a.p, 0, n * sizeof(int), s));
	CK(cudaMemsetAsync(b.p, 0, n * sizeof(int), s));
	CK(cudaEventRecord(fork, s));
	CK(cudaStreamWaitEvent(s2, fork, 0));
	for (int i = 0; i < 5; i++) {
		add<<<GRID, s>>>(a.p, 1);
		add<<<GRID, s2>>>(b.p, 10);
	}
	CK(cudaLaunchHostFunc(s2, bump, &calls));
	CK(cudaEventRecord(join, s2));
	CK(cudaStreamWaitEvent(s, join, 0));
	sum<<<GRID, s>>>(c.p, a.p, b.p);
	accumulate<<<GRID, s>>>(total.p, c.p);
	x = end(s);
	for (int i = 0; i < 20; i++)
		CK(cudaGraphLaunch(x, i & 1 ? s : s2)); /* one after the other even so */
	CK(cudaDeviceSynchronize());
	REQUIRE(calls == 20);
	for (int v : c.get())
		REQUIRE(v == 55);
	for (int v : total.get())
		REQUIRE(v == 20 * 55);
	CK(cudaGraphExecDestroy(x));
	CK(cudaEventDestroy(fork));
	CK(cudaEventDestroy(join));
	CK(cudaStreamDestroy(s));
	CK(cudaStreamDestroy(s2));
}

/* An update keeps the shape and changes parameters. */
static void update(void)
{
	dev_array<int> a(n);
	cudaStream_t s = new_stream();
	cudaGraphExec_t x = nullptr;

	a.zero();
	for (int round = 1; round <= 3; round++) {
		cudaGraphExecUpdateResultInfo info;
		cudaGraph_t g;

		CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
		add<<<GRID, s>>>(a.p, round);
		add<<<GRID, s>>>(a.p, 10 * round);
		CK(cudaStreamEndCapture(s, &g));
		if (!x)
			CK(cudaGraphInstantiate(&x, g, 0));
		else
			CK(cudaGraphExecUpdate(x, g, &info));
		CK(cudaGraphDestroy(g));
		CK(cudaGraphLaunch(x, s));
	}
	CK(cudaStreamSynchronize(s));
	REQUIRE(a.get()[n - 1] == 11 + 22 + 33);
	CK(cudaGraphExecDestroy(x));
	CK(cudaStreamDestroy(s));
}

/* Many nodes, many launches, none waited for. */
static void long_chain(void)
{
	dev_array<int> a(n);
	cudaStream_t s = new_stream();
	cudaGraphExec_t x;

	a.zero();
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 200; i++)
		add<<<GRID, s>>>(a.p, i & 1);
	x = end(s);
	for (int i = 0; i < 10; i++)
		CK(cudaGraphLaunch(x, s));
	CK(cudaGraphExecDestroy(x)); /* what was launched still runs */
	CK(cudaStreamSynchronize(s));
	REQUIRE(a.get()[0] == 1000);
	CK(cudaStreamDestroy(s));
}

/* More launches than a stream's queue holds, each of which needs this process to go on. */
static void flood(void)
{
	const int launches = 1500;
	dev_array<int> a(n);
	cudaStream_t s = new_stream();
	cudaGraphExec_t x;
	int *host, calls = 0;

	CK(cudaMallocHost(&host, n * sizeof(int)));
	memset(host, 0, n * sizeof(int));
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CK(cudaMemcpyAsync(a.p, host, n * sizeof(int), cudaMemcpyHostToDevice, s));
	add<<<GRID, s>>>(a.p, 1);
	CK(cudaMemcpyAsync(host, a.p, n * sizeof(int), cudaMemcpyDeviceToHost, s));
	CK(cudaLaunchHostFunc(s, bump, &calls));
	x = end(s);
	for (int i = 0; i < launches; i++)
		CK(cudaGraphLaunch(x, s));
	CK(cudaStreamSynchronize(s));
	REQUIRE(calls == launches && host[0] == launches && host[n - 1] == launches);
	CK(cudaGraphExecDestroy(x));
	CK(cudaFreeHost(host));
	CK(cudaStreamDestroy(s));
}

static void queries(cudaStream_t s)
{
	cudaStreamCaptureStatus status;
	unsigned long long id = 0;
	const cudaGraphNode_t *deps;
	cudaGraph_t g = nullptr;
	size_t count = 0;

	CK(cudaStreamIsCapturing(s, &status));
	REQUIRE(status == cudaStreamCaptureStatusActive);
#if CUDART_VERSION >= 13000
	CK(cudaStreamGetCaptureInfo(s, &status, &id, &g, &deps, nullptr, &count));
#else
	CK(cudaStreamGetCaptureInfo_v2(s, &status, &id, &g, &deps, &count));
#endif
	REQUIRE(id != 0 && g != nullptr && count == 1 && deps[0] != nullptr);
}

/* Calls that are refused during a stream's capture, and their effect on it. */
static void rules(void)
{
	dev_array<int> a(n);
	cudaStream_t s = new_stream(), s2 = new_stream(), blocking;
	cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	cudaStreamCaptureStatus status;
	cudaGraph_t g;
	cudaEvent_t e;
	void *p;

	CK(cudaEventCreate(&e));
	CK(cudaStreamCreate(&blocking));
	CK(cudaStreamIsCapturing(s, &status));
	REQUIRE(status == cudaStreamCaptureStatusNone);
	EXPECT(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);

	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	EXPECT(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
	add<<<GRID, s>>>(a.p, 1);
	queries(s);
	EXPECT(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
	CK(cudaStreamIsCapturing(s, &status));
	REQUIRE(status == cudaStreamCaptureStatusInvalidated);
	EXPECT(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	REQUIRE(g == nullptr);

	/* work that never comes back */
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CK(cudaEventRecord(e, s));
	CK(cudaStreamWaitEvent(s2, e, 0));
	add<<<GRID, s2>>>(a.p, 1);
	EXPECT(cudaStreamEndCapture(s2, &g), cudaErrorStreamCaptureUnmatched);
	EXPECT(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CK(cudaEventRecord(e, s));
	CK(cudaStreamWaitEvent(s2, e, 0));
	add<<<GRID, s2>>>(a.p, 1);
	EXPECT(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnjoined);
	CK(cudaStreamIsCapturing(s2, &status));
	REQUIRE(status == cudaStreamCaptureStatusNone);

	/* memory, by the mode of the thread */
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	EXPECT(cudaMalloc(&p, 256), cudaErrorStreamCaptureUnsupported);
	EXPECT(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CK(cudaThreadExchangeStreamCaptureMode(&mode));
	CK(cudaMalloc(&p, 256));
	CK(cudaThreadExchangeStreamCaptureMode(&mode));
	add<<<GRID, s>>>(a.p, 1);
	CK(cudaStreamEndCapture(s, &g));
	CK(cudaGraphDestroy(g));
	CK(cudaFree(p));
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CK(cudaMalloc(&p, 256));
	CK(cudaStreamEndCapture(s, &g));
	CK(cudaGraphDestroy(g));
	CK(cudaFree(p));

	/* the legacy stream waits for blocking streams, so it cannot be used */
	CK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
	EXPECT(cudaMemsetAsync(a.p, 0, 4, cudaStreamLegacy), cudaErrorStreamCaptureImplicit);
	EXPECT(cudaStreamEndCapture(blocking, &g), cudaErrorStreamCaptureInvalidated);
	EXPECT(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal),
	       cudaErrorStreamCaptureUnsupported);

	/* an event from outside */
	CK(cudaEventRecord(e, s2));
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	EXPECT(cudaStreamWaitEvent(s, e, 0), cudaErrorStreamCaptureIsolation);
	EXPECT(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	cudaGetLastError();

	/* and afterwards everything works */
	a.zero();
	add<<<GRID, s>>>(a.p, 3);
	CK(cudaStreamSynchronize(s));
	REQUIRE(a.get()[0] == 3);
	CK(cudaStreamDestroy(s));
	CK(cudaStreamDestroy(s2));
	CK(cudaStreamDestroy(blocking));
	CK(cudaEventDestroy(e));
}

int main()
{
	check_name = "graphs";
	round_trip(cudaStreamCaptureModeGlobal);
	round_trip(cudaStreamCaptureModeThreadLocal);
	round_trip(cudaStreamCaptureModeRelaxed);
	fork_join();
	update();
	long_chain();
	flood();
	rules();
	return pass();
}
