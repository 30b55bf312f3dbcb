/* SPDX-License-Identifier: Apache-2.0 */
/* fork after CUDA has started, late calls from destructors and atexit, many short lives. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

__global__ void inc(int *p)
{
	(*p)++;
}

static int *late_ptr;

/* Destroyed after main: calls into a runtime that is going away must return. */
struct late {
	~late()
	{
		cudaFree(late_ptr);
		cudaDeviceSynchronize();
		int n;
		cudaGetDeviceCount(&n);
	}
} late_object;

static void at_exit(void)
{
	cudaDeviceSynchronize();
	cudaFree(late_ptr);
}

int main()
{
	check_name = "process_life";
	atexit(at_exit);
	int v = 0;

	CK(cudaMalloc(&late_ptr, 4));
	CK(cudaMemset(late_ptr, 0, 4));
	inc<<<1, 1>>>(late_ptr);
	CK(cudaDeviceSynchronize());
	/* children, as a DataLoader makes them: CUDA refuses, the parent goes on */
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			int *q = nullptr;
			cudaError_t e = cudaMalloc(&q, 4);
			_exit(e == cudaErrorInitializationError ? 0 : 1);
		}
		inc<<<1, 1>>>(late_ptr);
		int st;
		REQUIRE(waitpid(pid, &st, 0) == pid);
		if (!WIFEXITED(st) || WEXITSTATUS(st))
			fail("child %d: status 0x%x", i, st);
	}
	CK(cudaMemcpy(&v, late_ptr, 4, cudaMemcpyDeviceToHost));
	REQUIRE(v == 4);
	/* a child that runs another program starts afresh */
	if (!getenv("WEFT_TEST_INNER")) {
		pid_t pid = fork();
		if (pid == 0) {
			setenv("WEFT_TEST_INNER", "1", 1);
			execl("/proc/self/exe", "process_life", (char *)NULL);
			_exit(127);
		}
		int st;
		REQUIRE(waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0);
	}
	return pass();
}
