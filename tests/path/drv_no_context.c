/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread without a current context: what a stream, an event, a module, a function or an
 * allocation says of its own context works, as with NVIDIA's driver; the rest does not.
 */
#include "driver.h"

static const char *const ptx = ".version 7.0\n.target sm_52\n.address_size 64\n"
			       ".visible .global .align 4 .u32 g;\n"
			       ".visible .entry k(.param .u64 p)\n{\n"
			       ".reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n"
			       "ld.param.u64 %rd1, [p];\nmov.u32 %r1, 7;\n"
			       "st.global.u32 [%rd1], %r1;\nret;\n}\n";

static CUcontext ctx;
static CUstream st;
static CUevent ev;
static CUmodule mod;
static CUfunction f;
static CUdeviceptr p, q;
static unsigned *host;

static void streams(void)
{
	unsigned word = 5, flags;
	int priority;
	CUcontext of;

	CK(cuMemcpyHtoDAsync(p, &word, 4, st));
	CK(cuMemcpyAsync(q, p, 4, st));
	CK(cuMemcpyDtoHAsync(host, q, 4, st));
	CK(cuMemsetD8Async(p, 1, 16, st));
	CK(cuEventRecord(ev, st));
	CK(cuEventSynchronize(ev));
	REQUIRE(host[0] == 5);
	CK(cuEventQuery(ev));
	CK(cuStreamWaitEvent(st, ev, 0));
	CK(cuStreamSynchronize(st));
	CK(cuStreamQuery(st));
	CK(cuStreamGetFlags(st, &flags));
	CK(cuStreamGetPriority(st, &priority));
	CK(cuStreamGetCtx(st, &of));
	REQUIRE(of == ctx);

	/* the default streams are those of a context */
	EXPECT(cuMemcpyHtoDAsync(p, &word, 4, NULL), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuEventRecord(ev, NULL), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemcpyHtoD(p, &word, 4), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemcpy(p, q, 4), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemsetD8(p, 1, 16), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuStreamCreate(&st, 0), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuEventCreate(&ev, 0), CUDA_ERROR_INVALID_CONTEXT);
}

static void kernels(void)
{
	void *args[] = {&p};
	CUdeviceptr g;
	CUfunction again;
	CUmodule other;
	size_t size;
	int v;

	CK(cuModuleGetFunction(&again, mod, "k"));
	CK(cuModuleGetGlobal(&g, &size, mod, "g"));
	REQUIRE(g && size == 4);
	CK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, st, args, NULL));
	CK(cuMemcpyDtoHAsync(host, p, 4, st));
	CK(cuStreamSynchronize(st));
	REQUIRE(host[0] == 7);
	EXPECT(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
	       CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuModuleLoadData(&other, ptx), CUDA_ERROR_INVALID_CONTEXT);
}

/* A pointer is the device's in a context, hence in none without. */
static void pointers(void)
{
	CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				      CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	CUdeviceptr dev = 1;
	unsigned type = 0;
	void *data[] = {&dev, &type};
	CUcontext of;

	CK(cuPointerGetAttributes(2, what, data, p));
	REQUIRE(!dev && type == CU_MEMORYTYPE_DEVICE);
	CK(cuPointerGetAttributes(2, what, data, (CUdeviceptr)(uintptr_t)host));
	REQUIRE(!dev && type == CU_MEMORYTYPE_HOST);
	EXPECT(cuPointerGetAttribute(&dev, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p),
	       CUDA_ERROR_INVALID_CONTEXT);
	CK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	REQUIRE(of == ctx);
}

int main(void)
{
	CUdevice dev;
	CUcontext out;

	check_name = "drv_no_context";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuMemAlloc(&p, 4096));
	CK(cuMemAlloc(&q, 4096));
	CK(cuMemAllocHost((void **)&host, 4096));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&ev, 0));
	CK(cuModuleLoadData(&mod, ptx));
	/* NVIDIA's driver, which loads functions late, needs a context for the first time
	 */
	CK(cuModuleGetFunction(&f, mod, "k"));
	CK(cuCtxPopCurrent(&out));

	streams();
	kernels();
	pointers();
	EXPECT(cuMemAlloc(&q, 16), CUDA_ERROR_INVALID_CONTEXT);
	CK(cuMemFree(q));
	CK(cuEventDestroy(ev));
	CK(cuStreamDestroy(st));

	CK(cuCtxPushCurrent(ctx));
	CK(cuMemFree(p));
	CK(cuCtxDestroy(ctx));
	EXPECT(cuMemFree(p), CUDA_ERROR_INVALID_CONTEXT);
	return pass();
}
