/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of every size between pageable memory and the device, synchronous or not, in
 * several streams and threads, rows and plain, and in batches; each is compared. The
 * buffers are written again as soon as CUDA allows it.
 */
#include <thread>

#include "check.h"

#define STREAMS 4

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 131 + (i >> 8) + seed * 29);
}

static void compare(const unsigned char *a, const unsigned char *b, size_t n,
		    const char *what, size_t size)
{
	if (!memcmp(a, b, n))
		return;
	for (size_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			fail("%s, %zu bytes: byte %zu is %u, not %u", what, size, i, b[i],
			     a[i]);
	}
}

static void sizes(void)
{
	static const size_t list[] = {
		1,      100,    2048,    2049,    4096,    16384,   65536,   65537,
		262144, 262145, 1000000, 1048576, 4194304, 4194305, 5000001, 23 << 20};
	size_t most = 24 << 20;
	unsigned char *in = (unsigned char *)malloc(most),
		      *out = (unsigned char *)malloc(most);
	unsigned char *d;

	CK(cudaMalloc(&d, most));
	for (size_t n : list) {
		fill(in, n, 1);
		CK(cudaMemcpy(d + 3, in, n, cudaMemcpyHostToDevice));
		memset(out, 0, n);
		CK(cudaMemcpy(out, d + 3, n, cudaMemcpyDeviceToHost));
		compare(in, out, n, "waited for", n);
		fill(in, n, 2);
		CK(cudaMemcpyAsync(d, in, n, cudaMemcpyHostToDevice));
		CK(cudaMemcpyAsync(out, d, n, cudaMemcpyDeviceToHost));
		CK(cudaStreamSynchronize(0));
		compare(in, out, n, "not waited for", n);
	}
	CK(cudaFree(d));
	free(in);
	free(out);
}

/* Sources change as soon as a copy to the device returns: it has them. */
static void reuse(unsigned seed)
{
	const size_t n = 20000;
	const int rounds = 60;
	std::vector<unsigned char> in(n), want(n), out(n);
	std::vector<cudaStream_t> st(STREAMS);
	unsigned char *d;

	CK(cudaMalloc(&d, n * rounds));
	for (auto &s : st)
		CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < rounds; i++) {
		size_t part = n - (size_t)(i % 7) * 2500;

		fill(in.data(), n, seed + (unsigned)i);
		CK(cudaMemcpyAsync(d + i * n, in.data(), part, cudaMemcpyHostToDevice,
				   st[(i / 3) % STREAMS]));
		if (i == rounds / 2) { /* with copies of it just begun */
			CK(cudaStreamDestroy(st[0]));
			CK(cudaStreamCreateWithFlags(&st[0], cudaStreamNonBlocking));
		}
	}
	CK(cudaDeviceSynchronize());
	for (int i = 0; i < rounds; i++) {
		size_t part = n - (size_t)(i % 7) * 2500;

		fill(want.data(), n, seed + (unsigned)i);
		CK(cudaMemcpyAsync(out.data(), d + i * n, part, cudaMemcpyDeviceToHost,
				   st[i % STREAMS]));
		CK(cudaStreamSynchronize(st[i % STREAMS]));
		compare(want.data(), out.data(), part, "used again", part);
	}
	for (auto &s : st)
		CK(cudaStreamDestroy(s));
	CK(cudaFree(d));
}

static void rows(void)
{
	static const size_t widths[] = {1, 77, 4096, 100000, 300000};

	for (size_t w : widths) {
		size_t pitch = w + 53, h = 3000000 / w > 200 ? 200 : 3000000 / w;
		std::vector<unsigned char> in(pitch * h), out(pitch * h, 9);
		unsigned char *d;
		size_t d_pitch;

		fill(in.data(), in.size(), (unsigned)w);
		CK(cudaMallocPitch(&d, &d_pitch, w, h));
		CK(cudaMemcpy2D(d, d_pitch, in.data(), pitch, w, h, cudaMemcpyDefault));
		CK(cudaMemcpy2DAsync(out.data(), pitch, d, d_pitch, w, h,
				     cudaMemcpyDefault));
		CK(cudaDeviceSynchronize());
		for (size_t y = 0; y < h; y++) {
			compare(&in[y * pitch], &out[y * pitch], w, "rows", w);
			if (out[y * pitch + w] != 9)
				fail("rows of %zu: the gap was written", w);
		}
		CK(cudaFree(d));
	}
}

static void batches(void)
{
	const size_t n = 5000, k = 9;
	std::vector<unsigned char> in(n * k), out(n * k);
	std::vector<const void *> srcs;
	std::vector<void *> dsts;
	std::vector<size_t> list;
	cudaMemcpyAttributes attr = {};
	size_t first = 0;
	cudaStream_t st;
	unsigned char *d;

	CK(cudaStreamCreate(&st));
	CK(cudaMalloc(&d, n * k));
	fill(in.data(), in.size(), 5);
	for (size_t i = 0; i < k; i++) {
		srcs.push_back(&in[i * n]);
		dsts.push_back(d + i * n);
		list.push_back(n - i);
	}
	attr.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
	CK(cudaMemcpyBatchAsync((const void **)dsts.data(), srcs.data(), list.data(), k,
				&attr, &first, 1, st));
	memset(in.data(), 0, in.size());
	CK(cudaMemcpyAsync(out.data(), d, n * k, cudaMemcpyDeviceToHost, st));
	CK(cudaStreamSynchronize(st));
	fill(in.data(), in.size(), 5);
	for (size_t i = 0; i < k; i++)
		compare(&in[i * n], &out[i * n], n - i, "batch", n - i);
	first = 1;
	if (cudaMemcpyBatchAsync((const void **)dsts.data(), srcs.data(), list.data(), k,
				 &attr, &first, 1, st) == cudaSuccess)
		fail("a batch without attributes for its first copy");
	first = 0;
	if (cudaMemcpyBatchAsync((const void **)dsts.data(), srcs.data(), list.data(), k,
				 &attr, &first, 1, 0) == cudaSuccess)
		fail("a batch in the default stream");
	(void)cudaGetLastError();
	CK(cudaStreamDestroy(st));
	CK(cudaFree(d));
}

/* Wrong addresses are errors, and what comes after them is right. */
static void wrong(void)
{
	std::vector<unsigned char> h(3 << 20);
	unsigned char *d;

	CK(cudaMalloc(&d, 1 << 20));
	for (size_t n : {(size_t)3000, (size_t)50000, h.size()}) {
		if (cudaMemcpy((void *)0x5000, h.data(), n, cudaMemcpyHostToDevice) ==
			    cudaSuccess ||
		    cudaMemcpy(h.data(), (void *)0x5000, n, cudaMemcpyDeviceToHost) ==
			    cudaSuccess)
			fail("a copy of %zu bytes from or to nowhere", n);
	}
	(void)cudaMemcpy(d, h.data(), h.size(), cudaMemcpyHostToDevice);
	(void)cudaDeviceSynchronize();
	(void)cudaGetLastError();
	(void)cudaDeviceSynchronize();
	(void)cudaGetLastError();
	CK(cudaFree(d));
	sizes();
}

int main(void)
{
	std::vector<std::thread> threads;

	check_name = "copy_mix";
	sizes();
	rows();
	batches();
	for (unsigned i = 0; i < 4; i++)
		threads.emplace_back(reuse, i * 100);
	for (auto &t : threads)
		t.join();
	wrong();
	return pass();
}
