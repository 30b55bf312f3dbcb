/* SPDX-License-Identifier: Apache-2.0 */
/* Code takes device memory too: what the device has less while it is loaded, where it
 * does not fit, and what a kernel makes the driver take only when it runs. */
#include <unistd.h>

#include "driver.h"

#define MIB (1ull << 20)
#define BIG (32 * MIB)
#define SLACK (4 * MIB) /* what a driver may keep for itself */

static const char *const image = ".version 7.0\n"
				 ".target sm_52\n"
				 ".address_size 64\n"
				 ".visible .global .align 8 .b8 big[33554432];\n"
				 ".visible .entry number(.param .u64 p)\n"
				 "{\n"
				 "	.reg .b64 %d<3>;\n"
				 "	ld.param.u64 %d1, [p];\n"
				 "	cvta.to.global.u64 %d1, %d1;\n"
				 "	st.global.u64 [%d1], 42;\n"
				 "	ret;\n"
				 "}\n";

static const char *const heap = ".version 7.0\n"
				".target sm_52\n"
				".address_size 64\n"
				".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
				".visible .entry take(.param .u64 p)\n"
				"{\n"
				"	.reg .b64 %d<4>;\n"
				"	ld.param.u64 %d1, [p];\n"
				"	cvta.to.global.u64 %d1, %d1;\n"
				"	{\n"
				"	.param .b64 n;\n"
				"	.param .b64 r;\n"
				"	st.param.b64 [n], 64;\n"
				"	call.uni (r), malloc, (n);\n"
				"	ld.param.b64 %d2, [r];\n"
				"	}\n"
				"	st.global.u64 [%d1], %d2;\n"
				"	ret;\n"
				"}\n";

static size_t room(void)
{
	size_t left, total;

	CK(cuMemGetInfo(&left, &total));
	return left;
}

/* Until there is so little left, or so much: what drivers load late is charged late. */
static void wait_at_most(size_t bytes)
{
	for (int tries = 0; room() > bytes; tries++) {
		REQUIRE(tries < 500);
		usleep(10000);
	}
}

static void wait_at_least(size_t bytes)
{
	for (int tries = 0; room() < bytes; tries++) {
		REQUIRE(tries < 500);
		usleep(10000);
	}
}

/* Returns the value that the kernel writes to p. */
static uint64_t run(CUmodule mod, const char *name, CUdeviceptr p)
{
	void *params[] = { &p };
	uint64_t v = 0;
	CUfunction f;

	CK(cuModuleGetFunction(&f, mod, name));
	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CK(cuMemcpyDtoH(&v, p, sizeof(v)));
	return v;
}

/* Drivers may load a module only when something of it is asked for. */
static CUresult load(CUmodule *ret)
{
	CUmodule mod;
	CUfunction f;
	CUresult r = cuModuleLoadData(&mod, image);

	if (r)
		return r;
	r = cuModuleGetFunction(&f, mod, "number");
	if (r)
		cuModuleUnload(mod);
	else
		*ret = mod;
	return r;
}

int main(void)
{
	CUmodule mod, other;
	CUdeviceptr p, rest;
	CUcontext ctx;
	CUdevice dev;
	size_t before;

	check_name = "drv_code";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	CK(cuMemAlloc(&p, 2 * MIB));
	CK(load(&mod)); /* what the driver keeps for the next one it has taken then */
	REQUIRE(run(mod, "number", p) == 42);
	CK(cuModuleUnload(mod));
	usleep(1000000);

	before = room();
	CK(load(&mod));
	REQUIRE(run(mod, "number", p) == 42);
	wait_at_most(before - BIG);
	CK(load(&other));
	wait_at_most(before - 2 * BIG);
	CK(cuModuleUnload(other));
	CK(cuModuleUnload(mod));
	REQUIRE(room() + SLACK >= before);

	/* no room for it: nothing is left of the try */
	CK(cuMemAlloc(&rest, before / SLACK * SLACK - BIG / 2));
	before = room();
	EXPECT(load(&mod), CUDA_ERROR_OUT_OF_MEMORY);
	wait_at_least(before - SLACK);
	CK(cuMemFree(rest));
	CK(load(&mod));
	REQUIRE(run(mod, "number", p) == 42);
	CK(cuModuleUnload(mod));

	/* a heap: some drivers take it with the code, others with the launch */
	before = room();
	CK(cuModuleLoadData(&mod, heap));
	REQUIRE(run(mod, "take", p) != 0);
	wait_at_most(before - 8 * MIB);
	CK(cuModuleUnload(mod));
	CK(cuMemFree(p));
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
