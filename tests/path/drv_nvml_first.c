/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that asks NVML before CUDA (NCCL does) gets mapped memory all the same: the
 * library that only monitors must not take the addresses that the other one needs.
 */
#include <dlfcn.h>

#include "driver.h"

#define N 1024

int main(void)
{
	int (*nvml_init)(void);
	unsigned *p;
	CUdeviceptr dev;
	CUcontext ctx;
	void *lib, *fn;

	check_name = "drv_nvml_first";
	lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	fn = lib ? dlsym(lib, "nvmlInit_v2") : NULL;
	REQUIRE(fn);
	memcpy(&nvml_init, &fn, sizeof(fn));
	REQUIRE(nvml_init() == 0);

	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuMemHostAlloc((void **)&p, N * 4, CU_MEMHOSTALLOC_DEVICEMAP));
	CK(cuMemHostGetDevicePointer(&dev, p, 0));
	CK(cuMemsetD32(dev, 7, N));
	CK(cuCtxSynchronize());
	for (int i = 0; i < N; i++)
		REQUIRE(p[i] == 7);
	CK(cuMemFreeHost(p));
	CK(cuDevicePrimaryCtxRelease(0));
	return pass();
}
