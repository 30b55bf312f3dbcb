/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of copies for a program: bandwidth of large ones, time of small ones, by direction
 * and kind of host memory. Runs on the driver itself and through Weft:
 *
 *	bench_copies [--json] [--quick]
 *	weft-run -- bench_copies
 *
 * pageable: malloc; pinned: cuMemHostAlloc; registered: malloc and cuMemHostRegister.
 * sync: cuMemcpyHtoD and DtoH; async: bursts of the Async forms, then one wait. Each
 * figure is the median of several rounds; the spread is their 10th and 90th percentile.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"

#define BURST      64
#define ROUNDS_MAX 41

enum direction {
	TO_DEVICE,
	TO_HOST,
	BOTH,
};

enum kind {
	PAGEABLE,
	PINNED,
	REGISTERED,
	NUM_KINDS
};

static const char *const direction_names[] = {"h2d", "d2h", "both"};
static const char *const kind_names[] = {"pageable", "pinned", "registered"};

struct cuda {
	CUresult (*init)(unsigned);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set)(CUcontext);
	CUresult (*sync)(void);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*host_alloc)(void **, size_t, unsigned);
	CUresult (*host_free)(void *);
	CUresult (*host_register)(void *, size_t, unsigned);
	CUresult (*host_unregister)(void *);
	CUresult (*htod)(CUdeviceptr, const void *, size_t);
	CUresult (*dtoh)(void *, CUdeviceptr, size_t);
	CUresult (*htod_async)(CUdeviceptr, const void *, size_t, CUstream);
	CUresult (*dtoh_async)(void *, CUdeviceptr, size_t, CUstream);
	CUresult (*stream)(CUstream *, unsigned);
};

static struct cuda cu;
static CUdeviceptr dev[2];
static char *host[2];
static CUstream streams[2];
static bool json, quick;

static void check(CUresult r, const char *what)
{
	if (!r)
		return;
	fprintf(stderr, "%s: error %d\n", what, (int)r);
	exit(1);
}

static void load(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} names[] = {
		{"cuInit", offsetof(struct cuda, init)},
		{"cuDevicePrimaryCtxRetain", offsetof(struct cuda, retain)},
		{"cuCtxSetCurrent", offsetof(struct cuda, set)},
		{"cuCtxSynchronize", offsetof(struct cuda, sync)},
		{"cuMemAlloc_v2", offsetof(struct cuda, alloc)},
		{"cuMemHostAlloc", offsetof(struct cuda, host_alloc)},
		{"cuMemFreeHost", offsetof(struct cuda, host_free)},
		{"cuMemHostRegister_v2", offsetof(struct cuda, host_register)},
		{"cuMemHostUnregister", offsetof(struct cuda, host_unregister)},
		{"cuMemcpyHtoD_v2", offsetof(struct cuda, htod)},
		{"cuMemcpyDtoH_v2", offsetof(struct cuda, dtoh)},
		{"cuMemcpyHtoDAsync_v2", offsetof(struct cuda, htod_async)},
		{"cuMemcpyDtoHAsync_v2", offsetof(struct cuda, dtoh_async)},
		{"cuStreamCreate", offsetof(struct cuda, stream)},
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(77);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		void *f = dlsym(lib, names[i].name);

		if (!f) {
			fprintf(stderr, "no %s\n", names[i].name);
			exit(1);
		}
		memcpy((char *)&cu + names[i].offset, &f, sizeof(f));
	}
}

/* Host memory that has been touched, so that no round pays for its pages. */
static double get_host(enum kind kind, size_t size)
{
	uint64_t start = clock_now_ns();
	double us;

	for (unsigned i = 0; i < 2; i++) {
		void *p = NULL;

		if (kind == PINNED)
			check(cu.host_alloc(&p, size, 0), "cuMemHostAlloc");
		else
			p = aligned_alloc(4096, ALIGN_UP(size, (size_t)4096));
		if (!p)
			check(CUDA_ERROR_OUT_OF_MEMORY, "malloc");
		host[i] = p;
		if (kind == REGISTERED)
			check(cu.host_register(p, size, 0), "cuMemHostRegister");
	}
	us = (double)(clock_now_ns() - start) / 2e3;
	memset(host[0], 1, size);
	memset(host[1], 2, size);
	return us;
}

static void put_host(enum kind kind)
{
	for (unsigned i = 0; i < 2; i++) {
		if (kind == PINNED)
			check(cu.host_free(host[i]), "cuMemFreeHost");
		if (kind == REGISTERED)
			check(cu.host_unregister(host[i]), "cuMemHostUnregister");
		if (kind != PINNED)
			free(host[i]);
	}
}

