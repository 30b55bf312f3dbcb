/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=60 soft */
/* Launches of an empty kernel: cost of a call, how many go through, a round trip. */
#include "bench.h"

/* Fewer than any driver's queue takes, so that no call waits for the GPU. */
#define BATCH   200
#define BATCHES 200
#define MANY    100000
#define ROUNDS  2000

int main(void)
{
	static double t[ROUNDS];
	uint64_t p = 0;
	unsigned n = 0;
	void *args[] = {&p, &n};
	CUfunction fn;
	CUstream s;
	double start;

	bench_open();
	fn = bench_kernel();
	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < BATCHES; i++) {
		start = now_us();
		for (int j = 0; j < BATCH; j++)
			CK(cuLaunchKernel(fn, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
		t[i] = (now_us() - start) / BATCH;
		CK(cuStreamSynchronize(s));
	}
	printf("launch_call %.4f\n", median(t, BATCHES));
	start = now_us();
	for (int i = 0; i < MANY; i++)
		CK(cuLaunchKernel(fn, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
	CK(cuStreamSynchronize(s));
	printf("launch_rate %.2f\n", MANY / (now_us() - start) * 1e3);
	for (int i = 0; i < ROUNDS; i++) {
		start = now_us();
		CK(cuLaunchKernel(fn, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
		CK(cuStreamSynchronize(s));
		t[i] = now_us() - start;
	}
	printf("launch_sync %.3f\n", median(t, ROUNDS));
	return 0;
}
