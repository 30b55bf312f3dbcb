/* SPDX-License-Identifier: Apache-2.0 */
/* Code and launches: what the worker is told, and what is refused before. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/guest.h"
#include "fake.h"
#include "ring.h"

static const char image[] = ".version 9.0\n.target sm_75\n";
static CUmodule module;
static struct fake_launch last; /* as of wait_launches() */

static struct fake *start(void)
{
	struct fake *f = fake_start(true);
	CUcontext ctx;

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	cr_assert_eq(cuModuleLoadData(&module, image), CUDA_SUCCESS);
	fake_drain(f);
	return f;
}

static CUfunction get(const char *name)
{
	CUfunction f = NULL;

	cr_assert_eq(cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
	return f;
}

static CUresult launch(CUfunction f, void **params, void **extra)
{
	return cuLaunchKernel(f, 2, 3, 4, 32, 2, 1, 128, NULL, params, extra);
}

static void wait_launches(struct fake *f, unsigned n)
{
	cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	fake_last_launch(&last);
	cr_assert_eq(f->launches, n);
}

Test(guest_launch, the_image_is_sent_once_with_its_nul)
{
	struct fake *f = start();

	cr_expect_eq(f->images, 1);
	cr_expect_eq(f->last_image_size, sizeof(image), "with its NUL");
	cr_expect_str_eq(f->last_image, image);
}

Test(guest_launch, parameters_are_packed_by_the_functions_layout)
{
	struct fake *f = start();
	uint64_t a = 0x1122334455667788, b = 2;
	uint32_t c = 3;
	void *params[] = {&a, &b, &c};
	CUfunction plain = get("plain");
	const struct launch_kernel_cmd *cmd = &last.cmd;

	cr_assert_eq(launch(plain, params, NULL), CUDA_SUCCESS);
	wait_launches(f, 1);
	cr_expect_eq(cmd->func, (uintptr_t)plain);
	cr_expect_eq(cmd->stream, 1);
	cr_expect_eq(cmd->grid[2], 4);
	cr_expect_eq(cmd->block[0], 32);
	cr_expect_eq(cmd->shared_bytes, 128);
	cr_expect_eq(cmd->flags, 0);
	cr_expect_eq(cmd->params_size, 20);
	cr_expect_eq(memcmp(last.params, &a, 8), 0);
	cr_expect_eq(memcmp(last.params + 8, &b, 8), 0);
	cr_expect_eq(memcmp(last.params + 16, &c, 4), 0);
}

Test(guest_launch, gaps_are_zero)
{
	static const uint8_t zero[7];
	struct fake *f = start();
	uint64_t b = ~0ull;
	uint8_t a = 0xaa;
	char c[3] = "xyz";
	void *params[] = {&a, &b, c};

	cr_assert_eq(launch(get("odd"), params, NULL), CUDA_SUCCESS);
	wait_launches(f, 1);
	cr_expect_eq(last.cmd.params_size, 19);
	cr_expect_eq(last.params[0], 0xaa);
	cr_expect_eq(memcmp(last.params + 1, zero, 7), 0);
	cr_expect_eq(memcmp(last.params + 16, "xyz", 3), 0);
}

Test(guest_launch, parameters_in_one_buffer_are_taken_as_they_are)
{
	struct fake *f = start();
	char buf[20] = "0123456789abcdefghi";
	size_t size = sizeof(buf);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buf, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &size, CU_LAUNCH_PARAM_END};
	void *bad[] = {(void *)7, buf, CU_LAUNCH_PARAM_END};
	void *none[] = {CU_LAUNCH_PARAM_END};
	void *params[] = {buf, buf, buf};
	CUfunction plain = get("plain");

	cr_assert_eq(launch(plain, NULL, extra), CUDA_SUCCESS);
	wait_launches(f, 1);
	cr_expect_eq(last.cmd.params_size, 20);
	cr_expect_str_eq((char *)last.params, buf);
	cr_expect_eq(launch(plain, params, extra), CUDA_ERROR_INVALID_VALUE, "both");
	cr_expect_eq(launch(plain, NULL, bad), CUDA_ERROR_INVALID_VALUE);
	size = 4; /* as on a GPU: what is missing is undefined, here zero */
	cr_expect_eq(launch(plain, NULL, extra), CUDA_SUCCESS);
	wait_launches(f, 2);
	cr_expect_eq(last.cmd.params_size, 20);
	cr_expect_eq(memcmp(last.params, "0123\0\0\0\0", 8), 0);
	size = 21;
	cr_expect_eq(launch(plain, NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	size = 40000;
	cr_expect_eq(launch(plain, NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	cr_expect_eq(launch(plain, NULL, none), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(launch(get("empty"), NULL, none), CUDA_SUCCESS);
	cr_expect_eq(launch(get("empty"), NULL, NULL), CUDA_SUCCESS);
}

Test(guest_launch, large_params)
{
	static uint8_t block[32764];
	struct fake *f = start();
	void *params[] = {block};
	size_t i;

	for (i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 7);
	cr_assert_eq(launch(get("large"), params, NULL), CUDA_SUCCESS);
	wait_launches(f, 1);
	cr_expect_eq(last.cmd.params_size, sizeof(block));
	cr_expect_eq(memcmp(last.params, block, sizeof(block)), 0);
}

Test(guest_launch, wrong_launches_are_refused_before_they_are_sent)
{
	struct fake *f = start();
	uint64_t v = 0;
	void *params[] = {&v, &v, &v}, *missing[] = {&v, NULL, &v};
	CUfunction k = get("plain");

	cr_expect_eq(launch(NULL, params, NULL), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(launch(k, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(launch(k, missing, NULL), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1, 0, 1, 0, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 70000, 1, 1, 1, 1, 0, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1024, 2, 1, 0, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1024, 1, 1, 0, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE, "more than the function was compiled for");
	cr_expect_eq(
		cuLaunchKernel(get("odd"), 1, 1, 1, 1024, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "more than the registers");
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 49153, NULL, params, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, (CUstream)&v, params, NULL),
		     CUDA_ERROR_INVALID_HANDLE);
	wait_launches(f, 0);
}

/* Whether a function wants blocks of one shape the device says when it is first launched
 * with another one. */
Test(guest_launch, first_of_a_shape_waits)
{
	struct fake *f = start();
	CUfunction k = get("empty");
	unsigned calls = f->calls;

	f->fail_next = CUDA_ERROR_INVALID_VALUE;
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 32, 2, 1, 0, NULL, NULL, NULL), 0);
	cr_expect_eq(f->calls, calls + 2);
	for (unsigned i = 0; i < 100; i++)
		cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 32, 2, 1, 0, NULL, NULL, NULL),
			     0);
	cr_expect_eq(f->calls, calls + 2, "the same again");
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL), 0);
	cr_expect_eq(f->calls, calls + 3);
	for (unsigned i = 1; i < 100; i++)
		cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, i, 1, 1, 0, NULL, NULL, NULL), 0);
	cr_expect_eq(f->calls, calls + 3, "any shape will do");
	wait_launches(f, 202);
}

