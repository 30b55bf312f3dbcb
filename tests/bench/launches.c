/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of launches, whatever libcuda carries them: the call itself (bursts that fit a
 * queue), the throughput of a long run, and the cost of waiting; and the time from main()
 * to the end of the first kernel.
 *
 *	bench_launches                     natively
 *	weft-run -- bench_launches
 *	bench_launches --first             the last line only
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define RUN    100000u
#define BURST  200u
#define BURSTS 50u
#define WAITS  3000u
#define PARAMS 16

static const char ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".entry none() { ret; }\n"
	".entry three(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }\n"
	".entry many(.param .u64 a, .param .u64 b, .param .u64 c,\n"
	"  .param .u64 d, .param .u64 e, .param .u64 f, .param .u64 g,\n"
	"  .param .u64 h, .param .u32 i, .param .u32 j, .param .u32 k,\n"
	"  .param .u32 l, .param .u32 m, .param .u32 n, .param .u32 o,\n"
	"  .param .u32 p) { ret; }\n";

#define CALLS(X)                                                                         \
	X(cuInit, (unsigned))                                                            \
	X(cuDeviceGet, (CUdevice *, int))                                                \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                             \
	X(cuCtxSetCurrent, (CUcontext))                                                  \
	X(cuCtxSynchronize, (void))                                                      \
	X(cuModuleLoadData, (CUmodule *, const void *))                                  \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                   \
	X(cuStreamCreate, (CUstream *, unsigned))                                        \
	X(cuStreamSynchronize, (CUstream))                                               \
	X(cuStreamQuery, (CUstream))                                                     \
	X(cuEventCreate, (CUevent *, unsigned))                                          \
	X(cuEventRecord, (CUevent, CUstream))                                            \
	X(cuEventQuery, (CUevent))                                                       \
	X(cuEventSynchronize, (CUevent))                                                 \
	X(cuEventElapsedTime, (float *, CUevent, CUevent))                               \
	X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, \
			   unsigned, unsigned, CUstream, void **, void **))              \
	X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))

#define X(name, args) static CUresult(*p_##name) args;
CALLS(X)
#undef X

static CUfunction none, three, many;
static CUstream stream;
static CUevent event, event2;
static uint64_t wide[PARAMS];
static void *params[PARAMS];

static void check(CUresult r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: error %d\n", what, (int)r);
		exit(1);
	}
}

static CUresult launch(CUfunction f)
{
	return p_cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static CUresult launch_none(void)
{
	return launch(none);
}

static CUresult launch_three(void)
{
	return launch(three);
}

static CUresult launch_many(void)
{
	return launch(many);
}

static CUresult launch_ex(void)
{
	CUlaunchAttribute attr;
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 32,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream,
				 .attrs = &attr,
				 .numAttrs = 1};

	memset(&attr, 0, sizeof(attr));
	attr.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
	attr.value.programmaticStreamSerializationAllowed = 1;
	return p_cuLaunchKernelEx(&config, three, params, NULL);
}

static CUresult record(void)
{
	return p_cuEventRecord(event, stream);
}

static CUresult launch_and_wait(void)
{
	CUresult r = launch_three();

	return r ? r : p_cuStreamSynchronize(stream);
}

