/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Touches managed memory that is on the device, once its input ends, or with "busy" at once,
 * while a kernel that does not end runs, and a host function, so that it is not made to stand
 * still. Prints "running" before, "touched" after it, and the
 * name of the next call's error. Exit status 1: there is one.
 */
#include <cstdio>
#include <cstring>
#include <unistd.h>

__global__ void step(unsigned *p)
{
	p[threadIdx.x] += 1;
}

__global__ void for_ever(volatile unsigned *p)
{
	while (*p != 77)
		;
}

static void last(void *)
{
	pause();
}

#define CK(x)                                                                            \
	do {                                                                             \
		cudaError_t e = (x);                                                     \
		if (e) {                                                                 \
			printf("%s\n", cudaGetErrorName(e));                             \
			return 1;                                                        \
		}                                                                        \
	} while (0)

int main(int argc, char **argv)
{
	unsigned *p, *q;
	char c;

	setlinebuf(stdout);
	CK(cudaMallocManaged(&p, 64 << 20));
	CK(cudaMalloc(&q, 4));
	CK(cudaMemset(q, 0, 4));
	p[0] = 1;
	step<<<1, 32>>>(p);
	CK(cudaDeviceSynchronize());
	if (argc > 1 && !strcmp(argv[1], "busy")) {
		cudaStream_t s;

		CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		CK(cudaLaunchHostFunc(s, last, nullptr));
		for_ever<<<1, 1>>>(q);
		/* Launches are not waited for; an answer that comes after one is. */
		if (cudaStreamQuery(0) != cudaErrorNotReady)
			return 1;
	}
	puts("running");
	while (argc < 2 && read(STDIN_FILENO, &c, 1) > 0)
		;
	printf("touched %u\n", *(volatile unsigned *)p);
	CK(cudaDeviceSynchronize());
	puts("right");
	return 0;
}
