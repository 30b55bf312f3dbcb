/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong calls get CUDA's codes: handles that were never made or are gone, pointers that
 * are not device memory. One group of calls a function, in the order of main().
 */
#include "driver.h"

static const char *const ptx =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry k() .maxntid 256, 1, 1\n{\n"
	".shared .align 4 .b8 s[512];\n.reg .b32 %r<2>;\n"
	"mov.u32 %r0, %tid.x;\nst.volatile.shared.u32 [s+8], %r0;\nret;\n}\n";

static CUdevice dev;
static CUcontext ctx, primary;
static CUdeviceptr p; /* 1 MiB */
static CUmodule mod;

static void refuses_all_before_init(void)
{
	CUcontext cur;
	int v;

	EXPECT(cuDeviceGetCount(&v), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuCtxGetCurrent(&cur), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuInit(7), CUDA_ERROR_INVALID_VALUE);
}

static void refuses_devices_that_are_not_there(void)
{
	int v;

	CK(cuDeviceGetCount(&v));
	REQUIRE(v >= 1);
	EXPECT(cuDeviceGet(&dev, v), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGet(&dev, -1), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CK(cuDeviceGet(&dev, 0));
}

static void refuses_unknown_attributes_and_short_buffers(void)
{
	char bus[13];
	int v;

	EXPECT(cuDeviceGetAttribute(&v, (CUdevice_attribute)10000, dev),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetAttribute(&v, (CUdevice_attribute)0, dev),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99),
	       CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGetPCIBusId(bus, sizeof(bus) - 1, dev), CUDA_ERROR_INVALID_VALUE);
	CK(cuDeviceGetPCIBusId(bus, sizeof(bus), dev));
	CK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, dev));
	REQUIRE(v == 32);
	EXPECT(cuDeviceCanAccessPeer(&v, dev, 99), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, dev,
				       dev),
	       CUDA_ERROR_INVALID_DEVICE);
}

/* No context is current, and the primary one is inactive until it is retained. */
static void refuses_work_without_a_context(void)
{
	CUcontext cur;
	unsigned flags;
	CUstream st;
	int active;

	CK(cuCtxGetCurrent(&cur));
	REQUIRE(cur == NULL);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuStreamCreate(&st, 0), CUDA_ERROR_INVALID_CONTEXT);
	CK(cuDevicePrimaryCtxGetState(dev, &flags, &active));
	REQUIRE(!active);
	CK(cuDevicePrimaryCtxRetain(&primary, dev));
	CK(cuDevicePrimaryCtxGetState(dev, &flags, &active));
	REQUIRE(active);
	CK(cuCtxGetCurrent(&cur));
	REQUIRE(cur == NULL);
}

static void keeps_contexts_as_a_stack(void)
{
	CUcontext cur;

	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuCtxGetCurrent(&cur));
	REQUIRE(cur == ctx);
	CK(cuCtxPushCurrent(primary));
	CK(cuCtxPopCurrent(&cur));
	REQUIRE(cur == primary);
	CK(cuCtxGetCurrent(&cur));
	REQUIRE(cur == ctx);
}

static void refuses_a_context_as_its_own_peer(void)
{
	EXPECT(cuCtxEnablePeerAccess(ctx, 0), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxDisablePeerAccess(ctx), CUDA_ERROR_INVALID_CONTEXT);
}

static void refuses_allocations_of_impossible_sizes(void)
{
	EXPECT(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAlloc(&p, 1ull << 45), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAlloc(&p, ~0ull), CUDA_ERROR_OUT_OF_MEMORY);
}