/* A record lies where earlier ones were. */
Test(guest_launch, a_stream_is_on_all_tpcs_whatever_was_there_before)
{
	static uint8_t block[32764];
	struct fake *f = start();
	void *params[] = {block};
	CUfunction large = get("large");
	CUstream st;

	memset(block, 0xff, sizeof(block));
	for (unsigned i = 0; i < 2 * RING_SIZE / sizeof(block); i++)
		cr_assert_eq(launch(large, params, NULL), CUDA_SUCCESS);
	cr_assert_eq(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	cr_assert_eq(f->stream_creates, 1);
	cr_expect_eq(f->last_stream.flags, CU_STREAM_NON_BLOCKING);
	cr_expect_eq(f->last_stream.tpcs[0] | f->last_stream.tpcs[1], 0);
}

Test(guest_launch, a_launch_goes_to_the_stream_it_names)
{
	struct fake *f = start();
	CUfunction k = get("empty");
	CUstream st = NULL;
	unsigned flags = 9;
	int priority = 9;

	cr_assert_eq(cuLaunchKernel_ptsz(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
	wait_launches(f, 1);
	cr_expect_eq(last.cmd.stream, 2, "the thread's own");
	cr_assert_eq(
		cuLaunchKernel_ptsz(k, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, NULL, NULL),
		0);
	wait_launches(f, 2);
	cr_expect_eq(last.cmd.stream, 1);
	cr_assert_eq(cuStreamCreateWithPriority(&st, CU_STREAM_NON_BLOCKING, -9), 0);
	cr_expect_eq(cuStreamGetFlags(st, &flags), CUDA_SUCCESS);
	cr_expect_eq(flags, CU_STREAM_NON_BLOCKING);
	cr_expect_eq(cuStreamGetPriority(st, &priority), CUDA_SUCCESS);
	cr_expect_eq(priority, -5, "clamped");
	cr_assert_eq(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, st, NULL, NULL), 0);
	wait_launches(f, 3);
	cr_expect_eq(last.cmd.stream, (uintptr_t)st);
	cr_expect_eq(cuStreamDestroy_v2(st), CUDA_SUCCESS);
	cr_expect_eq(cuStreamDestroy_v2(st), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(cuStreamSynchronize(st), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, st, NULL, NULL),
		     CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(cuStreamCreate(&st, 7), CUDA_ERROR_INVALID_VALUE);
}

Test(guest_launch, attributes_of_a_launch_are_sent_or_refused)
{
	struct fake *f = start();
	CUlaunchAttribute attrs[3] = {
		{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
		{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
		 .value.clusterDim = {2, 1, 1}},
		{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = -1},
	};
	CUlaunchConfig cfg = {.gridDimX = 4,
			      .gridDimY = 1,
			      .gridDimZ = 1,
			      .blockDimX = 64,
			      .blockDimY = 1,
			      .blockDimZ = 1,
			      .attrs = attrs,
			      .numAttrs = 3};
	CUfunction k = get("empty");

	cr_expect_eq(cuLaunchKernelEx(&cfg, k, NULL, NULL), CUDA_SUCCESS);
	wait_launches(f, 1);
	cr_expect_eq(last.cmd.flags, 1);
	cr_expect_eq(last.cmd.cluster[0], 2);
	cr_assert_eq(last.cmd.attr_count, 1);
	cr_expect_eq(last.attrs[0].id, CU_LAUNCH_ATTRIBUTE_PRIORITY);
	cr_expect_eq((int)last.attrs[0].value[0], -1);
	cfg.gridDimX = 3;
	cr_expect_eq(cuLaunchKernelEx(&cfg, k, NULL, NULL),
		     CUDA_ERROR_INVALID_CLUSTER_SIZE);
	attrs[0].id = 99;
	cr_expect_eq(cuLaunchKernelEx(&cfg, k, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchKernelEx(NULL, k, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* One attribute and what an H200 says to it. */
static CUresult with(CUlaunchAttribute a)
{
	CUlaunchConfig cfg = {.gridDimX = 16,
			      .gridDimY = 1,
			      .gridDimZ = 1,
			      .blockDimX = 32,
			      .blockDimY = 1,
			      .blockDimZ = 1,
			      .attrs = &a,
			      .numAttrs = 1};

	return cuLaunchKernelEx(&cfg, get("empty"), NULL, NULL);
}

#define WITH(attr, field, ...)                                                           \
	with((CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_##attr,                       \
				 .value.field = __VA_ARGS__})

Test(guest_launch, attributes_are_refused_as_by_the_driver)
{
	struct fake *f = start();
	CUevent plain, timed;

	cr_assert_eq(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	cr_assert_eq(cuEventCreate(&timed, 0), CUDA_SUCCESS);
	cr_expect_eq(WITH(PROGRAMMATIC_STREAM_SERIALIZATION,
			  programmaticStreamSerializationAllowed, 1),
		     CUDA_SUCCESS);
	cr_expect_eq(WITH(PROGRAMMATIC_EVENT, programmaticEvent, {.event = plain}),
		     CUDA_SUCCESS);
	wait_launches(f, 2);
	cr_expect_eq(last.attrs[0].event, (uintptr_t)plain);
	cr_expect_eq(last.attrs[0].value[0], 0);
	cr_expect_eq(WITH(PROGRAMMATIC_EVENT, programmaticEvent, {.event = timed}),
		     CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(
		WITH(LAUNCH_COMPLETION_EVENT, launchCompletionEvent, {.event = NULL}),
		CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(WITH(LAUNCH_COMPLETION_EVENT, launchCompletionEvent,
			  {.event = plain, .flags = 9}),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(WITH(CLUSTER_DIMENSION, clusterDim, {3, 1, 1}),
		     CUDA_ERROR_INVALID_CLUSTER_SIZE);
	cr_expect_eq(WITH(CLUSTER_DIMENSION, clusterDim, {0, 0, 0}), CUDA_SUCCESS);
	cr_expect_eq(WITH(PREFERRED_CLUSTER_DIMENSION, preferredClusterDim, {4, 1, 1}),
		     CUDA_ERROR_INVALID_CLUSTER_SIZE);
	cr_expect_eq(WITH(CLUSTER_SCHEDULING_POLICY_PREFERENCE,
			  clusterSchedulingPolicyPreference, 7),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(WITH(MEM_SYNC_DOMAIN, memSyncDomain, 5), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(WITH(PREFERRED_SHARED_MEMORY_CARVEOUT, sharedMemCarveout, 500),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(WITH(ACCESS_POLICY_WINDOW, accessPolicyWindow, {.hitRatio = 2}),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(WITH(SYNCHRONIZATION_POLICY, syncPolicy, 1),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(WITH(DEVICE_UPDATABLE_KERNEL_NODE, deviceUpdatableKernelNode, {1}),
		     CUDA_ERROR_NOT_SUPPORTED);
}

Test(guest_launch, functions_are_asked_once)
{
	struct fake *f = start();
	CUfunction a = get("plain"), fs[8] = {0}, missing;
	size_t offset = 9, size = 9;
	const char *name;
	unsigned count = 0;
	int value;

	cr_expect_eq(get("plain"), a);
	cr_expect_eq(f->functions_asked, 1);
	cr_expect_eq(cuModuleGetFunction(&missing, module, "nosuch"),
		     CUDA_ERROR_NOT_FOUND);
	cr_expect_eq(cuModuleGetFunction(NULL, module, "plain"),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
	cr_expect_eq(count, FAKE_NUM_FUNCS);
	cr_expect_eq(cuModuleEnumerateFunctions(fs, 8, module), CUDA_SUCCESS);
	cr_expect_eq(fs[FAKE_PLAIN], a, "one function, one handle");
	cr_expect_eq(get("odd"), fs[FAKE_ODD]);
	cr_expect_eq(cuFuncGetName(&name, fs[FAKE_LARGE]), CUDA_SUCCESS);
	cr_expect_str_eq(name, "large");
	cr_expect_eq(cuFuncGetParamInfo(a, 2, &offset, &size), CUDA_SUCCESS);
	cr_expect_eq(offset, 16);
	cr_expect_eq(size, 4);
	cr_expect_eq(cuFuncGetParamInfo(a, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, a), 0);
	cr_expect_eq(value, 32);
	cr_expect_eq(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, a),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuFuncSetAttribute(
			     a, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000),
		     CUDA_SUCCESS);
	cr_expect_eq(cuFuncGetAttribute(
			     &value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, a),
		     CUDA_SUCCESS);
	cr_expect_eq(value, 100000, "the cache is not stale");
	cr_expect_eq(cuModuleUnload(module), CUDA_SUCCESS);
	cr_expect_eq(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(launch(a, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
}

Test(guest_launch, a_librarys_kernel_is_the_modules_function)
{
	struct fake *f = start();
	uint64_t v = 0;
	void *params[] = {&v, &v, &v};
	CUlibrary lib, lib2;
	CUkernel k, again;
	CUmodule mod;
	CUfunction func, func2;
	unsigned n = 0;
	int value;

	cr_assert_eq(cuLibraryLoadData(&lib, image, NULL, NULL, 0, NULL, NULL, 0), 0);
	cr_assert_eq(cuLibraryGetKernel(&k, lib, "plain"), CUDA_SUCCESS);
	cr_assert_eq(cuLibraryGetKernel(&again, lib, "plain"), CUDA_SUCCESS);
	cr_expect_eq(k, again);
	cr_expect_eq(cuLibraryGetKernelCount(&n, lib), CUDA_SUCCESS);
	cr_expect_eq(n, FAKE_NUM_FUNCS);
	cr_expect_eq(cuKernelGetFunction(&func, k), CUDA_SUCCESS);
	cr_expect_eq(cuLibraryGetModule(&mod, lib), CUDA_SUCCESS);
	cr_expect_eq(cuModuleGetFunction(&func2, mod, "plain"), CUDA_SUCCESS);
	cr_expect_eq(func, func2);
	cr_expect_eq(launch((CUfunction)k, params, NULL), CUDA_SUCCESS);
	cr_expect_eq(launch(func, params, NULL), CUDA_SUCCESS);
	wait_launches(f, 2);
	cr_expect_eq(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, k, 0), 0);
	cr_expect_eq(value, 32);
	cr_expect_eq(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, k, 3),
		     CUDA_ERROR_INVALID_DEVICE);
	cr_expect_eq(cuKernelGetLibrary(&lib2, k), CUDA_SUCCESS);
	cr_expect_eq(lib, lib2);
	cr_expect_eq(cuLibraryUnload(lib), CUDA_SUCCESS);
	cr_expect_eq(cuKernelGetFunction(&func, k), CUDA_ERROR_INVALID_HANDLE);
}

static const uint64_t container[] = {0x00100001ba55ed50, 8, 0};

/* Loads a library whose image is promised to stay. */
static CUlibrary load_preserved(void)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *yes = (void *)(uintptr_t)1;
	CUlibrary lib;

	cr_assert_eq(cuLibraryLoadData(&lib, container, NULL, NULL, 0, &option, &yes, 1),
		     CUDA_SUCCESS);
	return lib;
}

Test(guest_launch, a_preserved_library_is_sent_when_needed)
{
	struct fake *f = start();
	CUlibrary unused = load_preserved(), lib = load_preserved();
	CUkernel k;

	cr_expect_eq(cuLibraryUnload(unused), CUDA_SUCCESS);
	fake_drain(f);
	cr_expect_eq(f->images, 1, "only the module's");
	cr_expect_eq(cuLibraryGetKernel(&k, lib, "plain"), CUDA_SUCCESS);
	cr_expect_eq(cuLibraryGetKernel(&k, lib, "empty"), CUDA_SUCCESS);
	fake_drain(f);
	cr_expect_eq(f->images, 2);
	cr_expect_eq(f->last_image_size, sizeof(container));
	cr_expect_eq(cuLibraryUnload(lib), CUDA_SUCCESS);
}

/* Loading is tried again after an error that passes, not if the image is wrong. */
Test(guest_launch, a_preserved_library_outlives_a_full_device)
{
	struct fake *f = start();
	CUlibrary lib = load_preserved(), bad = load_preserved();
	CUkernel k;

	f->load_status = CUDA_ERROR_OUT_OF_MEMORY;
	cr_expect_eq(cuLibraryGetKernel(&k, lib, "plain"), CUDA_ERROR_OUT_OF_MEMORY);
	f->load_status = CUDA_ERROR_NO_BINARY_FOR_GPU;
	cr_expect_eq(cuLibraryGetKernel(&k, bad, "plain"), CUDA_ERROR_NO_BINARY_FOR_GPU);
	f->load_status = CUDA_SUCCESS;
	cr_expect_eq(cuLibraryGetKernel(&k, lib, "plain"), CUDA_SUCCESS);
	cr_expect_eq(cuLibraryGetKernel(&k, bad, "plain"), CUDA_ERROR_NO_BINARY_FOR_GPU);
	fake_drain(f);
	cr_expect_eq(f->images, 1 + 3, "the module's, twice the one and once the other");
	cr_expect_eq(cuLibraryUnload(lib), CUDA_SUCCESS);
	cr_expect_eq(cuLibraryUnload(bad), CUDA_SUCCESS);
}

Test(guest_launch, an_attribute_set_again_is_not_sent)
{
	const CUfunction_attribute shared =
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
	struct fake *f = start();
	CUfunction k = get("empty");
	unsigned calls = f->calls;

	cr_expect_eq(cuFuncSetAttribute(k, shared, 1000), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1);
	cr_expect_eq(cuFuncSetAttribute(k, shared, 1000), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1, "it has that value");
	cr_expect_eq(cuFuncSetAttribute(k, shared, 2000), CUDA_SUCCESS);
	cr_expect_eq(cuFuncSetAttribute(k, shared, 1000), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 3);
	f->fail_next = CUDA_ERROR_INVALID_VALUE;
	cr_expect_eq(cuFuncSetAttribute(k, shared, 3000), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuFuncSetAttribute(k, shared, 3000), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 5, "what was refused is asked again");
	cr_expect_eq(cuFuncSetAttribute(k, CU_FUNC_ATTRIBUTE_NUM_REGS, 0), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 6, "the worker says what cannot be set");
}

Test(guest_launch, occupancy_is_asked_once)
{
	struct fake *f = start();
	CUfunction k = get("plain");
	int blocks = -1;
	unsigned calls;

	cr_assert_eq(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 128, 64),
		     CUDA_SUCCESS);
	cr_expect_eq(blocks, 0, "what the fake says");
	calls = f->calls;
	blocks = -1;
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(
			cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 128, 64),
			CUDA_SUCCESS);
	cr_expect_eq(blocks, 0);
	cr_expect_eq(f->calls, calls);
	cr_assert_eq(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 128, 65),
		     CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1);
	cr_assert_eq(cuFuncSetAttribute(
			     k, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50),
		     CUDA_SUCCESS);
	cr_assert_eq(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 128, 64),
		     CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 3, "asked again");
	cr_expect_eq(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, k, 128,
									  64, 2),
		     CUDA_ERROR_INVALID_VALUE);
}

Test(guest_launch, jit_errors)
{
	struct fake *f = start();
	char log[64] = "old", small[8] = "old";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
				  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME};
	void *values[] = {log, (void *)sizeof(log), NULL};
	CUjit_option bad = CU_JIT_NUM_OPTIONS;
	CUmodule m = NULL;
	float ms = 0;

	f->load_status = CUDA_ERROR_INVALID_PTX;
	cr_expect_eq(cuModuleLoadDataEx(&m, image, 3, options, values),
		     CUDA_ERROR_INVALID_PTX);
	cr_expect_eq(m, NULL);
	cr_expect_str_eq(log, "ptxas: line 7: unknown instruction");
	cr_expect_eq((uintptr_t)values[1], strlen(log));
	memcpy(&ms, &values[2], sizeof(ms));
	cr_expect_eq(ms, 1.5f);
	values[0] = small;
	values[1] = (void *)sizeof(small);
	cr_expect_eq(cuModuleLoadDataEx(&m, image, 2, options, values),
		     CUDA_ERROR_INVALID_PTX);
	cr_expect_str_eq(small, "ptxas: ");
	cr_expect_eq(cuModuleLoadDataEx(&m, image, 1, &bad, values),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuModuleLoadDataEx(&m, image, 1, NULL, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuModuleLoadData(&m, "\x01\x02\x03"), CUDA_ERROR_INVALID_IMAGE);
	cr_expect_eq(cuModuleLoadData(NULL, image), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuModuleLoad(&m, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
}
