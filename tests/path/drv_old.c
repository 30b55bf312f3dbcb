/* SPDX-License-Identifier: Apache-2.0 */
/* Launches as before CUDA 4.0, and questions about what a device may lack. */
#define CUDA_ENABLE_DEPRECATED
#include "driver.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry k(.param .u64 p, .param .u32 i, .param .f32 f)\n{\n"
			  ".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n.reg .f32 %f<2>;\n"
			  "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
			  "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n"
			  "mad.lo.u32 %r1, %r2, %r3, %r1;\nmul.wide.u32 %rd2, %r1, 8;\n"
			  "add.u64 %rd1, %rd1, %rd2;\nld.param.u32 %r2, [i];\n"
			  "ld.param.f32 %f1, [f];\nst.global.u32 [%rd1], %r2;\n"
			  "st.global.f32 [%rd1+4], %f1;\nret;\n}\n";

static void old_launch(CUfunction f)
{
	struct {
		unsigned i;
		float f;
	} out[8];
	CUdeviceptr p;

	CK(cuMemAlloc(&p, sizeof(out)));
	CK(cuMemsetD8(p, 0, sizeof(out)));
	CK(cuFuncSetBlockShape(f, 4, 1, 1));
	CK(cuFuncSetSharedSize(f, 0));
	CK(cuParamSetSize(f, 16));
	CK(cuParamSetv(f, 0, &p, 8));
	CK(cuParamSeti(f, 8, 77));
	CK(cuParamSetf(f, 12, 2.5f));
	CK(cuLaunchGrid(f, 2, 1));
	CK(cuMemcpyDtoH(out, p, sizeof(out)));
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(out[i].i == 77 && out[i].f == 2.5f);
	CK(cuParamSeti(f, 8, 78));
	CK(cuLaunch(f));
	CK(cuMemcpyDtoH(out, p, sizeof(out)));
	REQUIRE(out[3].i == 78 && out[4].i == 77);
	EXPECT(cuFuncSetBlockShape(f, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(p));
}

/* On one device it is a cooperative launch. */
static void many_devices(CUfunction f)
{
	CUDA_LAUNCH_PARAMS l = {.function = f, .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1,
				.blockDimX = 4, .blockDimY = 1, .blockDimZ = 1};
	unsigned i = 9, out[16];
	float v = 1;
	CUdeviceptr p;
	void *params[] = {&p, &i, &v};

	CK(cuMemAlloc(&p, sizeof(out)));
	CK(cuStreamCreate(&l.hStream, CU_STREAM_NON_BLOCKING));
	l.kernelParams = params;
	CK(cuLaunchCooperativeKernelMultiDevice(&l, 1, 0));
	CK(cuStreamSynchronize(l.hStream));
	CK(cuMemcpyDtoH(out, p, sizeof(out)));
	for (i = 0; i < 8; i++)
		REQUIRE(out[2 * i] == 9);
	CK(cuStreamDestroy(l.hStream));
	l.hStream = NULL;
	EXPECT(cuLaunchCooperativeKernelMultiDevice(&l, 1, 0),
	       CUDA_ERROR_INVALID_HANDLE);
	CK(cuMemFree(p));
}

static void context_events(CUcontext ctx)
{
	CUevent ev;

	CK(cuEventCreate(&ev, 0));
	CK(cuCtxRecordEvent(ctx, ev));
	CK(cuCtxWaitEvent(ctx, ev));
	CK(cuEventSynchronize(ev));
	CK(cuEventDestroy(ev));
}

static void questions(CUdevice dev, CUcontext ctx)
{
	CUdevResource res;
	CUlogIterator it = 7;
	CUdeviceptr p;
	int sms, managed;

	CK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
	CK(cuDeviceGetDevResource(dev, &res, CU_DEV_RESOURCE_TYPE_SM));
	REQUIRE(res.type == CU_DEV_RESOURCE_TYPE_SM && res.sm.smCount == (unsigned)sms);
	CK(cuCtxGetDevResource(ctx, &res, CU_DEV_RESOURCE_TYPE_SM));
	REQUIRE(res.sm.smCount == (unsigned)sms);
	CK(cuLogsCurrent(&it, 0));
	CK(cuMemAlloc(&p, 4096));
	EXPECT(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY,
			   (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPrefetchAsync(p, 4096, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  0, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(p));
	CK(cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, dev));
	if (!managed)
		EXPECT(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL),
		       CUDA_ERROR_NOT_SUPPORTED);
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction f;

	check_name = "drv_old";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	CK(cuModuleLoadData(&mod, ptx));
	CK(cuModuleGetFunction(&f, mod, "k"));
	old_launch(f);
	many_devices(f);
	context_events(ctx);
	questions(dev, ctx);
	CK(cuModuleUnload(mod));
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
