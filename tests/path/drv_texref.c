/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture references, as programs of before CUDA 12 use them: in code, bound to an array, to
 * linear and to pitched memory; what the setters refuse and the getters tell. A device that
 * loads no such code still has references of the program's own.
 */
#include "driver.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* that is what they are */

static const char code[] =
	".version 6.4\n.target sm_60\n.address_size 64\n"
	".global .texref tx;\n.global .surfref sx;\n"
	".visible .entry k(.param .u64 out, .param .f32 x, .param .f32 y)\n{\n"
	".reg .f32 %f<8>;\n.reg .b64 %d<2>;\n"
	"ld.param.u64 %d1, [out];\nld.param.f32 %f1, [x];\nld.param.f32 %f2, [y];\n"
	"tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [tx, {%f1,%f2}];\n"
	"st.global.f32 [%d1], %f3;\nret;\n}\n"
	".visible .entry fetch(.param .u64 out, .param .u32 i)\n{\n"
	".reg .f32 %f<8>;\n.reg .b64 %d<2>;\n.reg .b32 %r<2>;\n"
	"ld.param.u64 %d1, [out];\nld.param.u32 %r1, [i];\n"
	"tex.1d.v4.f32.s32 {%f3,%f4,%f5,%f6}, [tx, {%r1}];\n"
	"st.global.f32 [%d1], %f3;\nret;\n}\n"
	".visible .entry put(.param .u32 x, .param .u32 v)\n{\n.reg .b32 %r<4>;\n"
	"ld.param.u32 %r1, [x];\nld.param.u32 %r2, [v];\nmov.u32 %r3, 1;\n"
	"sust.b.2d.b32.trap [sx, {%r1, %r3}], {%r2};\nret;\n}\n";

#define W 16
#define H 8

static CUdeviceptr out;

static float run(CUfunction f, void *a, void *b)
{
	void *args[] = {&out, a, b};
	float v;

	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
	CK(cuMemcpyDtoH(&v, out, 4));
	return v;
}

static void own(void)
{
	CUDA_ARRAY_DESCRIPTOR d = {W, H, CU_AD_FORMAT_FLOAT, 1};
	CUarray array, got;
	CUarray_format format;
	CUfilter_mode filter;
	CUaddress_mode mode;
	unsigned flags;
	int channels;
	size_t off = 99;
	CUdeviceptr p;
	CUtexref t;

	CK(cuTexRefCreate(&t));
	EXPECT(cuTexRefGetArray(&got, t), CUDA_ERROR_INVALID_VALUE);
	CK(cuArrayCreate(&array, &d));
	CK(cuTexRefSetArray(t, array, CU_TRSA_OVERRIDE_FORMAT));
	CK(cuTexRefGetArray(&got, t));
	CK(cuTexRefGetFormat(&format, &channels, t));
	REQUIRE(got == array && format == CU_AD_FORMAT_FLOAT && channels == 1);
	CK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
	CK(cuTexRefGetFilterMode(&filter, t));
	CK(cuTexRefSetAddressMode(t, 1, CU_TR_ADDRESS_MODE_CLAMP));
	CK(cuTexRefGetAddressMode(&mode, t, 1));
	CK(cuTexRefSetFlags(t, CU_TRSF_NORMALIZED_COORDINATES));
	CK(cuTexRefGetFlags(&flags, t));
	REQUIRE(filter == CU_TR_FILTER_MODE_LINEAR && mode == CU_TR_ADDRESS_MODE_CLAMP &&
		flags == CU_TRSF_NORMALIZED_COORDINATES);
	EXPECT(cuTexRefSetAddressMode(t, 3, CU_TR_ADDRESS_MODE_CLAMP),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuTexRefSetFlags(t, 64 << 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 3), CUDA_ERROR_INVALID_VALUE);
	CK(cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 4));
	CK(cuTexRefSetAddress(&off, t, out + 16, 512));
	REQUIRE(off == 16);
	EXPECT(cuTexRefSetAddress(NULL, t, out + 16, 512), CUDA_ERROR_INVALID_VALUE);
	CK(cuTexRefGetAddress(&p, t));
	EXPECT(cuTexRefGetArray(&got, t), CUDA_ERROR_INVALID_VALUE);
	CK(cuTexRefDestroy(t));
	EXPECT(cuTexRefSetFilterMode(NULL, CU_TR_FILTER_MODE_POINT),
	       CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuTexRefDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuSurfRefGetArray(&got, NULL), CUDA_ERROR_INVALID_HANDLE);
	CK(cuArrayDestroy(array));
}

