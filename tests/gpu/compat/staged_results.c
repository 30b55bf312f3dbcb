/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=60 soft */
/*
 * How frameworks fetch results: one thread computes on a stream and records an event;
 * another makes its stream wait for that, copies into pinned memory and has a host
 * function copy it on. Every result is a new one, so that a stale one is noticed. Inputs
 * go the same way: a host function fills pinned memory that the stream then fetches.
 */
#include <cuda.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define N      1568
#define ROUNDS 2000

static const char *ptx =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry add(.param .u64 po, .param .u64 pi, .param .u32 n)\n{\n"
	".reg .u64 o, i, b; .reg .u32 t, x, c, d; .reg .pred q;\n"
	"ld.param.u64 o, [po]; ld.param.u64 i, [pi]; ld.param.u32 c, [n];\n"
	"mov.u32 t, %ctaid.x; mov.u32 x, %ntid.x; mul.lo.u32 t, t, x;\n"
	"mov.u32 x, %tid.x; add.u32 t, t, x; setp.ge.u32 q, t, c; @q ret;\n"
	"mul.wide.u32 b, t, 4; add.u64 o, o, b; add.u64 i, i, b;\n"
	"ld.global.u32 x, [i]; add.u32 x, x, t; st.global.u32 [o], x; ret;\n}\n";

struct input {
	unsigned *stage;
	unsigned value;
};

struct output {
	const unsigned *stage;
	unsigned *to;
	sem_t done;
};

static CUcontext ctx;
static CUevent computed;
static CUdeviceptr in, out;
static unsigned *up, *down;
static struct output result;
static sem_t work, idle;

static void fill(void *arg)
{
	struct input *i = arg;

	for (unsigned k = 0; k < N; k++)
		i->stage[k] = i->value;
}

static void take(void *arg)
{
	struct output *o = arg;

	memcpy(o->to, o->stage, N * sizeof(*o->to));
	sem_post(&o->done);
}

static void *fetcher(void *unused)
{
	CUstream s;

	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < ROUNDS; i++) {
		sem_wait(&work);
		CHECK(cuStreamWaitEvent(s, computed, 0));
		CHECK(cuMemcpyDtoHAsync(down, out, N * 4, s));
		CHECK(cuLaunchHostFunc(s, take, &result));
		sem_post(&idle);
	}
	return unused;
}

static void verify(const unsigned *got, unsigned value)
{
	for (unsigned k = 0; k < N; k++) {
		if (got[k] != value + k) {
			printf("FAIL staged_results: round %u: element %u is %u\n", value,
			       k, got[k]);
			exit(1);
		}
	}
}

int main(void)
{
	static unsigned got[N];
	unsigned n = N;
	void *args[] = {&out, &in, &n};
	struct input input;
	pthread_t thread;
	CUdevice dev;
	CUmodule mod;
	CUfunction fn;
	CUstream s, feed;
	CUevent fed;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&fn, mod, "add"));
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&feed, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&computed, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&fed, CU_EVENT_DISABLE_TIMING));
	CHECK(cuMemAlloc(&in, N * 4));
	CHECK(cuMemAlloc(&out, N * 4));
	CHECK(cuMemHostAlloc((void **)&up, N * 4, CU_MEMHOSTALLOC_PORTABLE));
	CHECK(cuMemHostAlloc((void **)&down, N * 4, CU_MEMHOSTALLOC_PORTABLE));
	result = (struct output){.stage = down, .to = got};
	sem_init(&result.done, 0, 0);
	sem_init(&work, 0, 0);
	sem_init(&idle, 0, 0);
	CHECK(pthread_create(&thread, NULL, fetcher, NULL));
	input.stage = up;
	for (unsigned i = 0; i < ROUNDS; i++) {
		input.value = i;
		CHECK(cuLaunchHostFunc(feed, fill, &input));
		CHECK(cuMemcpyHtoDAsync(in, up, N * 4, feed));
		CHECK(cuEventRecord(fed, feed));
		CHECK(cuStreamWaitEvent(s, fed, 0));
		CHECK(cuLaunchKernel(fn, (N + 127) / 128, 1, 1, 128, 1, 1, 0, s, args,
				     NULL));
		CHECK(cuEventRecord(computed, s));
		sem_post(&work);
		sem_wait(&result.done);
		verify(got, i);
		sem_wait(&idle);
	}
	pthread_join(thread, NULL);
	printf("ok staged_results %d rounds\n", ROUNDS);
	return 0;
}