static void refuses_addresses_that_no_allocation_has(void)
{
	CUdeviceptr base;
	size_t size;
	int v = 0;

	EXPECT(cuMemFree(0x1234), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(0));
	CK(cuMemAlloc(&p, 1 << 20));
	EXPECT(cuMemFree(p + 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD(0x10, &v, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH(&v, p + (1ull << 36), 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD32(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemcpyHtoD(p, &v, 0));
	CK(cuMemGetAddressRange(&base, &size, p + 1000));
	REQUIRE(base == p && size == 1 << 20);
	CK(cuMemGetAddressRange(NULL, &size, p));
}

/* The call itself says so, posted or not. */
static void refuses_memory_that_is_gone(void)
{
	CUdeviceptr gone;
	CUstream st;
	int v = 0;

	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&gone, 1 << 20));
	CK(cuMemcpyHtoD(gone, &v, 4));
	CK(cuMemFree(gone));
	EXPECT(cuMemcpyHtoD(gone, &v, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH(&v, gone, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoD(p, gone, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoDAsync(gone, &v, 4, st), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoHAsync(&v, gone, 4, st), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoDAsync(gone, p, 4, st), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8Async(gone, 0, 16, st), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8(gone, 0, 16), CUDA_ERROR_INVALID_VALUE);
	CK(cuStreamDestroy(st));
}

/* The call itself says so, posted or not. */
static void refuses_copies_beyond_an_allocation(void)
{
	uint64_t word[2] = {0};
	CUdeviceptr big;
	CUstream st;
	int v = 0;

	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&big, 8 << 20));
	EXPECT(cuMemsetD2D8(p, 1 << 19, 1, 16, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8(p + (1 << 20) - 8, 1, 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoDAsync(p + (1 << 20) - 8, word, 16, st),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoD(p, big, 2 << 20), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8Async(p, 1, 2 << 20, st), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemcpyDtoD(big, p, 1 << 20));
	CK(cuMemcpyHtoDAsync(p + (1 << 20) - 8, word, 8, st));
	CK(cuMemFree(big));
	EXPECT(cuMemcpyHtoDAsync(big + (4 << 20), &v, 4, st), CUDA_ERROR_INVALID_VALUE);
	CK(cuStreamSynchronize(st));
	CK(cuStreamDestroy(st));
}

static void refuses_attributes_of_other_pointers(void)
{
	CUmemorytype type;
	CUcontext pc;
	unsigned sync = 1;
	int v;

	CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
	REQUIRE(type == CU_MEMORYTYPE_DEVICE);
	CK(cuPointerGetAttribute(&pc, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	REQUIRE(pc == ctx);
	EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				     (CUdeviceptr)(uintptr_t)&v),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	EXPECT(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p),
	       CUDA_ERROR_INVALID_VALUE);
}

static void refuses_host_memory_that_is_not_its_own(void)
{
	CUmemorytype type;
	void *host;
	int v;

	CK(cuMemAllocHost(&host, 4096));
	CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 (CUdeviceptr)(uintptr_t)host + 8));
	REQUIRE(type == CU_MEMORYTYPE_HOST);
	CK(cuMemFreeHost(host));
	EXPECT(cuMemFreeHost(&v), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostRegister((void *)0x10000, 4096, 0), CUDA_ERROR_INVALID_VALUE);
}

static void shows_attributes_as_they_were_set(void)
{
	CUfunction f;
	int v;

	CK(cuModuleLoadData(&mod, ptx));
	CK(cuModuleGetFunction(&f, mod, "k"));
	CK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
	REQUIRE(v == 256);
	CK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
	REQUIRE(v == 512);
	CK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
	CK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			      100000));
	CK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
	REQUIRE(v == 100000);
}

static void refuses_what_a_function_is_not_made_for(void)
{
	CUfunction f;
	int v;

	CK(cuModuleGetFunction(&f, mod, "k"));
	EXPECT(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				  1 << 30),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 1),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetAttribute(&v, (CUfunction_attribute)1000, f),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, f),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchKernel(f, 1, 1, 1, 512, 1, 1, 0, NULL, NULL, NULL),
	       CUDA_ERROR_INVALID_VALUE);
}

static void refuses_streams_that_are_gone(void)
{
	CUstream st;

	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuStreamDestroy(st));
	EXPECT(cuStreamSynchronize(st), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamDestroy(st), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamCreate(&st, 0xff), CUDA_ERROR_INVALID_VALUE);
}

static void refuses_events_that_are_gone(void)
{
	CUevent ev;

	CK(cuEventCreate(&ev, 0));
	EXPECT(cuEventQuery(ev), CUDA_SUCCESS);
	CK(cuEventDestroy(ev));
	EXPECT(cuEventQuery(ev), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(ev, NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void refuses_modules_that_are_gone(void)
{
	CUfunction f;

	CK(cuModuleUnload(mod));
	EXPECT(cuModuleUnload(mod), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuModuleGetFunction(&f, mod, "k"), CUDA_ERROR_INVALID_HANDLE);
}

/* The status says so, and the call itself succeeds, as on driver 580. */
static void finds_no_entry_point_that_is_not_there(void)
{
	CUdriverProcAddressQueryResult q;
	void *fn = &fn;

	CK(cuGetProcAddress("cuNoSuchFunction", &fn, 12000, 0, &q));
	REQUIRE(fn == NULL && q == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CK(cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &q));
	REQUIRE(fn != NULL && q == CU_GET_PROC_ADDRESS_SUCCESS);
}

static void refuses_contexts_that_are_gone(void)
{
	unsigned flags;
	int active;

	CK(cuCtxDestroy(ctx));
	EXPECT(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
	CK(cuDevicePrimaryCtxRelease(dev));
	CK(cuDevicePrimaryCtxGetState(dev, &flags, &active));
	REQUIRE(!active);
	EXPECT(cuDevicePrimaryCtxRelease(dev), CUDA_ERROR_INVALID_CONTEXT);
}

static void names_no_unknown_error(void)
{
	const char *s = "x";

	EXPECT(cuGetErrorString((CUresult)123456, &s), CUDA_ERROR_INVALID_VALUE);
	REQUIRE(s == NULL);
}

int main(void)
{
	check_name = "drv_errors";
	refuses_all_before_init();
	CK(cuInit(0));
	refuses_devices_that_are_not_there();
	refuses_unknown_attributes_and_short_buffers();
	refuses_work_without_a_context();
	keeps_contexts_as_a_stack();
	refuses_a_context_as_its_own_peer();
	refuses_allocations_of_impossible_sizes();
	refuses_addresses_that_no_allocation_has();
	refuses_memory_that_is_gone();
	refuses_copies_beyond_an_allocation();
	refuses_attributes_of_other_pointers();
	refuses_host_memory_that_is_not_its_own();
	shows_attributes_as_they_were_set();
	refuses_what_a_function_is_not_made_for();
	refuses_streams_that_are_gone();
	refuses_events_that_are_gone();
	refuses_modules_that_are_gone();
	finds_no_entry_point_that_is_not_there();
	refuses_contexts_that_are_gone();
	names_no_unknown_error();
	return pass();
}
