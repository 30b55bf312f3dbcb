/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events with timing, waits across streams, legacy and per-thread semantics. */
#include "check.h"

__global__ void spin(long long clocks, int *out, int v)
{
	long long t = clock64();

	while (clock64() - t < clocks)
		;
	*out = v;
}

__global__ void append(int *log, int *n, int v)
{
	log[(*n)++] = v;
}

__global__ void scale(float *x, int n, float f)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] *= f;
}

int main()
{
	check_name = "streams_events";
	cudaStream_t a, b, nb;
	cudaEvent_t e0, e1, e2, quick;

	CK(cudaStreamCreate(&a));
	CK(cudaStreamCreate(&b));
	int lo, hi;
	CK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
	REQUIRE(lo >= hi);
	CK(cudaStreamCreateWithPriority(&nb, cudaStreamNonBlocking, hi));
	CK(cudaEventCreate(&e0));
	CK(cudaEventCreate(&e1));
	CK(cudaEventCreate(&e2));
	CK(cudaEventCreateWithFlags(&quick, cudaEventDisableTiming));
	EXPECT(cudaEventQuery(e0), cudaSuccess); /* never recorded */
	EXPECT(cudaStreamQuery(a), cudaSuccess);

	dev_array<int> flag(1), log(64), n(1);
	flag.zero();
	n.zero();
	CK(cudaDeviceSynchronize());

	/* order inside one stream, and events that lie around work */
	CK(cudaEventRecord(e0, a));
	spin<<<1, 1, 0, a>>>(2000000, flag.p, 1);
	CK(cudaEventRecord(e1, a));
	EXPECT(cudaEventSynchronize(e1), cudaSuccess);
	float ms = -1;
	CK(cudaEventElapsedTime(&ms, e0, e1));
	REQUIRE(ms > 0 && ms < 60000);
	EXPECT(cudaEventElapsedTime(&ms, e0, e2), cudaErrorInvalidResourceHandle);
	cudaGetLastError();

	/* a waits for b through an event: order of entries in a log */
	for (int round = 0; round < 8; round++) {
		append<<<1, 1, 0, b>>>(log.p, n.p, round * 2);
		CK(cudaEventRecord(quick, b));
		CK(cudaStreamWaitEvent(a, quick, 0));
		append<<<1, 1, 0, a>>>(log.p, n.p, round * 2 + 1);
		CK(cudaEventRecord(e2, a));
		CK(cudaStreamWaitEvent(b, e2, 0));
	}
	CK(cudaStreamSynchronize(a));
	CK(cudaStreamSynchronize(b));
	auto l = log.get();
	for (int i = 0; i < 16; i++)
		if (l[i] != i)
			fail("log entry %d is %d", i, l[i]);

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
	/* the legacy stream waits for blocking streams */
	spin<<<1, 1, 0, a>>>(3000000, flag.p, 5);
	int v = 0;
	CK(cudaMemcpy(&v, flag.p, 4, cudaMemcpyDeviceToHost));
	REQUIRE(v == 5);
#endif

	/* parts on two streams with asynchronous copies */
	int m = 1 << 16, parts = 8;
	std::vector<float> h(m), back(m);
	float *pin;
	CK(cudaMallocHost(&pin, m * 4));
	rng r(4);
	for (int i = 0; i < m; i++)
		pin[i] = h[i] = r.f32();
	dev_array<float> d(m);
	for (int p = 0; p < parts; p++) {
		cudaStream_t s = p % 2 ? a : nb;
		size_t off = (size_t)p * m / parts, cnt = m / parts;
		CK(cudaMemcpyAsync(d.p + off, pin + off, cnt * 4, cudaMemcpyHostToDevice, s));
		scale<<<(unsigned)(cnt + 255) / 256, 256, 0, s>>>(d.p + off, (int)cnt, 3.0f);
		CK(cudaMemcpyAsync(pin + off, d.p + off, cnt * 4, cudaMemcpyDeviceToHost, s));
	}
	CK(cudaStreamSynchronize(a));
	CK(cudaStreamSynchronize(nb));
	for (int i = 0; i < m; i++)
		if (pin[i] != h[i] * 3.0f)
			fail("part element %d: %g, not %g", i, pin[i], h[i] * 3.0f);
	CK(cudaFreeHost(pin));

	/* a source buffer that is reused as soon as the call returns */
	std::vector<int> buf(3000);
	dev_array<int> sink(3000 * 16);
	for (int k = 0; k < 16; k++) {
		for (auto &x : buf)
			x = k;
		CK(cudaMemcpyAsync(sink.p + k * 3000, buf.data(), 3000 * 4,
				   cudaMemcpyHostToDevice, a));
	}
	for (auto &x : buf)
		x = -1;
	CK(cudaStreamSynchronize(a));
	auto sv = sink.get();
	for (int i = 0; i < 48000; i++)
		if (sv[i] != i / 3000)
			fail("reused source buffer: element %d is %d", i, sv[i]);

	/* destroying a stream lets its work end; destroying a polled event is an error later */
	append<<<1, 1, 0, b>>>(log.p, n.p, 99);
	CK(cudaStreamDestroy(b));
	CK(cudaDeviceSynchronize());
	REQUIRE(log.get()[16] == 99);
	CK(cudaEventDestroy(quick));
	CK(cudaEventDestroy(e0));
	CK(cudaEventDestroy(e1));
	CK(cudaEventDestroy(e2));
	CK(cudaStreamDestroy(a));
	CK(cudaStreamDestroy(nb));
	return pass();
}
