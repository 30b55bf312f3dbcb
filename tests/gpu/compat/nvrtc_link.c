/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=60 libs=nvrtc,nvJitLink */
/*
 * Two sources compiled by NVRTC to relocatable PTX and to LTO IR, linked by nvJitLink to
 * a cubin, loaded and run through the driver API.
 */
#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const char *part_a = "extern __device__ float f(float);\n"
			    "extern \"C\" __global__ void k(float *p)\n"
			    "{ p[threadIdx.x] = f(p[threadIdx.x]); }\n";
static const char *part_b = "__device__ float f(float x) { return x * 3.0f + 1.0f; }\n";

static char *compile(const char *source, const char *arch, int lto, size_t *size)
{
	const char *options[] = {arch, lto ? "-dlto" : "-rdc=true"};
	nvrtcProgram p;
	char *out;

	CHECK(nvrtcCreateProgram(&p, source, "part.cu", 0, NULL, NULL));
	CHECK(nvrtcCompileProgram(p, 2, options));
	CHECK(lto ? nvrtcGetLTOIRSize(p, size) : nvrtcGetPTXSize(p, size));
	out = malloc(*size);
	CHECK(lto ? nvrtcGetLTOIR(p, out) : nvrtcGetPTX(p, out));
	CHECK(nvrtcDestroyProgram(&p));
	return out;
}

static void run(int major, int minor, int lto)
{
	char compile_arch[64], link_arch[64];
	const char *options[] = {link_arch, "-lto"};
	const char *sources[] = {part_a, part_b};
	float host[32];
	CUdeviceptr mem;
	CUfunction fn;
	CUmodule mod;
	nvJitLinkHandle link;
	size_t size;
	char *image;
	void *args[] = {&mem};

	snprintf(compile_arch, sizeof(compile_arch), "-arch=compute_%d%d", major, minor);
	snprintf(link_arch, sizeof(link_arch), "-arch=sm_%d%d", major, minor);
	CHECK(nvJitLinkCreate(&link, lto ? 2 : 1, options));
	for (int i = 0; i < 2; i++) {
		image = compile(sources[i], compile_arch, lto, &size);
		CHECK(nvJitLinkAddData(link,
				       lto ? NVJITLINK_INPUT_LTOIR : NVJITLINK_INPUT_PTX,
				       image, size, "part"));
		free(image);
	}
	CHECK(nvJitLinkComplete(link));
	CHECK(nvJitLinkGetLinkedCubinSize(link, &size));
	image = malloc(size);
	CHECK(nvJitLinkGetLinkedCubin(link, image));
	CHECK(nvJitLinkDestroy(&link));
	CHECK(cuModuleLoadData(&mod, image));
	free(image);
	CHECK(cuModuleGetFunction(&fn, mod, "k"));
	CHECK(cuMemAlloc(&mem, sizeof(host)));
	for (int i = 0; i < 32; i++)
		host[i] = (float)i;
	CHECK(cuMemcpyHtoD(mem, host, sizeof(host)));
	CHECK(cuLaunchKernel(fn, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
	CHECK(cuMemcpyDtoH(host, mem, sizeof(host)));
	for (int i = 0; i < 32; i++) {
		if (host[i] != i * 3.0f + 1.0f) {
			printf("FAIL nvrtc_link: value %d is %f\n", i, (double)host[i]);
			exit(1);
		}
	}
	CHECK(cuMemFree(mem));
	CHECK(cuModuleUnload(mod));
}

int main(void)
{
	int major, minor;
	CUdevice dev;
	CUcontext ctx;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				   dev));
	CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				   dev));
	run(major, minor, 0);
	run(major, minor, 1);
	printf("ok nvrtc_link PTX and LTO for sm_%d%d\n", major, minor);
	return 0;
}
