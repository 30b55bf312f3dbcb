/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong calls get CUDA's codes: regressions 2, 3, 13, 14, 15, 18, 19 and 27, handles that
 * were never made or are gone, pointers that are not device memory.
 */
#include "driver.h"

static const char *const ptx =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry k() .maxntid 256, 1, 1\n{\n"
	".shared .align 4 .b8 s[512];\n.reg .b32 %r<2>;\n"
	"mov.u32 %r0, %tid.x;\nst.volatile.shared.u32 [s+8], %r0;\nret;\n}\n";

int main(void)
{
	CUdevice dev = 0;
	CUcontext ctx, cur, primary;
	CUdeviceptr p;
	CUevent ev;
	CUstream st;
	unsigned flags;
	int v, active;

	check_name = "drv_errors";
	/* before cuInit */
	EXPECT(cuDeviceGetCount(&v), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuCtxGetCurrent(&cur), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuInit(7), CUDA_ERROR_INVALID_VALUE);
	CK(cuInit(0));

	/* devices and attributes */
	CK(cuDeviceGetCount(&v));
	REQUIRE(v >= 1);
	EXPECT(cuDeviceGet(&dev, v), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGet(&dev, -1), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CK(cuDeviceGet(&dev, 0));
	EXPECT(cuDeviceGetAttribute(&v, (CUdevice_attribute)10000, dev),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetAttribute(&v, (CUdevice_attribute)0, dev),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99),
	       CUDA_ERROR_INVALID_DEVICE);
	char bus[13];
	EXPECT(cuDeviceGetPCIBusId(bus, sizeof(bus) - 1, dev), CUDA_ERROR_INVALID_VALUE);
	CK(cuDeviceGetPCIBusId(bus, sizeof(bus), dev));
	CK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, dev));
	REQUIRE(v == 32);
	EXPECT(cuDeviceCanAccessPeer(&v, dev, 99), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, dev,
				       dev),
	       CUDA_ERROR_INVALID_DEVICE);

	/* contexts: none current, the primary one inactive until retained */
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
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuCtxGetCurrent(&cur));
	REQUIRE(cur == ctx);
	CK(cuCtxPushCurrent(primary));
	CK(cuCtxPopCurrent(&cur));
	REQUIRE(cur == primary);
	CK(cuCtxGetCurrent(&cur));
	REQUIRE(cur == ctx);

	EXPECT(cuCtxEnablePeerAccess(ctx, 0), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxDisablePeerAccess(ctx), CUDA_ERROR_INVALID_CONTEXT);

	/* memory */
	EXPECT(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAlloc(&p, 1ull << 45), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAlloc(&p, ~0ull), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemFree(0x1234), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(0));
	CK(cuMemAlloc(&p, 1 << 20));
	EXPECT(cuMemFree(p + 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD(0x10, &v, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoH(&v, p + (1ull << 36), 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD32(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemcpyHtoD(p, &v, 0));
	CUdeviceptr base;
	size_t size;
	CK(cuMemGetAddressRange(&base, &size, p + 1000));
	REQUIRE(base == p && size == 1 << 20);
	CK(cuMemGetAddressRange(NULL, &size, p));

	/* memory that is gone, or ends before the copy does: said by the call itself */
	CUdeviceptr gone, big;
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&big, 8 << 20));
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
	EXPECT(cuMemsetD2D8(p, 1 << 19, 1, 16, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8(p + (1 << 20) - 8, 1, 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoDAsync(p + (1 << 20) - 8, &base, 16, st),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyDtoD(p, big, 2 << 20), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD8Async(p, 1, 2 << 20, st), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemcpyDtoD(big, p, 1 << 20));
	CK(cuMemcpyHtoDAsync(p + (1 << 20) - 8, &base, 8, st));
	CK(cuMemFree(big));
	EXPECT(cuMemcpyHtoDAsync(big + (4 << 20), &v, 4, st), CUDA_ERROR_INVALID_VALUE);
	CK(cuStreamSynchronize(st));
	CK(cuStreamDestroy(st));

	/* pointer attributes */
	CUmemorytype type;
	CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
	REQUIRE(type == CU_MEMORYTYPE_DEVICE);
	CUcontext pc;
	CK(cuPointerGetAttribute(&pc, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	REQUIRE(pc == ctx);
	EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				     (CUdeviceptr)(uintptr_t)&v),
	       CUDA_ERROR_INVALID_VALUE);
	unsigned sync = 1;
	CK(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	EXPECT(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p),
	       CUDA_ERROR_INVALID_VALUE);
	void *host;
	CK(cuMemAllocHost(&host, 4096));
	CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 (CUdeviceptr)(uintptr_t)host + 8));
	REQUIRE(type == CU_MEMORYTYPE_HOST);
	CK(cuMemFreeHost(host));
	EXPECT(cuMemFreeHost(&v), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostRegister((void *)0x10000, 4096, 0), CUDA_ERROR_INVALID_VALUE);

	/* functions: attributes cached and not stale */
	CUmodule mod;
	CUfunction f;
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

	/* handles that are gone */
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuStreamDestroy(st));
	EXPECT(cuStreamSynchronize(st), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamDestroy(st), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamCreate(&st, 0xff), CUDA_ERROR_INVALID_VALUE);
	CK(cuEventCreate(&ev, 0));
	EXPECT(cuEventQuery(ev), CUDA_SUCCESS);
	CK(cuEventDestroy(ev));
	EXPECT(cuEventQuery(ev), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(ev, NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	CK(cuModuleUnload(mod));
	EXPECT(cuModuleUnload(mod), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuModuleGetFunction(&f, mod, "k"), CUDA_ERROR_INVALID_HANDLE);

	/* entry points that are not there are not pretended to be; the status says so,
	 * and the call itself succeeds, as on driver 580 */
	void *fn = &fn;
	CUdriverProcAddressQueryResult q;
	CK(cuGetProcAddress("cuNoSuchFunction", &fn, 12000, 0, &q));
	REQUIRE(fn == NULL && q == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CK(cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &q));
	REQUIRE(fn != NULL && q == CU_GET_PROC_ADDRESS_SUCCESS);
	CK(cuCtxDestroy(ctx));
	EXPECT(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
	CK(cuDevicePrimaryCtxRelease(dev));
	CK(cuDevicePrimaryCtxGetState(dev, &flags, &active));
	REQUIRE(!active);
	EXPECT(cuDevicePrimaryCtxRelease(dev), CUDA_ERROR_INVALID_CONTEXT);
	const char *s = "x";
	EXPECT(cuGetErrorString((CUresult)123456, &s), CUDA_ERROR_INVALID_VALUE);
	REQUIRE(s == NULL);
	return pass();
}
