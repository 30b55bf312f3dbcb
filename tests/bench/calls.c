/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of the driver library's calls for a program, whatever carries them:
 *
 *	weft-run -- bench_calls
 *	vm-images/run --weftd SOCKET --window FILE:SIZE --program bench_calls \
 *		-- bench_calls
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define BYTES (1u << 20)

static void *lib;
static CUdeviceptr mem;
static char *host;

static CUresult (*sync_ctx)(void);
static CUresult (*mem_info)(size_t *, size_t *);
static CUresult (*alloc_mem)(CUdeviceptr *, size_t);
static CUresult (*free_mem)(CUdeviceptr);
static CUresult (*to_device)(CUdeviceptr, const void *, size_t);
static CUresult (*to_host)(void *, CUdeviceptr, size_t);
static CUresult (*set8)(CUdeviceptr, unsigned char, size_t, CUstream);

static void check(CUresult r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: error %d\n", what, (int)r);
		exit(1);
	}
}

static void *find(const char *name)
{
	void *p = dlsym(lib, name);

	if (!p) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return p;
}

static CUresult info(void)
{
	size_t left, total;

	return mem_info(&left, &total);
}

static CUresult alloc_and_free(void)
{
	CUdeviceptr p;
	CUresult r = alloc_mem(&p, BYTES);

	return r ? r : free_mem(p);
}

static CUresult post(void)
{
	return set8(mem, 1, 4, NULL);
}

static CUresult post_and_wait(void)
{
	CUresult r = post();

	return r ? r : sync_ctx();
}

static CUresult copy_small(void)
{
	return to_host(host, mem, 8);
}

static CUresult copy_to_device(void)
{
	return to_device(mem, host, BYTES);
}

static CUresult copy_to_host(void)
{
	return to_host(host, mem, BYTES);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(const char *what, CUresult (*call)(void), unsigned n)
{
	uint64_t *ns = calloc(n, sizeof(*ns));

	if (!ns)
		exit(1);
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = clock_now_ns();

		check(call(), what);
		ns[i] = clock_now_ns() - t;
	}
	check(sync_ctx(), "cuCtxSynchronize");
	qsort(ns, n, sizeof(*ns), compare);
	printf("%-34s %10.2f %10.2f %10.2f\n", what, ns[n / 10] / 1e3, ns[n / 2] / 1e3,
	       ns[n * 9 / 10] / 1e3);
	free(ns);
}

static void begin(void)
{
	CUresult (*init)(unsigned);
	CUresult (*get)(CUdevice *, int);
	CUresult (*create)(CUcontext *, unsigned, CUdevice);
	CUcontext ctx;
	CUdevice dev;

	init = find("cuInit");
	get = find("cuDeviceGet");
	create = find("cuCtxCreate_v2");
	sync_ctx = find("cuCtxSynchronize");
	mem_info = find("cuMemGetInfo_v2");
	alloc_mem = find("cuMemAlloc_v2");
	free_mem = find("cuMemFree_v2");
	to_device = find("cuMemcpyHtoD_v2");
	to_host = find("cuMemcpyDtoH_v2");
	set8 = find("cuMemsetD8Async");
	check(init(0), "cuInit");
	check(get(&dev, 0), "cuDeviceGet");
	check(create(&ctx, 0, dev), "cuCtxCreate");
	check(alloc_mem(&mem, BYTES), "cuMemAlloc");
}

int main(void)
{
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	host = calloc(1, BYTES);
	if (!lib || !host) {
		fprintf(stderr, "%s\n", lib ? "no memory" : dlerror());
		return 1;
	}
	begin();
	printf("%-34s %10s %10s %10s\n", "us", "10 %", "median", "90 %");
	measure("cuCtxSynchronize", sync_ctx, 2000);
	measure("cuMemGetInfo", info, 2000);
	measure("cuMemAlloc and cuMemFree, 1 MiB", alloc_and_free, 500);
	measure("cuMemsetD8Async, 4 B", post, 2000);
	measure("the same and cuCtxSynchronize", post_and_wait, 500);
	measure("cuMemcpyDtoH, 8 B", copy_small, 500);
	measure("cuMemcpyHtoD, 1 MiB", copy_to_device, 100);
	measure("cuMemcpyDtoH, 1 MiB", copy_to_host, 100);
	free(host);
	return 0;
}
