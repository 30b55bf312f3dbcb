/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
//
// Kernels that fill the device, for as long as somebody wants to measure how many there are.
//
//	looping calibrate		iterations of a thread in a kernel of 1 ms
//	looping loop ITERATIONS		one behind the other, four queued
//	looping deep ITERATIONS		likewise, 64 queued: short kernels go on while the program
//					does something else
//	looping graph ITERATIONS	graphs of four, likewise
//	looping long ITERATIONS		one without an end, which counts as many as one thing
//	looping copy BYTES		copies to the device
//	looping matmul N		products of matrices of N by N, each waited for
//	looping walk BYTES		kernels that read there at random, four queued
//	looping every MS ITERATIONS	one each MS milliseconds, waited for
//
// Says "ready", begins when a line comes, and at each further line prints how many have been
// done so far, and of `every` and `matmul` the median and the 99th percentile of how long one took, in
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
#include <unistd.h>

#define CHECK(call)                                                                      \
	do {                                                                             \
		cudaError_t e_ = (call);                                                 \
		if (e_ != cudaSuccess) {                                                 \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));      \
			_exit(1); /* another thread reads */                             \
		}                                                                        \
	} while (0)

using clock_type = std::chrono::steady_clock;

static const int queued = 4, many = 64;
static int blocks;
static const int threads = 1024;
static std::atomic<long> ended{0};
static std::atomic<bool> stop{false};
static std::mutex lock;
static std::vector<double> took_us;

/* Says as often as it can, at a thousandth of the cost, how far the first of its blocks is:
 * a window of a tenth of a second sees parts of kernels of 20 ms. */
static const long step = 10000;
static long *steps;
static long steps_each; /* of a kernel; 0: ended is what is done */

__global__ void work(volatile long *count, long n)
{
	float a = threadIdx.x;

	for (long i = 0; i < n; i += step) {
		for (long j = 0; j < step && i + j < n; j++)
			a = a * 1.0001f + 0.5f;
		/* An SM that goes on with some warps before others would have one far ahead. */
		__syncthreads();
		if (!threadIdx.x && !blockIdx.x)
			*count += 1;
	}
	if (a == 0.123f)
		*count = 0;
}

static double run_us(long n)
{
	auto from = clock_type::now();

	work<<<blocks, threads>>>(steps, n);
	CHECK(cudaDeviceSynchronize());
	return std::chrono::duration<double, std::micro>(clock_type::now() - from).count();
}

static void loop(long n, int most)
{
	std::vector<cudaEvent_t> done(most);

	steps_each = (n + step - 1) / step;
	for (auto &e : done)
		CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	for (long i = 0; !stop; i++) {
		if (i >= most)
			CHECK(cudaEventSynchronize(done[i % most]));
		work<<<blocks, threads>>>(steps, n);
		CHECK(cudaEventRecord(done[i % most]));
	}
}

