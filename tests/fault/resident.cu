/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one kernel of many blocks and says how many of them are on the device at once, as it is told,
 * a line each, and answers each with the CUDA error and a number:
 *	r BLOCKS	launches
 *	n BLOCKS	the most that there were, while so many came
 *	e		has what is left end soon: how many blocks were not done just once
 */
#include <cstdio>
#include <cuda_runtime.h>
#include <unistd.h>

static const unsigned THREADS = 32, MOST = 1 << 20;

/* The host's. */
struct seen {
	unsigned now, most, begun, hurry;
	unsigned times[MOST];
};

static struct seen *s;
static unsigned blocks;

__global__ void kernel(struct seen *s, unsigned rounds)
{
	volatile unsigned *hurry = &s->hurry;

	if (threadIdx.x == 0) {
		atomicMax(&s->most, atomicAdd(&s->now, 1) + 1);
		atomicAdd(&s->begun, 1);
	}
	for (unsigned i = 0; i < rounds && !*hurry; i++)
		;
	if (threadIdx.x == 0) {
		atomicSub(&s->now, 1);
		atomicAdd(&s->times[blockIdx.x], 1);
	}
}

static unsigned most_of(unsigned n)
{
	volatile struct seen *v = s;
	unsigned begun = v->begun;

	v->most = 0;
	while (v->begun < begun + n && v->begun < blocks)
		usleep(1000);
	return v->most;
}

static cudaError_t end(unsigned *ret_n)
{
	cudaError_t e;

	((volatile struct seen *)s)->hurry = 1;
	e = cudaDeviceSynchronize();
	for (unsigned i = 0; i < blocks; i++)
		*ret_n += s->times[i] != 1;
	return e;
}

int main()
{
	char what, line[64];
	unsigned n;

	if (cudaHostAlloc(&s, sizeof(*s), cudaHostAllocMapped))
		return 1;
	*s = {};
	while (fgets(line, sizeof(line), stdin)) {
		cudaError_t e = cudaSuccess;

		n = 0;
		if (sscanf(line, "%c %u", &what, &n) < 1)
			return 1;
		if (what == 'r') {
			blocks = n < MOST ? n : MOST;
			kernel<<<blocks, THREADS>>>(s, 2000);
			e = cudaGetLastError();
		} else if (what == 'n') {
			n = most_of(n);
		} else {
			n = 0;
			e = end(&n);
		}
		printf("%d %u\n", e, n);
		fflush(stdout);
	}
	return 0;
}
