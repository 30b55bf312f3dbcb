/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does with a given CUPTI (libcupti.so of a Python wheel) what PyTorch's profiler does at
 * its start: before cuInit, with a context, and in several threads. Every call must give
 * the named error, and the program's own work be right.
 *
 *	cupti LIBCUPTI ERROR
 */
#include <dlfcn.h>
#include <pthread.h>

#include "driver.h"

enum {
	THREADS = 4,
	ROUNDS = 2
};

/* CUpti_ActivityKind: copies, memsets, driver, runtime, concurrent kernels. */
static const int kinds[] = {1, 2, 4, 5, 10};

static const char *const ptx =
	".version 7.8\n.target sm_90\n.address_size 64\n"
	".visible .entry one(.param .u64 out)\n{\n"
	".reg .b64 %d<2>;\nld.param.u64 %d0, [out];\nst.global.u32 [%d0], 1;\nret;\n}\n";

static struct {
	int (*subscribe)(void **subscriber, void (*callback)(void), void *user);
	int (*callbacks)(void (*request)(void), void (*complete)(void));
	int (*enable)(int kind);
	int (*flush)(uint32_t flag);
	int (*finalize)(void);
	int (*name)(int result, const char **name);
} cupti;

static const char *want;

static void *sym(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		fail("no %s", name);
	return p;
}

static void never(void)
{
	fail("CUPTI called back");
}

static void check(const char *what, int result)
{
	const char *name = "?";

	cupti.name(result, &name);
	if (strcmp(name, want))
		fail("%s: %s (%d) instead of %s", what, name, result, want);
}

static void profile(void)
{
	void *subscriber = NULL;

	check("cuptiSubscribe", cupti.subscribe(&subscriber, never, NULL));
	check("cuptiActivityRegisterCallbacks", cupti.callbacks(never, never));
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		check("cuptiActivityEnable", cupti.enable(kinds[i]));
	check("cuptiActivityFlushAll", cupti.flush(0));
}

static void work(void)
{
	unsigned v[2] = {0};
	CUfunction f;
	CUdeviceptr p;
	CUmodule m;
	void *params[] = {&p};

	CK(cuModuleLoadData(&m, ptx));
	CK(cuModuleGetFunction(&f, m, "one"));
	CK(cuMemAlloc(&p, sizeof(v)));
	CK(cuMemsetD32(p, 7, 2));
	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CK(cuMemcpyDtoH(v, p, sizeof(v)));
	REQUIRE(v[0] == 1 && v[1] == 7);
	CK(cuMemFree(p));
	CK(cuModuleUnload(m));
}

static void *thread(void *ctx)
{
	CK(cuCtxSetCurrent(ctx));
	profile();
	work();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	CUcontext ctx;
	CUdevice dev;
	void *lib;

	check_name = "cupti";
	if (argc != 3)
		return 2;
	want = argv[2];
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib)
		fail("%s", dlerror());
	*(void **)&cupti.subscribe = sym(lib, "cuptiSubscribe");
	*(void **)&cupti.callbacks = sym(lib, "cuptiActivityRegisterCallbacks");
	*(void **)&cupti.enable = sym(lib, "cuptiActivityEnable");
	*(void **)&cupti.flush = sym(lib, "cuptiActivityFlushAll");
	*(void **)&cupti.finalize = sym(lib, "cuptiFinalize");
	*(void **)&cupti.name = sym(lib, "cuptiGetResultString");
	profile();
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	for (int i = 0; i < ROUNDS; i++) {
		profile();
		work();
		cupti.finalize();
		work();
	}
	for (int i = 0; i < THREADS; i++)
		REQUIRE(!pthread_create(&t[i], NULL, thread, ctx));
	for (int i = 0; i < THREADS; i++)
		REQUIRE(!pthread_join(t[i], NULL));
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