static CUresult launch_and_poll(void)
{
	CUresult r = launch_three();

	while (!r && (r = p_cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		r = CUDA_SUCCESS;
	return r;
}

static CUresult launch_and_event(void)
{
	CUresult r = launch_three();

	if (!r)
		r = record();
	return r ? r : p_cuEventSynchronize(event);
}

static CUresult wait_stream(void)
{
	return p_cuStreamSynchronize(stream);
}

static CUresult query_stream(void)
{
	return p_cuStreamQuery(stream);
}

static CUresult query_event(void)
{
	return p_cuEventQuery(event);
}

static CUresult elapsed(void)
{
	float ms;

	return p_cuEventElapsedTime(&ms, event, event2);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print(const char *what, uint64_t *ns, unsigned n, double per)
{
	qsort(ns, n, sizeof(*ns), compare);
	printf("%-40s %8.3f %8.3f %8.3f\n", what, (double)ns[n / 10] / per,
	       (double)ns[n / 2] / per, (double)ns[n * 9 / 10] / per);
	fflush(stdout);
}

/* The call, in bursts after which the device catches up. */
static void burst(const char *what, CUresult (*call)(void))
{
	uint64_t ns[BURSTS];

	for (unsigned i = 0; i < BURSTS; i++) {
		uint64_t t = clock_now_ns();

		for (unsigned j = 0; j < BURST; j++)
			check(call(), what);
		ns[i] = clock_now_ns() - t;
		check(p_cuCtxSynchronize(), "cuCtxSynchronize");
	}
	print(what, ns, BURSTS, 1e3 * BURST);
}

static void throughput(const char *what, CUresult (*call)(void))
{
	uint64_t ns[5];

	for (unsigned i = 0; i < 5; i++) {
		uint64_t t = clock_now_ns();

		for (unsigned j = 0; j < RUN / 5; j++)
			check(call(), what);
		check(p_cuCtxSynchronize(), "cuCtxSynchronize");
		ns[i] = clock_now_ns() - t;
	}
	print(what, ns, 5, 1e3 * RUN / 5);
}

#define THREADS 4

static CUcontext context;

static void *thread(void *arg)
{
	CUstream st;

	check(p_cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(p_cuStreamCreate(&st, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	for (unsigned i = 0; i < RUN / 5 / THREADS; i++)
		check(p_cuLaunchKernel(three, 1, 1, 1, 32, 1, 1, 0, st, params, NULL),
		      "cuLaunchKernel");
	check(p_cuStreamSynchronize(st), "cuStreamSynchronize");
	return arg;
}

/* Each thread with a stream of its own; per launch of any of them. */
static void threads(const char *what)
{
	uint64_t ns[5];

	for (unsigned i = 0; i < 5; i++) {
		uint64_t t = clock_now_ns();
		pthread_t id[THREADS];

		for (unsigned j = 0; j < THREADS; j++)
			pthread_create(&id[j], NULL, thread, NULL);
		for (unsigned j = 0; j < THREADS; j++)
			pthread_join(id[j], NULL);
		ns[i] = clock_now_ns() - t;
	}
	print(what, ns, 5, 1e3 * RUN / 5);
}

static void wait(const char *what, CUresult (*call)(void))
{
	static uint64_t ns[WAITS];

	for (unsigned i = 0; i < WAITS; i++) {
		uint64_t t = clock_now_ns();

		check(call(), what);
		ns[i] = clock_now_ns() - t;
	}
	print(what, ns, WAITS, 1e3);
}

static double ms_since(uint64_t t)
{
	return (double)(clock_now_ns() - t) / 1e6;
}

static void begin(uint64_t start)
{
	double init, ctx, module;
	CUmodule mod;
	CUdevice dev;

	check(p_cuInit(0), "cuInit");
	init = ms_since(start);
	check(p_cuDeviceGet(&dev, 0), "cuDeviceGet");
	check(p_cuDevicePrimaryCtxRetain(&context, dev), "cuDevicePrimaryCtxRetain");
	check(p_cuCtxSetCurrent(context), "cuCtxSetCurrent");
	ctx = ms_since(start);
	check(p_cuModuleLoadData(&mod, ptx), "cuModuleLoadData");
	check(p_cuModuleGetFunction(&none, mod, "none"), "cuModuleGetFunction");
	check(p_cuModuleGetFunction(&three, mod, "three"), "cuModuleGetFunction");
	check(p_cuModuleGetFunction(&many, mod, "many"), "cuModuleGetFunction");
	module = ms_since(start);
	check(launch_none(), "cuLaunchKernel");
	check(p_cuCtxSynchronize(), "cuCtxSynchronize");
	printf("main to cuInit %.1f, context %.1f, module %.1f, first kernel %.1f ms\n",
	       init, ctx, module, ms_since(start));
	fflush(stdout);
	check(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(p_cuEventCreate(&event, 0), "cuEventCreate");
	check(p_cuEventCreate(&event2, 0), "cuEventCreate");
	check(p_cuEventRecord(event2, stream), "cuEventRecord");
}

static void *find(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (p)
		return p;
	fprintf(stderr, "no %s\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	uint64_t start = clock_now_ns();
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
#define X(name, args) p_##name = (CUresult(*) args)find(lib, #name);
	CALLS(X)
#undef X
	for (unsigned i = 0; i < PARAMS; i++)
		params[i] = &wide[i];
	begin(start);
	if (argc > 1 && strcmp(argv[1], "--first") == 0)
		return 0;
	printf("%-40s %8s %8s %8s\n", "us", "10 %", "median", "90 %");
	burst("launch, no parameters, call", launch_none);
	burst("launch, 3 parameters, call", launch_three);
	burst("launch, 16 parameters, call", launch_many);
	burst("launch with an attribute, call", launch_ex);
	burst("cuEventRecord, call", record);
	throughput("launch, no parameters, throughput", launch_none);
	throughput("launch, 3 parameters, throughput", launch_three);
	throughput("launch, 16 parameters, throughput", launch_many);
	throughput("launch with an attribute, throughput", launch_ex);
	throughput("cuEventRecord, throughput", record);
	threads("launch, 4 threads, throughput");
	wait("launch and cuStreamSynchronize", launch_and_wait);
	wait("launch and cuStreamQuery until done", launch_and_poll);
	wait("launch, cuEventRecord, Synchronize", launch_and_event);
	wait("cuStreamSynchronize, idle", wait_stream);
	wait("cuStreamQuery, idle", query_stream);
	wait("cuEventQuery, done", query_event);
	wait("cuEventElapsedTime", elapsed);
	return 0;
}
