/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of papers, written anew, have this in common: each has a name, sizes, and a round of
 * kernels, and is told
 *
 *	PROGRAM NAME SIZE [managed] check	one round: a sum of all bytes of its results
 *	PROGRAM NAME SIZE [managed] time	milliseconds of a round: median of half a second
 *	PROGRAM NAME SIZE [managed] loop	rounds until the end of its input; a line that
 *						begins with p has it pause, or go on
 *
 * where SIZE is tiny (for the software device), small, medium or large, and with some names
 * larger. `loop` says "ready", begins when a line comes, and at each further line prints how many
 * rounds there have been, and the median and the 99th percentile of how long one took, in
 * microseconds, since the last line.
 */
#ifndef WEFT_TEST_ROUNDS_H
#define WEFT_TEST_ROUNDS_H

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

enum size {
	TINY,
	SMALL,
	MEDIUM,
	LARGE,
	LARGER
};

struct app {
	const char *name;
	void (*setup)(enum size);
	void (*round)(void);
	bool larger; /* has that size as well */
};

static bool managed;
static const void *result; /* what `check` looks at; the setup says */
static size_t result_bytes;

template <typename T> static T *get(size_t n)
{
	T *p;

	CHECK(managed ? cudaMallocManaged(&p, n * sizeof(T))
		      : cudaMalloc(&p, n * sizeof(T)));
	return p;
}

template <typename T> static T *get_result(size_t n)
{
	T *p = get<T>(n);

	CHECK(cudaMemset(p, 0, n * sizeof(T)));
	result = p;
	result_bytes = n * sizeof(T);
	return p;
}

__host__ __device__ static inline unsigned mixed(unsigned x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

/* In [0, 1). */
__host__ __device__ static inline float unit(unsigned i)
{
	return (mixed(i) >> 8) * (1.0f / (1 << 24));
}

static const int threads_each = 256;

static inline unsigned blocks_of(size_t n, unsigned each = threads_each)
{
	return (unsigned)((n + each - 1) / each);
}

__global__ static void fill_units(float *p, size_t n, unsigned seed, float from, float to)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = from + (to - from) * unit((unsigned)i ^ seed);
}

static inline float *get_units(size_t n, unsigned seed, float from = 0, float to = 1)
{
	float *p = get<float>(n);

	fill_units<<<blocks_of(n), threads_each>>>(p, n, seed * 0x9e3779b9u, from, to);
	return p;
}

static inline int size_of(const char *word)
{
	static const char *const names[] = {"tiny", "small", "medium", "large", "larger"};

	for (int i = 0; i < 5; i++)
		if (!strcmp(word, names[i]))
			return i;
	return -1;
}

static inline double round_us(const struct app *a)
{
	auto from = std::chrono::steady_clock::now();

	a->round();
	CHECK(cudaDeviceSynchronize());
	return std::chrono::duration<double, std::micro>(
		       std::chrono::steady_clock::now() - from)
		.count();
}

static inline int rounds_check(const struct app *a)
{
	std::vector<unsigned char> bytes(result_bytes);
	uint64_t sum = 0xcbf29ce484222325; /* FNV-1a */

	round_us(a);
	CHECK(cudaMemcpy(bytes.data(), result, result_bytes, cudaMemcpyDeviceToHost));
	for (unsigned char b : bytes)
		sum = (sum ^ b) * 0x100000001b3;
	printf("%016llx\n", (unsigned long long)sum);
	return 0;
}

static inline int rounds_time(const struct app *a)
{
	std::vector<double> us;
	double all = 0;

	round_us(a);
	while (all < 5e5 || us.size() < 5) {
		us.push_back(round_us(a));
		all += us.back();
	}
	std::sort(us.begin(), us.end());
	printf("%.4f\n", us[us.size() / 2] / 1e3);
	return 0;
}

static inline int rounds_loop(const struct app *a)
{
	std::atomic<bool> stop{false}, pause{false};
	std::vector<double> us;
	std::mutex lock;
	char line[16];
	long ended = 0;

	round_us(a);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	std::thread t([&] {
		while (!stop) {
			if (pause) {
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
				continue;
			}
			double took = round_us(a);
			std::lock_guard<std::mutex> guard(lock);

			us.push_back(took);
			ended++;
		}
	});
	while (fgets(line, sizeof(line), stdin)) {
		if (*line == 'p') {
			pause = !pause;
			continue;
		}
		std::lock_guard<std::mutex> guard(lock);
		size_t n = us.size();

		std::sort(us.begin(), us.end());
		printf("%ld %.0f %.0f\n", ended, n ? us[n / 2] : 0.0,
		       n ? us[n * 99 / 100] : 0.0);
		fflush(stdout);
		us.clear();
	}
	stop = true;
	t.join();
	return 0;
}

static inline int rounds_main(int argc, char **argv, const struct app *apps, size_t n)
{
	const char *what = argc > 3 ? argv[argc - 1] : "";
	int size = argc > 3 ? size_of(argv[2]) : -1;

	managed = argc == 5 && !strcmp(argv[3], "managed");
	for (size_t i = 0; i < n && size >= 0 && (argc == 4 || managed); i++) {
		if (strcmp(argv[1], apps[i].name) || (size == LARGER && !apps[i].larger))
			continue;
		apps[i].setup((enum size)size);
		CHECK(cudaDeviceSynchronize());
		if (!strcmp(what, "check"))
			return rounds_check(&apps[i]);
		if (!strcmp(what, "time"))
			return rounds_time(&apps[i]);
		if (!strcmp(what, "loop"))
			return rounds_loop(&apps[i]);
	}
	fprintf(stderr,
		"usage: %s NAME tiny|small|medium|large|larger [managed] "
		"check|time|loop; "
		"names (*: larger):",
		argv[0]);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %s%s", apps[i].name, apps[i].larger ? "*" : "");
	fputc('\n', stderr);
	return 64;
}

#endif
