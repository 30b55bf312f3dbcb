/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for what another release has: run.py says which library and host are under it.
 *
 *	asks next VALUE	a function that the next release adds
 *	asks launch	a kernel; a field that the next release adds is what WEFT_TEST_PAINT says
 *
 * Prints what came of it, and goes on: whatever was refused, memory is there afterwards.
 */
#include <dlfcn.h>

#include "../path/driver.h"

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
			  ".visible .entry k(.param .u64 p, .param .u32 v)\n{\n"
			  ".reg .b64 %d;\n.reg .b32 %r;\n"
			  "ld.param.u64 %d, [p];\nld.param.u32 %r, [v];\n"
			  "st.global.u32 [%d], %r;\nret;\n}\n";

static void ask_next(unsigned value)
{
	CUresult (*next)(unsigned, unsigned *) =
		(CUresult(*)(unsigned, unsigned *))dlsym(RTLD_DEFAULT, "cuWeftNext");
	unsigned doubled = 0;
	CUresult r;

	REQUIRE(next);
	r = next(value, &doubled);
	printf("next: %s %u\n", err(r), doubled);
	REQUIRE(next(value, &doubled) == r);
}

static void ask_launch(void)
{
	unsigned value = 77, got = 0;
	CUdeviceptr p;
	CUfunction f;
	CUmodule mod;
	CUresult r;

	CK(cuMemAlloc(&p, 64));
	CK(cuMemsetD32(p, 0, 16));
	CK(cuModuleLoadData(&mod, ptx));
	CK(cuModuleGetFunction(&f, mod, "k"));
	/* The first with such blocks waits, the second does not. */
	for (unsigned i = 0; i < 2; i++) {
		r = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p, &value},
				   NULL);
		if (r == CUDA_SUCCESS)
			r = cuCtxSynchronize();
		CK(cuMemcpyDtoH(&got, p, 4));
		printf("launch: %s %u\n", err(r), got);
	}
	CK(cuModuleUnload(mod));
	CK(cuMemFree(p));
}

int main(int argc, char **argv)
{
	CUcontext ctx;
	CUdeviceptr p;

	check_name = "asks";
	CK(cuInit(0));
	CK(cuCtxCreate(&ctx, NULL, 0, 0));
	if (argc == 3)
		ask_next((unsigned)atoi(argv[2]));
	else
		ask_launch();
	CK(cuMemAlloc(&p, 1 << 20));
	CK(cuMemsetD8(p, 1, 1 << 20));
	CK(cuCtxSynchronize());
	CK(cuMemFree(p));
	return pass();
}
