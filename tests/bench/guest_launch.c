/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of calls for the thread that makes them, on the guest library and a worker that
 * only takes note: kernel launches (posted), calls answered in the guest, calls that
 * wait. Launches come in batches that fit the ring, so that no batch waits for the
 * worker.
 *
 *	bench_guest_launch [BATCHES]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/guest/fake.h"
#include "base/clock.h"
#include "core/guest.h"

#define BATCH   1000
#define BATCHES 200

static CUfunction func;
static CUstream stream;
static CUevent event;

static void check(CUresult r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: error %d\n", what, (int)r);
		exit(1);
	}
}

static CUresult launch(void)
{
	uint64_t a = 1, b = 2;
	uint32_t c = 3;
	void *params[] = {&a, &b, &c};

	return cuLaunchKernel(func, 100, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

static CUresult launch_default(void)
{
	return cuLaunchKernel(func, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static CUresult record(void)
{
	return cuEventRecord(event, stream);
}

static CUgraphExec exec;

/* Launches a graph of any number of kernels: the cost is that of one command. */
static CUresult launch_graph(void)
{
	return cuGraphLaunch(exec, stream);
}

static void make_graph(unsigned kernels)
{
	CUgraph g;

	check(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
	      "cuStreamBeginCapture");
	while (kernels--)
		check(launch(), "cuLaunchKernel");
	check(cuStreamEndCapture(stream, &g), "cuStreamEndCapture");
	check(cuGraphInstantiateWithFlags(&exec, g, 0), "cuGraphInstantiate");
	check(cuGraphDestroy(g), "cuGraphDestroy");
}

static CUresult is_capturing(void)
{
	CUstreamCaptureStatus status;

	return cuStreamIsCapturing(stream, &status);
}

static CUresult get_device(void)
{
	CUdevice d;

	return cuCtxGetDevice(&d);
}

static CUresult get_attribute(void)
{
	int v;

	return cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, func);
}

static CUresult primary_state(void)
{
	unsigned flags;
	int active;

	return cuDevicePrimaryCtxGetState(0, &flags, &active);
}

static CUresult wait_stream(void)
{
	return cuStreamSynchronize(stream);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *name, CUresult (*call)(void), unsigned batches)
{
	double *ns = calloc(batches, sizeof(*ns)), sum = 0, sq = 0;
	unsigned i, j;

	for (i = 0; i < batches; i++) {
		uint64_t start = clock_now_ns();

		for (j = 0; j < BATCH; j++)
			check(call(), name);
		ns[i] = (double)(clock_now_ns() - start) / BATCH;
		sum += ns[i];
		sq += ns[i] * ns[i];
		check(cuCtxSynchronize(), "cuCtxSynchronize");
	}
	qsort(ns, batches, sizeof(*ns), by_value);
	sum /= batches;
	printf("%-34s %8.1f %8.1f %8.1f +- %.1f\n", name, ns[0], ns[batches / 2], sum,
	       sqrt(fmax(sq / batches - sum * sum, 0)));
	free(ns);
}

int main(int argc, char **argv)
{
	unsigned batches = argc > 1 ? (unsigned)atoi(argv[1]) : BATCHES;
	CUmodule module;
	CUfunction empty;
	CUcontext ctx;

	fake_start(true);
	check(cuInit(0), "cuInit");
	check(cuDevicePrimaryCtxRetain(&ctx, 0), "cuDevicePrimaryCtxRetain");
	check(cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
	check(cuModuleLoadData(&module, ".version 9.0"), "cuModuleLoadData");
	check(cuModuleGetFunction(&func, module, "plain"), "cuModuleGetFunction");
	check(cuModuleGetFunction(&empty, module, "empty"), "cuModuleGetFunction");
	check(cuStreamCreate(&stream, 0), "cuStreamCreate");
	check(cuEventCreate(&event, 0), "cuEventCreate");
	printf("%-34s %8s %8s %8s  (ns a call, %u batches of %u)\n", "call", "best",
	       "median", "mean", batches, BATCH);
	measure("cuLaunchKernel, 3 parameters", launch, batches);
	make_graph(100);
	measure("cuGraphLaunch, 100 kernels", launch_graph, batches);
	measure("cuStreamIsCapturing", is_capturing, batches);
	func = empty;
	measure("cuLaunchKernel, none", launch_default, batches);
	measure("cuEventRecord", record, batches);
	measure("cuCtxGetDevice", get_device, batches);
	measure("cuFuncGetAttribute", get_attribute, batches);
	measure("cuDevicePrimaryCtxGetState", primary_state, batches);
	measure("cuStreamSynchronize (waits)", wait_stream, batches / 10 + 1);
	return 0;
}