static void in_code(CUmodule m)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {W, H, 0, CU_AD_FORMAT_FLOAT, 1,
				     CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_ARRAY_DESCRIPTOR rows = {W, H, CU_AD_FORMAT_FLOAT, 1};
	float v[W * H], x = 3.5f, y = 2.5f, edge = 3, back;
	CUfunction k, fetch, put;
	CUdeviceptr mem;
	CUtexref t, same;
	CUsurfref s;
	CUarray a;
	size_t off;
	int i = 5, at = 8, bits = 0x3f800000;

	CK(cuModuleGetTexRef(&t, m, "tx"));
	CK(cuModuleGetTexRef(&same, m, "tx"));
	REQUIRE(t == same);
	EXPECT(cuModuleGetTexRef(&same, m, "none"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetTexRef(NULL, m, "tx"), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetTexRef(&same, m, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetTexRef(&same, NULL, "tx"), CUDA_ERROR_INVALID_HANDLE);
	CK(cuModuleGetSurfRef(&s, m, "sx"));
	EXPECT(cuModuleGetSurfRef(&s, m, "none"), CUDA_ERROR_NOT_FOUND);
	CK(cuModuleGetFunction(&k, m, "k"));
	CK(cuModuleGetFunction(&fetch, m, "fetch"));
	CK(cuModuleGetFunction(&put, m, "put"));
	for (int n = 0; n < W * H; n++)
		v[n] = n;
	CK(cuMemAlloc(&mem, 512 * H));
	CK(cuArray3DCreate(&a, &d));
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = v,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = a,
			   .WidthInBytes = W * 4,
			   .Height = H};
	CK(cuMemcpy2D(&c));
	CK(cuTexRefSetArray(t, a, CU_TRSA_OVERRIDE_FORMAT));
	REQUIRE(run(k, &x, &y) == 2 * W + 3);
	CK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
	REQUIRE(run(k, &edge, &y) == 2 * W + 2.5f);
	CK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_POINT));

	c.dstMemoryType = CU_MEMORYTYPE_DEVICE; /* pitched */
	c.dstDevice = mem;
	c.dstPitch = 512;
	CK(cuMemcpy2D(&c));
	CK(cuTexRefSetAddress2D(t, &rows, mem, 512));
	REQUIRE(run(k, &x, &y) == 2 * W + 3);

	CK(cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 1)); /* linear */
	CK(cuTexRefSetAddress(&off, t, mem, 512));
	REQUIRE(off == 0 && run(fetch, &i, NULL) == 5);

	void *args[] = {&at, &bits};
	CK(cuSurfRefSetArray(s, a, 0));
	CK(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
	CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			   .srcArray = a,
			   .srcXInBytes = 8,
			   .srcY = 1,
			   .dstMemoryType = CU_MEMORYTYPE_HOST,
			   .dstHost = &back,
			   .WidthInBytes = 4,
			   .Height = 1};
	CK(cuMemcpy2D(&r));
	REQUIRE(back == 1);
	CK(cuArrayDestroy(a));
	CK(cuMemFree(mem));
}

int main(void)
{
	CUcontext ctx;
	CUmodule m;
	CUdevice dev;

	check_name = "drv_texref";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuMemAlloc(&out, 4096));
	own();
	if (cuModuleLoadData(&m, code) == CUDA_SUCCESS)
		in_code(m);
	else
		printf("SKIP drv_texref: no code with references on this device\n");
	CK(cuCtxDestroy(ctx));
	return pass();
}
