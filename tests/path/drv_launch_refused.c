/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch that cannot be is refused by the call that makes it, and leaves nothing
 * behind: what comes next works, and nothing fails later.
 */
#include "driver.h"

/* Each counts its blocks. */
#define KERNEL(name, directives)                                                         \
	".visible .entry " name "(.param .u64 x)\n" directives "\n{\n"                   \
	".reg .u64 %p;\n.reg .u32 %v;\n.reg .pred %q;\n"                                 \
	"mov.u32 %v, %tid.x;\nsetp.ne.u32 %q, %v, 0;\n@%q ret;\n"                        \
	"mov.u32 %v, %tid.y;\nsetp.ne.u32 %q, %v, 0;\n@%q ret;\n"                        \
	"ld.param.u64 %p, [x];\ncvta.to.global.u64 %p, %p;\n"                            \
	"red.global.add.u32 [%p], 1;\nret;\n}\n"

static const char *const ptx =
	".version 8.0\n.target sm_90\n.address_size 64\n" KERNEL("plain", "")
		KERNEL("required", ".reqntid 32, 2, 1")
			KERNEL("at_most", ".maxntid 64, 1, 1")
				KERNEL("clusters", ".reqnctapercluster 2, 1, 1");

static CUmodule module;
static CUdeviceptr counter;
static unsigned blocks; /* that should have run */

static CUfunction get(const char *name)
{
	CUfunction f;

	CK(cuModuleGetFunction(&f, module, name));
	return f;
}

static CUresult launch(CUfunction f, unsigned grid, unsigned bx, unsigned by,
		       unsigned shared)
{
	void *params[] = {&counter};
	CUresult r = cuLaunchKernel(f, grid, 1, 1, bx, by, 1, shared, NULL, params, NULL);

	blocks += r ? 0 : grid;
	return r;
}

static CUresult launch_coop(CUfunction f, unsigned grid, unsigned threads)
{
	void *params[] = {&counter};
	CUresult r =
		cuLaunchCooperativeKernel(f, grid, 1, 1, threads, 1, 1, 0, NULL, params);

	blocks += r ? 0 : grid;
	return r;
}

static CUresult launch_cluster(CUfunction f, unsigned grid, unsigned cluster)
{
	CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
			       .value.clusterDim = {cluster, 1, 1}};
	CUlaunchConfig c = {.gridDimX = grid,
			    .gridDimY = 1,
			    .gridDimZ = 1,
			    .blockDimX = 32,
			    .blockDimY = 1,
			    .blockDimZ = 1,
			    .attrs = &a,
			    .numAttrs = 1};
	void *params[] = {&counter};
	CUresult r = cuLaunchKernelEx(&c, f, params, NULL);

	blocks += r ? 0 : grid;
	return r;
}

/* Nothing has failed meanwhile, and all that was taken has run. */
static void settle(void)
{
	unsigned n;

	CK(cuCtxSynchronize());
	CK(cuMemcpyDtoH(&n, counter, sizeof(n)));
	REQUIRE(n == blocks);
}

static void shapes(void)
{
	CUfunction f = get("required");

	for (unsigned round = 0; round < 3; round++) {
		EXPECT(launch(f, 1, 64, 1, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 1, 2, 32, 0), CUDA_ERROR_INVALID_VALUE);
		settle();
		CK(launch(f, 3, 32, 2, 0));
		CK(launch(f, 3, 32, 2, 0));
		settle();
	}
	f = get("at_most");
	for (unsigned round = 0; round < 3; round++) {
		EXPECT(launch(f, 1, 65, 1, 0), CUDA_ERROR_INVALID_VALUE);
		settle();
		CK(launch(f, 1, 64, 1, 0));
		CK(launch(f, 1, 32, 1, 0));
		CK(launch(f, 1, 8, 8, 0));
		settle();
	}
}

static void sizes(void)
{
	CUfunction f = get("plain");

	for (unsigned round = 0; round < 2; round++) {
		EXPECT(launch(f, 0, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 1, 64, 32, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 0x80000000u, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT(launch(f, 1, 32, 1, 49153), CUDA_ERROR_INVALID_VALUE);
		settle();
		for (unsigned threads = 1; threads <= 1024; threads *= 2)
			CK(launch(f, 2, threads, 1, 0));
		settle();
	}
	CK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
	CK(launch(f, 1, 32, 1, 65536));
	EXPECT(launch(f, 1, 32, 1, 65537), CUDA_ERROR_INVALID_VALUE);
	settle();
}

static void clusters(void)
{
	CUfunction f = get("clusters");

	EXPECT(launch(f, 3, 32, 1, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	EXPECT(launch_cluster(f, 4, 4), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	settle();
	CK(launch(f, 4, 32, 1, 0));
	CK(launch_cluster(f, 4, 2));
	f = get("plain");
	EXPECT(launch_cluster(f, 16, 16), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	EXPECT(launch_cluster(f, 3, 2), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	for (unsigned n = 1; n <= 8; n *= 2)
		CK(launch_cluster(f, 16, n));
	settle();
}

static void cooperative(void)
{
	CUfunction f = get("plain");
	int n, sms;

	CK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 256, 0));
	for (unsigned round = 0; round < 2; round++) {
		EXPECT(launch_coop(f, (unsigned)(n * sms) + 1, 256),
		       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
		settle();
		CK(launch_coop(f, (unsigned)(n * sms), 256));
		settle();
	}
}

int main(void)
{
	CUcontext ctx;

	check_name = "drv_launch_refused";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuModuleLoadData(&module, ptx));
	CK(cuMemAlloc(&counter, 4));
	CK(cuMemsetD32(counter, 0, 1));
	shapes();
	sizes();
	clusters();
	cooperative();
	return pass();
}
