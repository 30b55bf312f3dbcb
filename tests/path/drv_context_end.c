/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a context go when it ends, by cuDevicePrimaryCtxReset(), the last release or
 * cuCtxDestroy(): pinned and registered memory, streams, events, modules, arrays, texture
 * objects and what they take of the process. Objects of another context stay.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "driver.h"

#define LARGE  ((size_t)256 << 20)
#define ROUNDS 60 /* together more than pinned memory may be */
#define PAGE   4096u

static CUcontext primary;

static void begin(void)
{
	CK(cuDevicePrimaryCtxRetain(&primary, 0));
	CK(cuCtxSetCurrent(primary));
}

static void end(void)
{
	CK(cuDevicePrimaryCtxReset(0));
	CK(cuDevicePrimaryCtxRelease(0));
}

static void pinned(void)
{
	void *p, *small[100];

	for (unsigned i = 0; i < ROUNDS; i++) {
		begin();
		CK(cuMemHostAlloc(&p, LARGE, 0));
		for (unsigned k = 0; k < 100; k++)
			CK(cuMemHostAlloc(&small[k], 1 + 5000 * (k % 3), 0));
		((volatile char *)p)[LARGE - 1] = 1;
		end();
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		CUcontext c;

		CK(cuCtxCreate(&c, NULL, 0, 0));
		CK(cuMemHostAlloc(&p, LARGE, 0));
		CK(cuCtxDestroy(c));
	}
	begin();
	EXPECT(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
	end();
}

static void registered(void)
{
	unsigned char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr mem;

	REQUIRE(p != MAP_FAILED);
	memset(p, 7, 16 * PAGE);
	for (unsigned i = 0; i < 3; i++) {
		begin();
		CK(cuMemHostRegister(p, 16 * PAGE, 0));
		CK(cuMemAlloc(&mem, 16 * PAGE));
		CK(cuMemsetD8(mem, (unsigned char)(i + 1), 16 * PAGE));
		/* still under way when the context ends */
		CK(cuMemcpyDtoHAsync(p, mem, 15 * PAGE, NULL));
		end();
		REQUIRE(p[0] == i + 1 && p[15 * PAGE - 1] == i + 1 && p[15 * PAGE] == 7);
	}
	begin();
	EXPECT(cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	end();
	REQUIRE(!munmap(p, 16 * PAGE));
}

static void others_stay(void)
{
	CUcontext c;
	CUdeviceptr mem;
	unsigned *p, back;

	begin();
	CK(cuCtxCreate(&c, NULL, 0, 0));
	CK(cuMemHostAlloc((void **)&p, LARGE, 0));
	p[0] = 5;
	CK(cuCtxSetCurrent(primary));
	end();
	CK(cuCtxSetCurrent(c));
	CK(cuMemAlloc(&mem, 4));
	p[1] = p[0] + 1;
	CK(cuMemcpyHtoDAsync(mem, &p[1], 4, NULL));
	CK(cuMemcpyDtoH(&back, mem, 4));
	REQUIRE(back == 6);
	CK(cuMemFreeHost(p));
	CK(cuCtxDestroy(c));
}

/* ---- objects ---- */

static long resident_kib(void)
{
	char line[200];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %ld", &kib);
	REQUIRE(f && kib > 0);
	fclose(f);
	return kib;
}

static CUstream some_of_each(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry k() { ret; }\n";
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 8,
				     .Height = 8,
				     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				     .NumChannels = 1};
	CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampler = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUmipmappedArray levels;
	CUstream s = NULL;
	CUtexObject tex;
	CUfunction f;
	CUmodule m;
	CUevent e;

	for (unsigned i = 0; i < 8; i++) {
		CK(cuStreamCreate(&s, i % 2));
		CK(cuEventCreate(&e, 0));
		CK(cuEventRecord(e, s));
	}
	CK(cuModuleLoadData(&m, ptx));
	CK(cuModuleGetFunction(&f, m, "k"));
	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	CK(cuMipmappedArrayCreate(&levels, &d, 3));
	CK(cuMipmappedArrayGetLevel(&res.res.array.hArray, levels, 1));
	CK(cuTexObjectCreate(&tex, &res, &sampler, NULL));
	return s;
}

static void objects(void)
{
	long before = 0, after;
	CUstream s = NULL;

	if (dlsym(RTLD_DEFAULT, "__asan_init")) {
		printf("SKIP what resets leave behind: a sanitizer keeps what was "
		       "freed\n");
		return;
	}
	for (unsigned i = 0; i < 900; i++) {
		if (i == 300)
			before = resident_kib();
		begin();
		s = some_of_each();
		end();
	}
	after = resident_kib();
	if (after - before > 1024)
		fail("600 resets leave %ld KiB behind", after - before);
	begin();
	EXPECT(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
	end();
}

/* More than there may be at a time. */
static void many_streams(void)
{
	CUcontext c;
	CUstream s;

	for (unsigned i = 0; i < 220; i++) {
		CK(cuCtxCreate(&c, NULL, 0, 0));
		for (unsigned k = 0; k < 5000; k++)
			CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		CK(cuCtxDestroy(c));
	}
}

int main(void)
{
	check_name = "drv_context_end";
	CK(cuInit(0));
	pinned();
	registered();
	others_stay();
	objects();
	many_streams();
	return pass();
}
