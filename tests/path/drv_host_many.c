/* SPDX-License-Identifier: Apache-2.0 */
/* More functions of the program under way than anybody has room for: launching waits, and
 * all of them run, in order. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "driver.h"

#define STREAMS   80u
#define FUNCTIONS 1000u /* of each stream: fewer than fit into one */

static _Atomic unsigned posted;
static unsigned ran[STREAMS];
static _Atomic int go;

static void CUDA_CB first(void *arg)
{
	(void)arg;
	while (!atomic_load(&go))
		usleep(1000);
}

static void CUDA_CB next(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	if (ran[i % STREAMS] == i / STREAMS)
		ran[i % STREAMS]++;
}

/* Lets the first one go when launching has come to a stand, or to its end. */
static void *let_go(void *arg)
{
	unsigned before;

	(void)arg;
	do {
		before = atomic_load(&posted);
		usleep(200000);
	} while (atomic_load(&posted) != before);
	atomic_store(&go, 1);
	return NULL;
}

int main(void)
{
	CUstream streams[STREAMS];
	pthread_t thread;
	CUcontext ctx;

	check_name = "drv_host_many";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	for (unsigned i = 0; i < STREAMS; i++)
		CK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	CK(cuLaunchHostFunc(streams[0], first, NULL));
	REQUIRE(!pthread_create(&thread, NULL, let_go, NULL));
	for (uintptr_t i = 0; i < STREAMS * FUNCTIONS; i++) {
		CK(cuLaunchHostFunc(streams[i % STREAMS], next, (void *)i));
		atomic_fetch_add(&posted, 1);
	}
	CK(cuCtxSynchronize());
	for (unsigned i = 0; i < STREAMS; i++)
		REQUIRE(ran[i] == FUNCTIONS);
	REQUIRE(!pthread_join(thread, NULL));
	return pass();
}