static void copy_one(enum direction d, bool async, size_t size)
{
	CUresult r = CUDA_SUCCESS;

	if (d == TO_DEVICE)
		r = async ? cu.htod_async(dev[0], host[0], size, streams[0])
			  : cu.htod(dev[0], host[0], size);
	else if (d == TO_HOST)
		r = async ? cu.dtoh_async(host[1], dev[1], size, streams[1])
			  : cu.dtoh(host[1], dev[1], size);
	check(r, "copy");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void print(const char *what, enum direction d, enum kind k, size_t size,
		  unsigned n, double *us)
{
	double mid, lo, hi, bytes = (double)size * (d == BOTH ? 2 : 1);
	static bool more;

	qsort(us, n, sizeof(*us), by_value);
	mid = us[n / 2];
	lo = us[n / 10];
	hi = us[n - 1 - n / 10];
	if (json)
		printf("%s{\"what\": \"%s\", \"direction\": \"%s\", \"memory\": \"%s\", "
		       "\"bytes\": %zu, \"us\": %.3f, \"us_p10\": %.3f, "
		       "\"us_p90\": %.3f, \"gb_per_s\": %.3f}",
		       more ? ",\n" : "[", what, direction_names[d], kind_names[k], size,
		       mid, lo, hi, bytes / mid / 1e3);
	else
		printf("%-6s %-5s %-11s %8zu KiB %11.2f us (%.2f-%.2f) %8.2f GB/s\n",
		       what, direction_names[d], kind_names[k], size >> 10, mid, lo, hi,
		       bytes / mid / 1e3);
	more = true;
	fflush(stdout);
}

/* One after the other, each waited for by the call itself. */
static void sync_copies(enum direction d, enum kind k, size_t size, unsigned rounds)
{
	unsigned per = size <= 1u << 20 ? BURST : 1;
	double us[ROUNDS_MAX];

	copy_one(d, false, size);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start = clock_now_ns();

		for (unsigned j = 0; j < per; j++)
			copy_one(d, false, size);
		us[i] = (double)(clock_now_ns() - start) / 1e3 / per;
	}
	check(cu.sync(), "cuCtxSynchronize");
	print("sync", d, k, size, rounds, us);
}

static void async_copies(enum direction d, enum kind k, size_t size, unsigned rounds)
{
	unsigned per = size <= 1u << 20 ? BURST : 1;
	double us[ROUNDS_MAX];

	for (unsigned i = 0; i <= rounds; i++) {
		uint64_t start = clock_now_ns();

		for (unsigned j = 0; j < per; j++) {
			if (d != TO_HOST)
				copy_one(TO_DEVICE, true, size);
			if (d != TO_DEVICE)
				copy_one(TO_HOST, true, size);
		}
		check(cu.sync(), "cuCtxSynchronize");
		if (i) /* the first one warms up */
			us[i - 1] = (double)(clock_now_ns() - start) / 1e3 / per;
	}
	print("async", d, k, size, rounds, us);
}

static void small(enum kind k)
{
	static const size_t sizes[] = {4u << 10, 16u << 10, 64u << 10, 1u << 20};

	get_host(k, sizes[ARRAY_SIZE(sizes) - 1]);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned rounds = sizes[i] < 1u << 20 ? 31 : 11;

		for (int d = TO_DEVICE; d <= TO_HOST; d++) {
			sync_copies((enum direction)d, k, sizes[i], rounds);
			async_copies((enum direction)d, k, sizes[i], rounds);
		}
	}
	put_host(k);
}

static void large(enum kind k, size_t size)
{
	double us = get_host(k, size);

	if (k != PAGEABLE)
		print("get", TO_DEVICE, k, size, 1, &us);
	for (int d = TO_DEVICE; d <= TO_HOST; d++)
		sync_copies((enum direction)d, k, size, 5);
	if (k != PAGEABLE)
		async_copies(BOTH, k, size, 5);
	put_host(k);
}

int main(int argc, char **argv)
{
	CUcontext ctx;
	size_t size;

	for (int i = 1; i < argc; i++) {
		json |= !strcmp(argv[i], "--json");
		quick |= !strcmp(argv[i], "--quick");
	}
	size = quick ? 16u << 20 : 1u << 30;
	load();
	check(cu.init(0), "cuInit");
	check(cu.retain(&ctx, 0), "cuDevicePrimaryCtxRetain");
	check(cu.set(ctx), "cuCtxSetCurrent");
	for (unsigned i = 0; i < 2; i++) {
		check(cu.alloc(&dev[i], size), "cuMemAlloc");
		check(cu.stream(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	}
	for (int k = 0; k < NUM_KINDS; k++)
		small((enum kind)k);
	for (int k = 0; k < NUM_KINDS; k++)
		large((enum kind)k, size);
	if (json)
		printf("]\n");
	return 0;
}
