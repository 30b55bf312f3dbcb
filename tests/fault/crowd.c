/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads that ask for more memory than there is in the same moment: crowd THREADS
 * MIB ROUNDS. Each gets it or is told that there is none.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static CUcontext ctx;
static pthread_barrier_t barrier;
static size_t bytes;
static int rounds;
static _Atomic int wrong;

static void note(CUresult r)
{
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
		atomic_store(&wrong, (int)r);
}

static void *asks(void *arg)
{
	CUdeviceptr p = 0;
	CUresult r;

	note(cuCtxSetCurrent(ctx));
	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&barrier);
		r = cuMemAlloc(&p, bytes);
		note(r);
		pthread_barrier_wait(&barrier);
		if (r == CUDA_SUCCESS)
			note(cuMemFree(p));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 200;
	pthread_t *threads = calloc(n, sizeof(*threads));
	pthread_attr_t attr;
	CUdevice dev;

	bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 100) << 20;
	rounds = argc > 3 ? atoi(argv[3]) : 10;
	if (cuInit(0) || cuDeviceGet(&dev, 0) || cuDevicePrimaryCtxRetain(&ctx, dev))
		return 2;
	pthread_barrier_init(&barrier, NULL, n);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	for (unsigned i = 0; i < n; i++) {
		if (pthread_create(&threads[i], &attr, asks, NULL))
			return 3;
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf(wrong ? "error %d\n" : "right\n", wrong);
	return wrong != 0;
}
