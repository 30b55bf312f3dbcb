/* SPDX-License-Identifier: Apache-2.0 */
/* weft: soft part=start */
/*
 * Says "ready" when its first kernel has run; with an argument it then sleeps for as many
 * seconds with its context open. The runner takes the times.
 */
#include <unistd.h>

#include "bench.h"

int main(int argc, char **argv)
{
	uint64_t p = 0;
	unsigned n = 0;
	void *args[] = {&p, &n};

	bench_open();
	CK(cuLaunchKernel(bench_kernel(), 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
	CK(cuCtxSynchronize());
	printf("ready\n");
	fflush(stdout);
	if (argc > 1)
		sleep(atoi(argv[1]));
	return 0;
}
