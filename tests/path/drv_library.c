/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries and their kernels, launch attributes, and an event that is destroyed while
 * another thread polls it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"

static const char *const ptx =
	".version 7.8\n.target sm_90\n.address_size 64\n"
	".visible .global .align 4 .u32 total = 3;\n"
	".visible .entry add(.param .u32 v)\n{\n"
	".reg .b32 %r<4>;\n.reg .b64 %d<2>;\n"
	"ld.param.u32 %r0, [v];\nmov.u64 %d0, total;\natom.global.add.u32 %r1, [%d0], %r0;\n"
	"ret;\n}\n"
	".visible .entry rank(.param .u64 out)\n{\n"
	".reg .b32 %r<4>;\n.reg .b64 %d<4>;\n"
	"ld.param.u64 %d0, [out];\nmov.u32 %r0, %cluster_ctarank;\nmov.u32 %r1, %ctaid.x;\n"
	"mul.wide.u32 %d1, %r1, 4;\nadd.u64 %d0, %d0, %d1;\nst.global.u32 [%d0], %r0;\n"
	"ret;\n}\n";

static unsigned read_total(CUdeviceptr p)
{
	unsigned v = 0;

	CK(cuMemcpyDtoH(&v, p, 4));
	return v;
}

static void libraries(void)
{
	CUjit_option opt[] = { CU_JIT_OPTIMIZATION_LEVEL };
	void *val[] = { (void *)(uintptr_t)3 };
	CUlibraryOption lopt[] = { CU_LIBRARY_BINARY_IS_PRESERVED };
	void *lval[] = { (void *)(uintptr_t)1 };
	CUlibrary lib;
	CUkernel k;
	CUfunction f;
	CUmodule m;
	CUdeviceptr p;
	size_t size;
	unsigned v = 5, n = 0;
	void *params[] = { &v };
	int value;

	CK(cuLibraryLoadData(&lib, ptx, opt, val, 1, lopt, lval, 1));
	CK(cuLibraryGetKernelCount(&n, lib));
	REQUIRE(n == 2);
	CK(cuLibraryGetKernel(&k, lib, "add"));
	EXPECT(cuLibraryGetKernel(&k, lib, "missing"), CUDA_ERROR_NOT_FOUND);
	CK(cuLibraryGetKernel(&k, lib, "add"));
	CK(cuLibraryGetGlobal(&p, &size, lib, "total"));
	REQUIRE(size == 4 && read_total(p) == 3);
	/* a kernel's handle launches as it is, and as the function of this context */
	CK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CK(cuKernelGetFunction(&f, k));
	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	REQUIRE(read_total(p) == 13);
	CK(cuLibraryGetModule(&m, lib));
	CK(cuModuleGetFunction(&f, m, "add"));
	CK(cuLaunchKernel(f, 2, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	REQUIRE(read_total(p) == 23);
	CK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0));
	REQUIRE(value == 1024);
	CK(cuKernelGetParamInfo(k, 0, &size, NULL));
	REQUIRE(size == 0);
	EXPECT(cuKernelGetParamInfo(k, 1, &size, NULL), CUDA_ERROR_INVALID_VALUE);
	CK(cuLibraryUnload(lib));
	EXPECT(cuLibraryUnload(lib), CUDA_ERROR_INVALID_HANDLE);
}

