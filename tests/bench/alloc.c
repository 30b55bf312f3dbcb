/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of memory for a program, whatever carries its calls: the same binary natively and
 * through weft-run. Times are medians in microseconds of each call by itself.
 *
 *	bench_alloc [LARGEST-MIB] [TIMES]
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench.h"

#define KIB   1024ull
#define MIB   (1024ull * KIB)
#define GIB   (1024ull * MIB)
#define TIMES 200u

static unsigned times = TIMES;
static double *sample[5];

static uint64_t mark;

static void begin(void)
{
	mark = clock_now_ns();
}

/* The time since begin(), as sample i of column c. */
static void end(unsigned c, unsigned i)
{
	sample[c][i] = (double)(clock_now_ns() - mark) / 1e3;
	mark = clock_now_ns();
}

static const char *size_name(uint64_t bytes)
{
	static char text[32];

	if (bytes >= GIB)
		snprintf(text, sizeof(text), "%llu GiB",
			 (unsigned long long)(bytes / GIB));
	else if (bytes >= MIB)
		snprintf(text, sizeof(text), "%llu MiB",
			 (unsigned long long)(bytes / MIB));
	else
		snprintf(text, sizeof(text), "%llu KiB",
			 (unsigned long long)(bytes / KIB));
	return text;
}

/* Large sizes are slow enough to need few. */
static unsigned times_of(uint64_t bytes)
{
	unsigned n = bytes >= GIB ? times / 10 : bytes >= 64 * MIB ? times / 2 : times;

	return n ? n : 1;
}

static void plain(uint64_t bytes)
{
	unsigned n = times_of(bytes);
	CUdeviceptr p;

	for (unsigned i = 0; i < n; i++) {
		begin();
		CK(cuMemAlloc(&p, bytes));
		end(0, i);
		CK(cuMemFree(p));
		end(1, i);
	}
	printf("cuMemAlloc        %8s %9.1f   cuMemFree %9.1f\n", size_name(bytes),
	       median(sample[0], n), median(sample[1], n));
}

/* Several live at once: nothing can be handed out again. */
static void plain_held(uint64_t bytes, unsigned n)
{
	CUdeviceptr p[64];

	for (unsigned i = 0; i < n; i++) {
		begin();
		CK(cuMemAlloc(&p[i], bytes));
		end(0, i);
	}
	for (unsigned i = 0; i < n; i++) {
		begin();
		CK(cuMemFree(p[i]));
		end(1, i);
	}
	printf("  %2u held         %8s %9.1f   cuMemFree %9.1f\n", n, size_name(bytes),
	       median(sample[0], n), median(sample[1], n));
}

static void async(uint64_t bytes, CUstream st)
{
	unsigned n = times_of(bytes);
	CUdeviceptr p;

	for (unsigned i = 0; i < n; i++) {
		begin();
		CK(cuMemAllocAsync(&p, bytes, st));
		end(0, i);
		CK(cuMemFreeAsync(p, st));
		end(1, i);
	}
	CK(cuStreamSynchronize(st));
	printf("cuMemAllocAsync   %8s %9.1f   FreeAsync %9.1f\n", size_name(bytes),
	       median(sample[0], n), median(sample[1], n));
}

static void vmm(uint64_t bytes)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc rw = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	unsigned n = times_of(bytes);
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;

	CK(cuMemAddressReserve(&va, bytes, 0, 0, 0));
	for (unsigned i = 0; i < n; i++) {
		begin();
		CK(cuMemCreate(&h, bytes, &prop, 0));
		end(0, i);
		CK(cuMemMap(va, bytes, 0, h, 0));
		end(1, i);
		CK(cuMemSetAccess(va, bytes, &rw, 1));
		end(2, i);
		CK(cuMemUnmap(va, bytes));
		end(3, i);
		CK(cuMemRelease(h));
		end(4, i);
	}
	CK(cuMemAddressFree(va, bytes));
	printf("cuMemCreate       %8s %9.1f   map %.1f access %.1f unmap %.1f release "
	       "%.1f\n",
	       size_name(bytes), median(sample[0], n), median(sample[1], n),
	       median(sample[2], n), median(sample[3], n), median(sample[4], n));
}

static void info(void)
{
	size_t left, total;

	for (unsigned i = 0; i < times; i++) {
		begin();
		CK(cuMemGetInfo(&left, &total));
		end(0, i);
	}
	printf("cuMemGetInfo               %9.1f   (%llu of %llu MiB free)\n",
	       median(sample[0], times), left / MIB, total / MIB);
}

static void sync_idle(CUstream st)
{
	for (unsigned i = 0; i < times; i++) {
		begin();
		CK(cuStreamSynchronize(st));
		end(0, i);
	}
	printf("cuStreamSynchronize, idle  %9.1f\n", median(sample[0], times));
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = {4 * KIB,  1 * MIB, 2 * MIB, 20 * MIB,
					 64 * MIB, 1 * GIB, 16 * GIB};
	uint64_t largest = argc > 1 ? strtoull(argv[1], NULL, 10) * MIB : 16 * GIB;
	uint64_t keep = UINT64_MAX;
	CUmemoryPool pool;
	CUcontext ctx;
	CUstream st;
	unsigned n = sizeof(sizes) / sizeof(sizes[0]);

	if (argc > 2)
		times = (unsigned)strtoul(argv[2], NULL, 10);
	for (unsigned i = 0; i < 5; i++)
		sample[i] = calloc(times + 64, sizeof(double));
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	sync_idle(st);
	info();
	for (unsigned i = 0; i < n && sizes[i] <= largest; i++)
		plain(sizes[i]);
	if (2 * GIB <= largest) {
		plain_held(2 * MIB, 64);
		plain_held(64 * MIB, 16);
	}
	printf("pool gives everything back when it can:\n");
	for (unsigned i = 0; i < n && sizes[i] <= largest; i++)
		async(sizes[i], st);
	CK(cuDeviceGetDefaultMemPool(&pool, 0));
	CK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	printf("pool keeps everything:\n");
	for (unsigned i = 0; i < n && sizes[i] <= largest; i++)
		async(sizes[i], st);
	CK(cuMemPoolTrimTo(pool, 0));
	for (unsigned i = 2; i < n && sizes[i] <= largest; i++)
		vmm(sizes[i]);
	return 0;
}
