/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=60 soft */
/*
 * One process writes to an address that is nobody's and gets CUDA's error, for that call
 * and every later one; a process beside it, which computes all the time, notices nothing.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what, int code)
{
	printf("FAIL fault_beside: %s (%d: %s)\n", what, code,
	       cudaGetErrorName((cudaError_t)code));
	return 1;
}

__global__ void wild(int *p)
{
	*p = 1;
}

__global__ void grow(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i]++;
}

static int bad_process(void)
{
	int *p;
	cudaError_t r;

	if (cudaMalloc(&p, 4096))
		return 2;
	wild<<<1, 1>>>((int *)0xdead00000000ull);
	r = cudaDeviceSynchronize();
	if (r != cudaErrorIllegalAddress)
		return 3;
	if (cudaMemset(p, 0, 4096) != cudaErrorIllegalAddress)
		return 4;
	return 0;
}

int main(int argc, char **argv)
{
	static int host[1 << 16];
	const int n = 1 << 16, rounds = 3000;
	int *p, status, before;
	pid_t pid;
	cudaError_t r;

	if (argc > 1)
		return bad_process();
	r = cudaMalloc(&p, n * sizeof(int));
	if (!r)
		r = cudaMemset(p, 0, n * sizeof(int));
	if (r)
		return fail("cudaMalloc", r);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", argv[0], "bad", (char *)NULL);
		_exit(127);
	}
	for (before = 0; !waitpid(pid, &status, WNOHANG); before++) {
		grow<<<n / 256, 256>>>(p, n);
		r = cudaDeviceSynchronize();
		if (r)
			return fail("kernel beside the fault", r);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return fail("the faulty process ended otherwise, at step",
			    WEXITSTATUS(status));
	for (int i = 0; i < rounds; i++)
		grow<<<n / 256, 256>>>(p, n);
	r = cudaMemcpy(host, p, sizeof(host), cudaMemcpyDeviceToHost);
	if (r)
		return fail("copy after the fault", r);
	for (int i = 0; i < n; i++)
		if (host[i] != before + rounds)
			return fail("wrong value", i);
	printf("ok fault_beside %d kernels while the other died\n", before);
	return 0;
}
