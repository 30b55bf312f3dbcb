/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: stacks of any depth; threads that slept while the primary one was reset. */
#include <pthread.h>

#include "driver.h"

#define DEEP   70 /* of half a GiB each on a GPU */
#define RESETS 40

static pthread_barrier_t turn;
static CUstream stream; /* of the primary context as it is now */

static void deep_stack(void)
{
	CUcontext all[DEEP], c;

	for (int i = 0; i < DEEP; i++)
		CK(cuCtxCreate(&all[i], NULL, 0, 0));
	for (int i = 0; i < DEEP; i++)
		CK(cuCtxPushCurrent(all[i]));
	for (int i = 2 * DEEP; i-- > 0;) {
		CUdeviceptr p;

		CK(cuMemAlloc(&p, 100));
		CK(cuMemFree(p));
		CK(cuCtxPopCurrent(&c));
		REQUIRE(c == all[i % DEEP]);
	}
	EXPECT(cuCtxPopCurrent(&c), CUDA_ERROR_INVALID_CONTEXT);
	for (int i = 0; i < DEEP; i++)
		CK(cuCtxDestroy(all[i]));
}

/* A sleeper's event must be one of its stream's context, after any number of lives. */
static void *sleeper(void *arg)
{
	for (int i = 0; i < RESETS; i++) {
		CUevent e;

		pthread_barrier_wait(&turn);
		CK(cuCtxSetCurrent(arg));
		CK(cuEventCreate(&e, 0));
		CK(cuEventRecord(e, stream));
		CK(cuEventSynchronize(e));
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

static void resets(void)
{
	CUcontext ctx;
	pthread_t t;

	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	pthread_barrier_init(&turn, NULL, 2);
	REQUIRE(!pthread_create(&t, NULL, sleeper, ctx));
	for (int i = 0; i < RESETS; i++) {
		for (int n = 0; n <= i; n++) {
			CK(cuDevicePrimaryCtxReset(0));
			CK(cuDevicePrimaryCtxRetain(&ctx, 0));
		}
		CK(cuCtxSetCurrent(ctx));
		CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
	}
	REQUIRE(!pthread_join(t, NULL));
}

int main(void)
{
	check_name = "drv_contexts";
	CK(cuInit(0));
	deep_stack();
	resets();
	return pass();
}