static void graphs(long n)
{
	cudaGraphExec_t exec;
	cudaStream_t st;
	cudaGraph_t g;
	cudaEvent_t done[queued];

	steps_each = (n + step - 1) / step;
	for (auto &e : done)
		CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	CHECK(cudaStreamCreate(&st));
	CHECK(cudaStreamBeginCapture(st, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 4; i++)
		work<<<blocks, threads, 0, st>>>(steps, n);
	CHECK(cudaStreamEndCapture(st, &g));
	CHECK(cudaGraphInstantiate(&exec, g, 0));
	for (long i = 0; !stop; i++) {
		if (i >= queued)
			CHECK(cudaEventSynchronize(done[i % queued]));
		CHECK(cudaGraphLaunch(exec, st));
		CHECK(cudaEventRecord(done[i % queued], st));
	}
}

__global__ void endless(volatile long *count, volatile int *end, long n)
{
	float a = threadIdx.x;

	/* Each block looks once: a look goes to the host. */
	while (!__syncthreads_or(!threadIdx.x && *end)) {
		for (long i = 0; i < n; i++)
			a = a * 1.0001f + 0.5f;
		if (!threadIdx.x && !blockIdx.x)
			++*count;
		if (a == 0.123f)
			return;
	}
}

static void one_long(long n)
{
	int *end;

	CHECK(cudaHostAlloc(&end, sizeof(*end), cudaHostAllocMapped));
	*end = 0;
	steps_each = 1;
	endless<<<blocks, threads>>>(steps, end, n);
	CHECK(cudaGetLastError());
	while (!stop)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	*(volatile int *)end = 1;
	CHECK(cudaDeviceSynchronize());
}

static void copies(long bytes)
{
	void *there, *here;

	CHECK(cudaMalloc(&there, bytes));
	CHECK(cudaMallocHost(&here, bytes));
	while (!stop) {
		CHECK(cudaMemcpyAsync(there, here, bytes, cudaMemcpyHostToDevice, 0));
		CHECK(cudaStreamSynchronize(0));
		ended++;
	}
}

/* A tile of 32 by 32 for each block of 1024 threads, as nvtaskset's MM6144. */
__global__ void product(const float *a, const float *b, float *c, int n)
{
	__shared__ float s[32][32], t[32][32];
	int x = threadIdx.x, y = threadIdx.y;
	int row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
	float sum = 0;

	for (int k = 0; k < n; k += 32) {
		s[y][x] = a[(size_t)row * n + k + x];
		t[y][x] = b[(size_t)(k + y) * n + col];
		__syncthreads();
		for (int i = 0; i < 32; i++)
			sum += s[y][i] * t[i][x];
		__syncthreads();
	}
	c[(size_t)row * n + col] = sum;
}

static void took(clock_type::time_point from)
{
	std::lock_guard<std::mutex> guard(lock);

	took_us.push_back(
		std::chrono::duration<double, std::micro>(clock_type::now() - from).count());
	ended++;
}

static void products(long n)
{
	float *m[3];

	for (auto &p : m) {
		CHECK(cudaMalloc(&p, n * n * sizeof(*p)));
		CHECK(cudaMemset(p, 0, n * n * sizeof(*p)));
	}
	while (!stop) {
		auto from = clock_type::now();

		product<<<dim3(n / 32, n / 32), dim3(32, 32)>>>(m[0], m[1], m[2], (int)n);
		CHECK(cudaDeviceSynchronize());
		took(from);
	}
}

__global__ void walk(const unsigned *p, unsigned n, unsigned *never)
{
	unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;

	for (int i = 0; i < 2000; i++)
		at = at * 1664525u + 1013904223u + p[at % n];
	if (at == 0x12345678)
		*never = at;
}

static void walks(long bytes)
{
	cudaEvent_t done[queued];
	unsigned *p;

	CHECK(cudaMalloc(&p, bytes));
	CHECK(cudaMemset(p, 0, bytes));
	for (auto &e : done)
		CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	for (long i = 0; !stop; i++, ended++) {
		if (i >= queued)
			CHECK(cudaEventSynchronize(done[i % queued]));
		walk<<<blocks, threads>>>(p, (unsigned)(bytes / sizeof(*p)), p);
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
		auto from = clock_type::now();
		run_us(n);
		took(from);
		next = std::max(next + period, clock_type::now());
	}
}

static void tell(void)
{
	std::lock_guard<std::mutex> guard(lock);
	size_t n = took_us.size();

	std::sort(took_us.begin(), took_us.end());
	printf("%.3f %.0f %.0f\n", steps_each ? (double)*(volatile long *)steps / steps_each
				   : (double)ended.load(),
	       n ? took_us[n / 2] : 0.0,
	       n ? took_us[n * 99 / 100] : 0.0);
	fflush(stdout);
	took_us.clear();
}

int main(int argc, char **argv)
{
	char line[16];
	int sms;

	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	blocks = sms;
	CHECK(cudaHostAlloc(&steps, sizeof(*steps), cudaHostAllocMapped));
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
	std::thread t;
	if (argc > 3)
		t = std::thread(every, atof(argv[2]), atol(argv[3]));
	else if (!strcmp(argv[1], "graph"))
		t = std::thread(graphs, atol(argv[2]));
	else if (!strcmp(argv[1], "long"))
		t = std::thread(one_long, atol(argv[2]));
	else if (!strcmp(argv[1], "copy"))
		t = std::thread(copies, atol(argv[2]));
	else if (!strcmp(argv[1], "matmul"))
		t = std::thread(products, atol(argv[2]));
	else if (!strcmp(argv[1], "walk"))
		t = std::thread(walks, atol(argv[2]));
	else
		t = std::thread(loop, atol(argv[2]), strcmp(argv[1], "deep") ? queued : many);
	while (fgets(line, sizeof(line), stdin))
		tell();
	stop = true;
	t.join();
	/* A client of an MPS server that ends with work in flight is a fault of all. */
	CHECK(cudaDeviceSynchronize());
	return 0;
}
