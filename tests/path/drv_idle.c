/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is said to be done is done: threads put functions into streams that they
 * share, and whenever a stream or an event is said to be done, all have run that were put
 * there before. Questions are asked again and again, since the library answers some by
 * itself.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "driver.h"

#define STREAMS 3
#define THREADS 4
#define ROUNDS  150

static CUcontext ctx;
static struct lane {
	CUstream st;
	atomic_uint put, run; /* functions */
} lanes[STREAMS];

static void CUDA_CB count(void *arg)
{
	struct lane *l = arg;

	if (atomic_load(&l->run) % 4 == 0)
		usleep(300);
	atomic_fetch_add(&l->run, 1);
}

static void put(struct lane *l)
{
	CK(cuLaunchHostFunc(l->st, count, l));
	/* Only now: whoever reads it comes after the call. */
	atomic_fetch_add(&l->put, 1);
}

static void ask_stream(struct lane *l)
{
	unsigned put = atomic_load(&l->put);
	CUresult r = cuStreamQuery(l->st);

	if (r == CUDA_SUCCESS)
		REQUIRE(atomic_load(&l->run) >= put);
	else
		REQUIRE(r == CUDA_ERROR_NOT_READY);
}

static void wait_stream(struct lane *l)
{
	unsigned put = atomic_load(&l->put);

	CK(cuStreamSynchronize(l->st));
	REQUIRE(atomic_load(&l->run) >= put);
}

/* The event is this thread's own. */
static void ask_event(struct lane *l, CUevent ev)
{
	unsigned put = atomic_load(&l->put);
	CUresult r;

	CK(cuEventRecord(ev, l->st));
	do {
		r = cuEventQuery(ev);
		REQUIRE(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
	} while (r);
	REQUIRE(atomic_load(&l->run) >= put);
	CK(cuEventSynchronize(ev));
}

static void copy_back(struct lane *l, CUdeviceptr p)
{
	unsigned put = atomic_load(&l->put), x;

	CK(cuMemcpyDtoHAsync(&x, p, sizeof(x), l->st));
	CK(cuStreamSynchronize(l->st));
	REQUIRE(atomic_load(&l->run) >= put);
}

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg + 1;
	CUdeviceptr p;
	CUevent ev;

	CK(cuCtxSetCurrent(ctx));
	CK(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
	CK(cuMemAlloc(&p, 4096));
	CK(cuMemsetD8(p, 0, 4096));
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct lane *l = &lanes[rand_r(&seed) % STREAMS];
		unsigned what = rand_r(&seed) % 8;

		if (what < 3)
			put(l);
		if (what == 3)
			wait_stream(l);
		if (what == 4)
			ask_event(l, ev);
		if (what == 5)
			copy_back(l, p);
		ask_stream(l);
		ask_stream(l);
	}
	CK(cuEventDestroy(ev));
	CK(cuMemFree(p));
	return NULL;
}

/* One thread, one stream: nothing else can keep the library from answering. */
static void alone(void)
{
	struct lane *l = &lanes[0];
	CUevent ev;

	CK(cuEventCreate(&ev, 0));
	for (unsigned i = 0; i < ROUNDS; i++) {
		wait_stream(l);
		CK(cuEventRecord(ev, l->st));
		CK(cuEventQuery(ev)); /* there was nothing before it */
		put(l);
		ask_stream(l);
		CK(cuEventQuery(ev));
		ask_event(l, ev);
		CK(cuEventRecord(ev, l->st));
	}
	CK(cuEventDestroy(ev));
}

int main(void)
{
	pthread_t t[THREADS];
	CUdevice dev;

	check_name = "drv_idle";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	for (unsigned i = 0; i < STREAMS; i++)
		CK(cuStreamCreate(&lanes[i].st, i ? CU_STREAM_NON_BLOCKING : 0));
	alone();
	for (uintptr_t i = 0; i < THREADS; i++)
		REQUIRE(!pthread_create(&t[i], NULL, work, (void *)i));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < STREAMS; i++) {
		CK(cuStreamSynchronize(lanes[i].st));
		REQUIRE(lanes[i].run == lanes[i].put);
	}
	return pass();
}
