/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private tables that cuBLAS, cuBLASLt and cuFFT 13 ask for: the current context and
 * its number, the functions of a module, and where the TPCs are.
 */
#include <pthread.h>

#include "driver.h"

static const char *const ptx =
	".version 7.8\n.target sm_90\n.address_size 64\n"
	".visible .entry one(.param .u64 out)\n{\n"
	".reg .b64 %d<2>;\nld.param.u64 %d0, [out];\nst.global.u32 [%d0], 1;\nret;\n}\n"
	".visible .entry two(.param .u64 out)\n{\n"
	".reg .b64 %d<2>;\nld.param.u64 %d0, [out];\nst.global.u32 [%d0+4], "
	"2;\nret;\n}\n";

typedef void (*slot)(void);

static const CUuuid tls_id = {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98,
			       0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc}};
static const CUuuid context_id = {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c,
				   0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2}};
static const CUuuid module_id = {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83,
				  0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e}};
static const CUuuid tpc_id = {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26,
			       0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca}};

static slot slot_of(const CUuuid *id, unsigned n)
{
	const slot *table;

	CK(cuGetExportTable((const void **)&table, id));
	REQUIRE(n < (uintptr_t)table[0] / sizeof(slot));
	REQUIRE(table[n]);
	return table[n];
}

static void contexts(CUcontext ctx)
{
	CUresult (*current)(CUcontext *) = (CUresult(*)(CUcontext *))slot_of(&tls_id, 2);
	CUresult (*number)(CUcontext, unsigned long long *) =
		(CUresult(*)(CUcontext, unsigned long long *))slot_of(&context_id, 4);
	unsigned long long a = 0, b = 1;
	CUcontext c = NULL;

	CK(current(&c));
	REQUIRE(c == ctx);
	CK(number(ctx, &a));
	CK(cuCtxGetId(ctx, &b));
	REQUIRE(a == b);
	a = 99;
	CK(number(NULL, &a));
	REQUIRE(a == 0);
}

/* cuBLAS asks for both before it has the runtime make a context current. */
static void *without(void *arg)
{
	CUresult (*current)(CUcontext *) = (CUresult(*)(CUcontext *))slot_of(&tls_id, 2);
	CUresult (*number)(CUcontext, unsigned long long *) =
		(CUresult(*)(CUcontext, unsigned long long *))slot_of(&context_id, 4);
	unsigned long long a = 99;
	CUcontext c = arg;

	CK(current(&c));
	REQUIRE(!c);
	CK(number(c, &a));
	REQUIRE(a == 0);
	return NULL;
}

static void streams(CUcontext ctx)
{
	CUresult (*find)(CUcontext, CUstream, void **, int) =
		(CUresult(*)(CUcontext, CUstream, void **, int))slot_of(&context_id, 51);
	CUresult (*number)(CUcontext, void *, unsigned long long *) =
		(CUresult(*)(CUcontext, void *, unsigned long long *))slot_of(&context_id,
									      39);
	unsigned long long id[3] = {0};
	CUstream st;
	void *p;

	CK(cuStreamCreate(&st, 0));
	CK(find(ctx, NULL, &p, 0));
	CK(number(ctx, p, &id[0]));
	CK(find(ctx, CU_STREAM_PER_THREAD, &p, 1));
	CK(number(ctx, p, &id[1]));
	CK(find(ctx, st, &p, 0));
	CK(number(ctx, p, &id[2]));
	REQUIRE(id[0] != id[1] && id[0] != id[2] && id[1] != id[2]);
	CK(cuStreamDestroy(st));
}

static void launch(void *arg, CUfunction f, CUmodule m)
{
	void *params[] = {&arg};

	CK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static void modules(CUcontext ctx)
{
	uint64_t (*each)(CUcontext, CUmodule, void (*)(void *, CUfunction, CUmodule),
			 void *) =
		(uint64_t(*)(CUcontext, CUmodule, void (*)(void *, CUfunction, CUmodule),
			     void *))slot_of(&module_id, 7);
	unsigned v[2] = {0};
	CUmodule m;
	CUdeviceptr p;

	CK(cuModuleLoadData(&m, ptx));
	CK(cuMemAlloc(&p, 8));
	CK(cuMemsetD32(p, 0, 2));
	REQUIRE(each(ctx, m, launch, (void *)(uintptr_t)p) == 2);
	CK(cuMemcpyDtoH(v, p, 8));
	REQUIRE(v[0] == 1 && v[1] == 2);
	CK(cuMemFree(p));
	CK(cuModuleUnload(m));
}

static void tpcs(CUdevice dev)
{
	CUresult (*get)(uint8_t **, uint8_t **) =
		(CUresult(*)(uint8_t **, uint8_t **))slot_of(&tpc_id, 4);
	CUresult (*release)(uint8_t *, uint8_t *) =
		(CUresult(*)(uint8_t *, uint8_t *))slot_of(&tpc_id, 13);
	uint8_t *index = NULL, *gpc = NULL;
	int sms;

	CK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
	CK(get(&index, &gpc));
	REQUIRE(index && gpc);
	for (int i = 0; i < sms / 2; i++) /* no place is taken twice */
		for (int j = 0; j < i; j++)
			REQUIRE(index[i] != index[j] || gpc[i] != gpc[j]);
	CK(release(index, gpc));
}

int main(void)
{
	CUcontext ctx;
	CUdevice dev;
	pthread_t th;

	check_name = "drv_private";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	contexts(ctx);
	REQUIRE(!pthread_create(&th, NULL, without, ctx) && !pthread_join(th, NULL));
	streams(ctx);
	modules(ctx);
	tpcs(dev);
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
