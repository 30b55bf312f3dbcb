/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common part of the compatibility programs: error checks, a reproducible random source
 * and the verdict. A program compares what the device computed with the same computation
 * on the CPU, prints one line "PASS name" or "FAIL name: why", and exits 0 or 1.
 */
#ifndef WEFT_PATH_CHECK_H
#define WEFT_PATH_CHECK_H

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

static const char *check_name = "?";

__attribute__((format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	printf("FAIL %s: ", check_name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	exit(1);
}

static int pass(void)
{
	printf("PASS %s\n", check_name);
	return 0;
}

/* A runtime call that must succeed. */
#define CK(call)                                                                         \
	do {                                                                             \
		cudaError_t ck_e = (call);                                               \
		if (ck_e != cudaSuccess)                                                 \
			fail("line %d: %s: %s", __LINE__, #call, cudaGetErrorName(ck_e)); \
	} while (0)

/* A runtime call that must fail in exactly this way. */
#define EXPECT(call, code)                                                               \
	do {                                                                             \
		cudaError_t ex_e = (call);                                               \
		if (ex_e != (code))                                                      \
			fail("line %d: %s: %s instead of %s", __LINE__, #call,           \
			     cudaGetErrorName(ex_e), #code);                             \
	} while (0)

#define REQUIRE(cond)                                                                    \
	do {                                                                             \
		if (!(cond))                                                             \
			fail("line %d: %s does not hold", __LINE__, #cond);              \
	} while (0)

/* xorshift64*: the same numbers everywhere. */
struct rng {
	uint64_t s;
	explicit rng(uint64_t seed) : s(seed * 0x9e3779b97f4a7c15ull + 1)
	{
	}
	uint32_t u32()
	{
		s ^= s >> 12;
		s ^= s << 25;
		s ^= s >> 27;
		return (uint32_t)((s * 0x2545f4914f6cdd1dull) >> 32);
	}
	float f32() /* in [-1, 1) */
	{
		return (float)(int32_t)u32() / 2147483648.0f;
	}
};

template <class T> struct dev_array {
	T *p = nullptr;
	size_t n;
	explicit dev_array(size_t count) : n(count)
	{
		CK(cudaMalloc(&p, n * sizeof(T)));
	}
	explicit dev_array(const std::vector<T> &v) : dev_array(v.size())
	{
		CK(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
	}
	std::vector<T> get() const
	{
		std::vector<T> v(n);
		CK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
		return v;
	}
	void zero()
	{
		CK(cudaMemset(p, 0, n * sizeof(T)));
		/* other streams do not wait for it, nor does this thread yet */
		CK(cudaStreamSynchronize(0));
	}
	~dev_array()
	{
		cudaFree(p);
	}
	dev_array(const dev_array &) = delete;
};

/* Largest |a-b| / max(1, |b|) over two arrays. */
template <class T>
static double worst_error(const std::vector<T> &a, const std::vector<T> &b)
{
	double worst = 0;

	for (size_t i = 0; i < a.size(); i++) {
		double d = fabs((double)a[i] - (double)b[i]) / fmax(1.0, fabs((double)b[i]));
		if (!(d <= worst))
			worst = d;
	}
	return worst;
}

#endif
