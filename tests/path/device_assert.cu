/* SPDX-License-Identifier: Apache-2.0 */
/* assert(), wild stores, misaligned loads, traps: CUDA's codes, sticky, and confined. */
#include "check.h"

#include <cassert>
#include <sys/wait.h>
#include <unistd.h>

__global__ void asserts(int n)
{
	assert(threadIdx.x < n);
}

__global__ void wild(int *p)
{
	p[threadIdx.x] = 1;
}

__global__ void misaligned(char *p, int *out)
{
	*out = *(volatile int *)(p + 1);
}

__global__ void traps()
{
	if (threadIdx.x == 3)
		__trap();
}

__global__ void fine(int *p)
{
	*p = 7;
}

/* A lost context stays lost for its process, so each case has a process of its own. */
static void in_child(const char *what, int kind, cudaError_t want)
{
	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		int *p, v;

		/* what assert prints is not part of the verdict */
		if (!freopen("/dev/null", "w", stderr))
			_exit(9);
		CK(cudaMalloc(&p, 4096));
		fine<<<1, 1>>>(p);
		CK(cudaDeviceSynchronize());
		if (kind == 0)
			asserts<<<2, 32>>>(20);
		else if (kind == 1)
			wild<<<1, 32>>>((int *)0x10);
		else if (kind == 2)
			misaligned<<<1, 1>>>((char *)p, p + 1);
		else if (kind == 3)
			traps<<<1, 32>>>();
		else
			wild<<<1, 32>>>(p + (1ull << 34));
		EXPECT(cudaDeviceSynchronize(), want);
		/* sticky: every later call says the same */
		EXPECT(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost), want);
		EXPECT(cudaMalloc(&p, 16), want);
		EXPECT(cudaGetLastError(), want);
		_exit(0);
	}
	int st;
	waitpid(pid, &st, 0);
	if (!WIFEXITED(st) || WEXITSTATUS(st) != 0)
		fail("%s: child status 0x%x", what, st);
}

int main()
{
	check_name = "device_assert";
	in_child("assert", 0, cudaErrorAssert);
	in_child("store to 0x10", 1, cudaErrorIllegalAddress);
	in_child("misaligned load", 2, cudaErrorMisalignedAddress);
	in_child("trap", 3, cudaErrorLaunchFailure);
	in_child("store far beyond an allocation", 4, cudaErrorIllegalAddress);
	int *p, v = 0;
	CK(cudaMalloc(&p, 4));
	fine<<<1, 1>>>(p);
	CK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
	REQUIRE(v == 7);
	return pass();
}
