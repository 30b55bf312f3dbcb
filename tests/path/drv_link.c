/* SPDX-License-Identifier: Apache-2.0 */
/* Linking at run time: two texts that need each other, a result that is copied, mistakes. */
#include "driver.h"

static const char caller[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
			     ".extern .func (.param .b32 r) helper(.param .b32 x);\n"
			     ".visible .entry k(.param .u64 p)\n{\n"
			     ".reg .b64 %rd<3>;\n.reg .b32 %r<3>;\n"
			     "ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\n"
			     "mov.u32 %r1, 20;\n{\n.param .b32 a;\n.param .b32 v;\n"
			     "st.param.b32 [a], %r1;\ncall (v), helper, (a);\n"
			     "ld.param.b32 %r2, [v];\n}\n"
			     "st.global.u32 [%rd2], %r2;\nret;\n}\n";

static const char helper[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
			     ".visible .func (.param .b32 r) helper(.param .b32 x)\n{\n"
			     ".reg .b32 %r<3>;\nld.param.b32 %r1, [x];\n"
			     "add.s32 %r2, %r1, 22;\nst.param.b32 [r], %r2;\nret;\n}\n";

static const char wrong[] = ".version 7.0\n.target sm_50\n.address_size 64\nnonsense\n";

static char errors[4096];

static CUlinkState create(void)
{
	static CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
					 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	/* outputs: they must live as long as the link */
	static void *values[2];
	CUlinkState l;

	values[0] = errors;
	values[1] = (void *)sizeof(errors);

	CK(cuLinkCreate(2, options, values, &l));
	return l;
}

static CUresult add(CUlinkState l, const char *text, size_t size)
{
	return cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)text, size, "text", 0, NULL, NULL);
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUlinkState l;
	CUmodule mod;
	CUfunction f;
	CUdeviceptr p;
	void *image, *copy, *args[] = {&p};
	size_t size;
	int v = 0;

	check_name = "drv_link";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));

	l = create();
	CK(add(l, caller, sizeof(caller)));
	EXPECT(add(l, wrong, sizeof(wrong)), CUDA_ERROR_INVALID_PTX);
	REQUIRE(strstr(errors, "nonsense"));
	CK(add(l, helper, sizeof(helper)));
	CK(cuLinkComplete(l, &image, &size));
	REQUIRE(size > 0);
	copy = malloc(size);
	memcpy(copy, image, size);
	CK(cuLinkDestroy(l));

	CK(cuModuleLoadData(&mod, copy));
	free(copy);
	CK(cuModuleGetFunction(&f, mod, "k"));
	CK(cuMemAlloc(&p, 4));
	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	CK(cuMemcpyDtoH(&v, p, 4));
	REQUIRE(v == 42);
	CK(cuModuleUnload(mod));

	/* half of it */
	l = create();
	CK(add(l, caller, sizeof(caller)));
	REQUIRE(cuLinkComplete(l, &image, &size) != CUDA_SUCCESS);
	REQUIRE(strstr(errors, "helper"));
	CK(cuLinkDestroy(l));
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
