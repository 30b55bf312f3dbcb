/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More threads at a time than a session has lanes, and than the process has descriptors
 * for: all of them work, each in its context, on memory of its own.
 */
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
#include <sys/wait.h>

#include "driver.h"

#define THREADS 400
#define FEW     24 /* descriptors */
#define SIZE    (96u << 10)
#define LARGE   (5u << 20) /* an answer in several pieces */

static CUcontext contexts[2];
static pthread_barrier_t all_there;

static void check_copies(unsigned n, size_t size)
{
	unsigned char *there = malloc(size), *back = malloc(size);
	CUdeviceptr p;

	REQUIRE(there && back);
	memset(there, (int)n, size);
	CK(cuMemAlloc(&p, size));
	CK(cuMemcpyHtoD(p, there, size));
	CK(cuMemsetD8(p + size / 2, (unsigned char)(n >> 8), 1));
	CK(cuMemcpyDtoH(back, p, size));
	there[size / 2] = (unsigned char)(n >> 8);
	REQUIRE(!memcmp(there, back, size));
	CK(cuMemFree(p));
	free(there);
	free(back);
}

static void *work(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	CUcontext now, mine = contexts[n % 2];
	CUstream st;
	CUevent e;

	CK(cuCtxSetCurrent(mine));
	CK(cuStreamCreate(&st, 0));
	/* Everybody has called once, and nobody has gone. */
	pthread_barrier_wait(&all_there);
	for (unsigned i = 0; i < 3; i++)
		check_copies(n + i, n % 50 ? SIZE : LARGE);
	CK(cuEventCreate(&e, 0));
	CK(cuEventRecord(e, st)); /* of the same context, or it fails */
	CK(cuEventRecord(e, CU_STREAM_PER_THREAD));
	CK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CK(cuEventSynchronize(e));
	CK(cuStreamGetCtx(st, &now));
	REQUIRE(now == mine);
	CK(cuStreamDestroy(st));
	CK(cuEventDestroy(e));
	return NULL;
}

static void CUDA_CB count(void *arg)
{
	++*(int *)arg;
}

static void run_all(unsigned n)
{
	pthread_t t[THREADS];
	pthread_attr_t attr;
	int counted = 0;

	CK(cuInit(0));
	for (int i = 0; i < 2; i++)
		CK(cuCtxCreate(&contexts[i], NULL, 0, 0));
	/* One function first: its helper needs a lane as well. */
	CK(cuLaunchHostFunc(NULL, count, &counted));
	pthread_barrier_init(&all_there, NULL, n);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (unsigned i = 0; i < n; i++)
		REQUIRE(!pthread_create(&t[i], &attr, work, (void *)(uintptr_t)i));
	for (unsigned i = 0; i < n; i++)
		REQUIRE(!pthread_join(t[i], NULL));
	CK(cuLaunchHostFunc(NULL, count, &counted));
	CK(cuStreamSynchronize(NULL));
	REQUIRE(counted == 2);
}

static void in_child(const char *what, unsigned n, rlim_t descriptors)
{
	struct rlimit few = {descriptors, descriptors};
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (descriptors)
			REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
		run_all(n);
		_exit(0);
	}
	REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (status)
		fail("%s: status 0x%x", what, (unsigned)status);
}

int main(void)
{
	check_name = "drv_threads";
	in_child("more threads than lanes", THREADS, 0);
	in_child("few descriptors", 2 * FEW, FEW);
	return pass();
}