/* A library has its own variables in each context; a kernel's handle is good in all. */
static void two_contexts(CUdevice dev)
{
	CUdeviceptr here, there;
	CUcontext other;
	CUlibrary lib;
	CUkernel k;
	size_t size;
	unsigned v = 5;
	void *params[] = { &v };

	CK(cuLibraryLoadData(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0));
	CK(cuLibraryGetKernel(&k, lib, "add"));
	CK(cuLibraryGetGlobal(&here, &size, lib, "total"));
	CK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CK(cuCtxCreate(&other, NULL, 0, dev));
	CK(cuLaunchKernel((CUfunction)k, 2, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CK(cuLibraryGetGlobal(&there, &size, lib, "total"));
	REQUIRE(there != here && read_total(there) == 13);
	CK(cuCtxDestroy(other));
	REQUIRE(read_total(here) == 8);
	CK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	REQUIRE(read_total(here) == 13);
	CK(cuLibraryUnload(lib));
}

/* A library that is bad loads: its error comes when something of it is asked for. */
static void bad_library(const void *image, CUresult later)
{
	unsigned n = 7;
	CUlibrary lib;
	CUkernel k;
	CUmodule m;
	CUdeviceptr p;
	size_t size;

	CK(cuLibraryLoadData(&lib, image, NULL, NULL, 0, NULL, NULL, 0));
	CK(cuLibraryGetKernelCount(&n, lib));
	REQUIRE(n == 0);
	EXPECT(cuLibraryGetKernel(&k, lib, "add"), later);
	EXPECT(cuLibraryGetModule(&m, lib), later);
	EXPECT(cuLibraryGetGlobal(&p, &size, lib, "total"), later);
	CK(cuLibraryUnload(lib));
}

static void stream_attributes(void)
{
	CUstreamAttrValue v = { .priority = -100 };
	CUstream a, b;
	int now = 0;

	CK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	CK(cuStreamCreate(&b, 0));
	CK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_PRIORITY, &v));
	CK(cuStreamGetPriority(a, &now));
	REQUIRE(now < 0);
	CK(cuStreamCopyAttributes(b, a));
	memset(&v, 0, sizeof(v));
	CK(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_PRIORITY, &v));
	REQUIRE(v.priority == now);
	memset(&v, 0, sizeof(v));
	v.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
	CK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &v));
	v.syncPolicy = 9;
	EXPECT(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuStreamSynchronize(a));
	CK(cuStreamDestroy(a));
	CK(cuStreamDestroy(b));
}

static void attributes(void)
{
	CUlaunchAttribute a[3] = {
		{ .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
		  .value.clusterDim = { .x = 2, .y = 1, .z = 1 } },
		{ .id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0 },
		{ .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		  .value.programmaticStreamSerializationAllowed = 1 },
	};
	CUlaunchConfig c = { .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
			     .blockDimY = 1, .blockDimZ = 1, .attrs = a, .numAttrs = 3 };
	unsigned ranks[8];
	CUmodule m;
	CUfunction f;
	CUdeviceptr out;
	void *params[] = { &out };

	CK(cuModuleLoadData(&m, ptx));
	CK(cuModuleGetFunction(&f, m, "rank"));
	CK(cuMemAlloc(&out, sizeof(ranks)));
	CK(cuLaunchKernelEx(&c, f, params, NULL));
	CK(cuMemcpyDtoH(ranks, out, sizeof(ranks)));
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(ranks[i] == i % 2);
	c.gridDimX = 7; /* not a multiple of the cluster */
	REQUIRE(cuLaunchKernelEx(&c, f, params, NULL) != CUDA_SUCCESS);
	c.gridDimX = 8;
	c.numAttrs = 0;
	CK(cuLaunchKernelEx(&c, f, params, NULL));
	CK(cuMemcpyDtoH(ranks, out, sizeof(ranks)));
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(ranks[i] == 0);
	CK(cuMemFree(out));
	CK(cuModuleUnload(m));
}

static CUcontext ctx;
static CUevent polled;
static atomic_int polls, stop;

static void *poll_event(void *arg)
{
	CK(cuCtxSetCurrent(ctx));
	while (!stop) {
		CUresult r = cuEventQuery(polled);

		if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY &&
		    r != CUDA_ERROR_INVALID_HANDLE)
			fail("polling a dying event: %s", err(r));
		polls++;
	}
	return arg;
}

static void dying_event(void)
{
	pthread_t t;

	CK(cuEventCreate(&polled, 0));
	CK(cuEventRecord(polled, NULL));
	REQUIRE(pthread_create(&t, NULL, poll_event, NULL) == 0);
	while (polls < 100)
		;
	CK(cuEventDestroy(polled));
	for (int seen = polls; polls < seen + 100;)
		;
	stop = 1;
	pthread_join(t, NULL);
	CK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	CUdevice dev;

	check_name = "drv_library";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	libraries();
	two_contexts(dev);
	bad_library("neither text nor binary", CUDA_ERROR_INVALID_IMAGE);
	bad_library(".version 7.8\n.target sm_90\nno such directive", CUDA_ERROR_INVALID_PTX);
	attributes();
	stream_attributes();
	/* a driver of NVIDIA's crashes on a destroyed event; only we promise a code */
	if (argc < 2 || strcmp(argv[1], "--native"))
		dying_event();
	CK(cuCtxDestroy(ctx));
	return pass();
}
