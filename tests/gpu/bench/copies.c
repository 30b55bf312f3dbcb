/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=120 */
/* Copies between host and device: 1 GiB pinned, pageable, both ways; many small ones. */
#include "bench.h"

#define LARGE       (1ull << 30)
#define REPEATS     7
#define SMALL_COUNT 2000

static CUstream up, down;
static CUdeviceptr dev_a, dev_b;

static double gbps(double bytes, double us)
{
	return bytes / us / 1e3;
}

static void sync_both(void)
{
	CK(cuStreamSynchronize(up));
	CK(cuStreamSynchronize(down));
}

static void large(const char *kind, char *a, char *b)
{
	double t[3][REPEATS], start;

	for (int i = 0; i < REPEATS; i++) {
		start = now_us();
		CK(cuMemcpyHtoDAsync(dev_a, a, LARGE, up));
		sync_both();
		t[0][i] = gbps(LARGE, now_us() - start);
		start = now_us();
		CK(cuMemcpyDtoHAsync(b, dev_b, LARGE, down));
		sync_both();
		t[1][i] = gbps(LARGE, now_us() - start);
		start = now_us();
		CK(cuMemcpyHtoDAsync(dev_a, a, LARGE, up));
		CK(cuMemcpyDtoHAsync(b, dev_b, LARGE, down));
		sync_both();
		t[2][i] = gbps(2.0 * LARGE, now_us() - start);
	}
	printf("%s_h2d %.3f\n%s_d2h %.3f\n", kind, median(t[0], REPEATS), kind,
	       median(t[1], REPEATS));
	if (!strcmp(kind, "pinned"))
		printf("pinned_both %.3f\n", median(t[2], REPEATS));
}

static void small(const char *kind, char *host, size_t size, int wait)
{
	double t[2][REPEATS], start;

	for (int i = 0; i < REPEATS; i++) {
		start = now_us();
		for (int j = 0; j < SMALL_COUNT; j++)
			CK(wait ? cuMemcpyHtoD(dev_a + j * size, host + j * size, size)
				: cuMemcpyHtoDAsync(dev_a + j * size, host + j * size,
						    size, up));
		sync_both();
		t[0][i] = gbps((double)size * SMALL_COUNT, now_us() - start);
		start = now_us();
		for (int j = 0; j < SMALL_COUNT; j++)
			CK(wait ? cuMemcpyDtoH(host + j * size, dev_a + j * size, size)
				: cuMemcpyDtoHAsync(host + j * size, dev_a + j * size,
						    size, up));
		sync_both();
		t[1][i] = gbps((double)size * SMALL_COUNT, now_us() - start);
	}
	printf("%s_%zuk_h2d %.4f\n%s_%zuk_d2h %.4f\n", kind, size >> 10,
	       median(t[0], REPEATS), kind, size >> 10, median(t[1], REPEATS));
}

int main(void)
{
	static const size_t sizes[] = {4096, 16384, 65536};
	char *a, *b, *c, *d;

	bench_open();
	CK(cuStreamCreate(&up, CU_STREAM_NON_BLOCKING));
	CK(cuStreamCreate(&down, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&dev_a, LARGE));
	CK(cuMemAlloc(&dev_b, LARGE));
	CK(cuMemHostAlloc((void **)&a, LARGE, 0));
	CK(cuMemHostAlloc((void **)&b, LARGE, 0));
	c = malloc(LARGE);
	d = malloc(LARGE);
	memset(a, 1, LARGE);
	memset(b, 2, LARGE);
	memset(c, 3, LARGE);
	memset(d, 4, LARGE);
	large("pinned", a, b);
	large("pageable", c, d);
	for (int i = 0; i < 3; i++) {
		small("small_pinned", a, sizes[i], 0);
		small("small_pageable", c, sizes[i], 1);
	}
	return 0;
}
