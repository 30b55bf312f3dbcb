/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API with PTX text: modules, parameters in both forms, globals, JIT errors. */
#include "driver.h"

static const char *const saxpy =
	".version 7.0\n"
	".target sm_52\n"
	".address_size 64\n"
	".visible .global .align 4 .u32 launches = 5;\n"
	".visible .const .align 4 .f32 offset = 0f3F800000;\n"
	".visible .entry saxpy(.param .u64 px, .param .u64 py, .param .f32 pa, .param .u32 pn)\n"
	"{\n"
	"	.reg .pred %p;\n"
	"	.reg .b32 %r<8>;\n"
	"	.reg .f32 %f<6>;\n"
	"	.reg .b64 %d<6>;\n"
	"	ld.param.u64 %d1, [px];\n"
	"	ld.param.u64 %d2, [py];\n"
	"	ld.param.f32 %f1, [pa];\n"
	"	ld.param.u32 %r1, [pn];\n"
	"	mov.u32 %r2, %ctaid.x;\n"
	"	mov.u32 %r3, %ntid.x;\n"
	"	mov.u32 %r4, %tid.x;\n"
	"	mad.lo.u32 %r5, %r2, %r3, %r4;\n"
	"	setp.ge.u32 %p, %r5, %r1;\n"
	"	@%p bra DONE;\n"
	"	cvta.to.global.u64 %d1, %d1;\n"
	"	cvta.to.global.u64 %d2, %d2;\n"
	"	mul.wide.u32 %d3, %r5, 4;\n"
	"	add.u64 %d1, %d1, %d3;\n"
	"	add.u64 %d2, %d2, %d3;\n"
	"	ld.global.f32 %f2, [%d1];\n"
	"	ld.global.f32 %f3, [%d2];\n"
	"	ld.const.f32 %f5, [offset];\n"
	"	fma.rn.f32 %f4, %f1, %f2, %f3;\n"
	"	add.f32 %f4, %f4, %f5;\n"
	"	st.global.f32 [%d2], %f4;\n"
	"	setp.ne.u32 %p, %r5, 0;\n"
	"	@%p bra DONE;\n"
	"	mov.u64 %d4, launches;\n"
	"	atom.global.add.u32 %r6, [%d4], 1;\n"
	"DONE:\n"
	"	ret;\n"
	"}\n";

static void run(CUfunction f, CUdeviceptr x, CUdeviceptr y, float *hx, float *hy, int n,
		int use_extra)
{
	float a = 2.5f;

	if (use_extra) {
		struct {
			CUdeviceptr x, y;
			float a;
			unsigned n;
		} buf = { x, y, a, (unsigned)n };
		size_t size = sizeof(buf);
		void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &buf,
				  CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END };

		CK(cuLaunchKernel(f, (unsigned)(n + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, NULL,
				  extra));
	} else {
		void *params[] = { &x, &y, &a, &n };

		CK(cuLaunchKernel(f, (unsigned)(n + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, params,
				  NULL));
	}
	for (int i = 0; i < n; i++)
		hy[i] = a * hx[i] + hy[i] + 1.0f;
}

int main(void)
{
	enum { N = 1000 };
	static float hx[N], hy[N], got[N];
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction f;
	CUdeviceptr x, y, g;
	size_t size, off;
	unsigned launches = 0;

	check_name = "drv_ptx";
	EXPECT(cuMemAlloc(&x, 16), CUDA_ERROR_NOT_INITIALIZED);
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	EXPECT(cuMemAlloc(&x, 16), CUDA_ERROR_INVALID_CONTEXT);
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuModuleLoadData(&mod, saxpy));
	CK(cuModuleGetFunction(&f, mod, "saxpy"));
	EXPECT(cuModuleGetFunction(&f, mod, "nothing"), CUDA_ERROR_NOT_FOUND);
	CK(cuModuleGetFunction(&f, mod, "saxpy"));
	CK(cuFuncGetParamInfo(f, 2, &off, &size));
	REQUIRE(off == 16 && size == 4);
	EXPECT(cuFuncGetParamInfo(f, 4, &off, &size), CUDA_ERROR_INVALID_VALUE);

	CK(cuMemAlloc(&x, sizeof(hx)));
	CK(cuMemAlloc(&y, sizeof(hy)));
	for (int i = 0; i < N; i++) {
		hx[i] = (float)i;
		hy[i] = (float)(N - i);
	}
	CK(cuMemcpyHtoD(x, hx, sizeof(hx)));
	CK(cuMemcpyHtoD(y, hy, sizeof(hy)));
	run(f, x, y, hx, hy, N, 0);
	run(f, x, y, hx, hy, N, 1);
	CK(cuMemcpyDtoH(got, y, sizeof(got)));
	REQUIRE(memcmp(got, hy, sizeof(got)) == 0);

	CK(cuModuleGetGlobal(&g, &size, mod, "launches"));
	REQUIRE(size == 4);
	CK(cuMemcpyDtoH(&launches, g, 4));
	REQUIRE(launches == 7);
	/* either output may be NULL */
	CK(cuModuleGetGlobal(NULL, &size, mod, "launches"));
	CK(cuModuleGetGlobal(&g, NULL, mod, "launches"));
	EXPECT(cuModuleGetGlobal(&g, &size, mod, "no_such"), CUDA_ERROR_NOT_FOUND);
	float two = 2.0f;
	CK(cuModuleGetGlobal(&g, &size, mod, "offset"));
	CK(cuMemcpyHtoD(g, &two, 4));

	/* wrong launches are refused at the call */
	void *params[4] = { &x, &y, &two, &size };
	EXPECT(cuLaunchKernel(f, 0, 1, 1, 64, 1, 1, 0, NULL, params, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLaunchKernel(NULL, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL),
	       CUDA_ERROR_INVALID_HANDLE);
	CK(cuModuleUnload(mod));
	CK(cuMemFree(x));
	EXPECT(cuMemFree(x), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(y));
	CK(cuCtxDestroy(ctx));
	return pass();
}
