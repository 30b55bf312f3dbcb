/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
//
// Kernels that fill the device, for as long as somebody wants to measure how many there are.
//
//	looping calibrate		iterations of a thread in a kernel of 1 ms
//	looping loop ITERATIONS		one behind the other, four queued
//	looping every MS ITERATIONS	one each MS milliseconds, waited for
//
// Says "ready", begins when a line comes, and at each further line prints how many have
// ended so far, and of `every` the median and the 99th percentile of how long one took, in
// microseconds, since the last line.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CHECK(call)                                                                      \
	do {                                                                             \
		cudaError_t e_ = (call);                                                 \
		if (e_ != cudaSuccess) {                                                 \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));      \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

using clock_type = std::chrono::steady_clock;

static const int queued = 4;
static int blocks;
static std::atomic<long> ended{0};
static std::atomic<bool> stop{false};
static std::mutex lock;
static std::vector<double> took_us;

__global__ void work(float *out, long n)
{
	float a = threadIdx.x;

	for (long i = 0; i < n; i++)
		a = a * 1.0001f + 0.5f;
	if (a == 0.123f)
		*out = a;
}

static double run_us(long n)
{
	auto from = clock_type::now();

	work<<<blocks, 512>>>(nullptr, n);
	CHECK(cudaDeviceSynchronize());
	return std::chrono::duration<double, std::micro>(clock_type::now() - from).count();
}

static void loop(long n)
{
	cudaEvent_t done[queued];

	for (auto &e : done)
		CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	for (long i = 0; !stop; i++) {
		if (i >= queued) {
			CHECK(cudaEventSynchronize(done[i % queued]));
			ended++;
		}
		work<<<blocks, 512>>>(nullptr, n);
		CHECK(cudaEventRecord(done[i % queued]));
	}
}

static void every(double ms, long n)
{
	auto next = clock_type::now();
	auto period = std::chrono::duration_cast<clock_type::duration>(
		std::chrono::duration<double, std::milli>(ms));

	while (!stop) {
		while (clock_type::now() < next)
			;
		double us = run_us(n);
		ended++;
		std::lock_guard<std::mutex> guard(lock);
		took_us.push_back(us);
		next = std::max(next + period, clock_type::now());
	}
}

static void tell(void)
{
	std::lock_guard<std::mutex> guard(lock);
	size_t n = took_us.size();

	std::sort(took_us.begin(), took_us.end());
	printf("%ld %.0f %.0f\n", ended.load(), n ? took_us[n / 2] : 0.0,
	       n ? took_us[n * 99 / 100] : 0.0);
	fflush(stdout);
	took_us.clear();
}

int main(int argc, char **argv)
{
	char line[16];
	int sms;

	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	blocks = 2 * sms;
	run_us(1000);
	if (argc == 2 && !strcmp(argv[1], "calibrate")) {
		run_us(1000000);
		printf("%.0f\n", 1000000 / (run_us(1000000) / 1000));
		return 0;
	}
	if (argc < 3)
		return 64;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	std::thread t = argc == 3 ? std::thread(loop, atol(argv[2]))
				  : std::thread(every, atof(argv[2]), atol(argv[3]));
	while (fgets(line, sizeof(line), stdin))
		tell();
	stop = true;
	t.join();
	return 0;
}
