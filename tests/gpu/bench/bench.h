/* SPDX-License-Identifier: Apache-2.0 */
/* Common part of the benchmark programs. Each prints lines "METRIC VALUE". */
#ifndef WEFT_GPU_BENCH_H
#define WEFT_GPU_BENCH_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CK(call)                                                                         \
	do {                                                                             \
		CUresult ck_r = (call);                                                  \
		if (ck_r) {                                                              \
			printf("FAIL %s gave %d\n", #call, (int)ck_r);                   \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

#define EMPTY_KERNEL                                                                     \
	".version 7.0\n.target sm_52\n.address_size 64\n"                                \
	".visible .entry k(.param .u64 p, .param .u32 n)\n{\n\tret;\n}\n"

static inline double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double median(double *v, int n)
{
	qsort(v, n, sizeof(*v), compare_doubles);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static inline void bench_open(void)
{
	CUdevice dev;
	CUcontext ctx;

	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
}

static inline CUfunction bench_kernel(void)
{
	CUmodule mod;
	CUfunction fn;

	CK(cuModuleLoadData(&mod, EMPTY_KERNEL));
	CK(cuModuleGetFunction(&fn, mod, "k"));
	return fn;
}

#endif
