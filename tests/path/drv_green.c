/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts: kernels run on the SMs that theirs has, two of them at the same time. */
#include "driver.h"

#define SMS_MAX 256

/* Marks its SM, and stays for a while. wait: until *flag is 1; post: sets it. */
static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry mark(.param .u64 p)\n{\n"
	".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n.reg .pred %q;\n"
	"ld.param.u64 %rd1, [p];\nmov.u32 %r1, %smid;\nmul.wide.u32 %rd2, %r1, 4;\n"
	"add.u64 %rd1, %rd1, %rd2;\nmov.u32 %r2, 1;\nst.global.u32 [%rd1], %r2;\n"
	"mov.u32 %r3, 0;\nagain:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %q, %r3, 2000;\n"
	"@%q bra again;\nret;\n}\n"
	".visible .entry wait(.param .u64 p)\n{\n"
	".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n.reg .pred %q;\n"
	"ld.param.u64 %rd1, [p];\nagain:\nld.volatile.global.u32 %r1, [%rd1];\n"
	"setp.eq.u32 %q, %r1, 0;\n@%q bra again;\nret;\n}\n"
	".visible .entry post(.param .u64 p)\n{\n"
	".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n"
	"ld.param.u64 %rd1, [p];\nmov.u32 %r1, 1;\nst.volatile.global.u32 [%rd1], %r1;\n"
	"ret;\n}\n";

static CUfunction mark_fn, wait_fn, post_fn;
static CUdevice dev;
static CUdeviceptr there;

static void launch(CUfunction f, unsigned blocks, CUstream st)
{
	void *params[] = {&there};

	CK(cuLaunchKernel(f, blocks, 1, 1, 32, 1, 1, 0, st, params, NULL));
}

/* SMs on which a kernel of that stream has run; adds them to seen. */
static unsigned sms_of(CUstream st, unsigned char seen[SMS_MAX])
{
	unsigned hits[SMS_MAX], n = 0;

	CK(cuMemsetD8(there, 0, sizeof(hits)));
	launch(mark_fn, 4096, st);
	CK(cuStreamSynchronize(st));
	CK(cuMemcpyDtoH(hits, there, sizeof(hits)));
	for (unsigned i = 0; i < SMS_MAX; i++) {
		n += hits[i];
		if (hits[i])
			seen[i]++;
	}
	return n;
}

static CUgreenCtx green_of(CUdevResource *groups, unsigned n)
{
	CUdevResourceDesc desc;
	CUgreenCtx g;

	CK(cuDevResourceGenerateDesc(&desc, groups, n));
	CK(cuGreenCtxCreate(&g, desc, dev, CU_GREEN_CTX_DEFAULT_STREAM));
	return g;
}

static void resources(const CUdevResource *all)
{
	CUdevResource one[SMS_MAX], rest, other[1], wrong = *all;
	CUdevResourceDesc desc;
	unsigned n = 0, few = 1, m;

	CK(cuDevSmResourceSplitByCount(
		NULL, &n, all, NULL, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2));
	REQUIRE(n == all->sm.smCount / 2);
	m = n;
	CK(cuDevSmResourceSplitByCount(
		one, &m, all, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2));
	REQUIRE(m == n && one[0].sm.smCount == 2 &&
		rest.type == CU_DEV_RESOURCE_TYPE_INVALID);
	CK(cuDevSmResourceSplitByCount(other, &few, all, &rest, 0, 3));
	REQUIRE(few == 1 && other[0].sm.smCount >= 3);
	REQUIRE(rest.sm.smCount + other[0].sm.smCount == all->sm.smCount);
	EXPECT(cuDevSmResourceSplitByCount(other, &few, &one[0], NULL, 0, 2),
	       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	EXPECT(cuDevSmResourceSplitByCount(other, &few, all, NULL, 0,
					   all->sm.smCount + 1),
	       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	wrong.type = CU_DEV_RESOURCE_TYPE_INVALID;
	EXPECT(cuDevSmResourceSplitByCount(other, &few, &wrong, NULL, 0, 2),
	       CUDA_ERROR_INVALID_RESOURCE_TYPE);
	few = 1;
	EXPECT(cuDevSmResourceSplitByCount(other, &few, all, NULL, 3, 2),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuDevResourceGenerateDesc(&desc, one, 1));
	{
		CUgreenCtx g;

		EXPECT(cuGreenCtxCreate(&g, desc, dev, 0), CUDA_ERROR_INVALID_VALUE);
	}
}

static void as_context(CUgreenCtx g, unsigned sms)
{
	unsigned char seen[SMS_MAX] = {0}, inside[SMS_MAX] = {0};
	CUcontext ctx, now, primary;
	CUdevResource res;
	CUgreenCtx of;
	CUstream st;
	unsigned x;

	CK(cuCtxGetCurrent(&primary));
	CK(cuGreenCtxStreamCreate(&st, g, CU_STREAM_NON_BLOCKING, 0));
	REQUIRE(sms_of(st, seen) == sms);
	CK(cuStreamDestroy(st));
	CK(cuCtxFromGreenCtx(&ctx, g));
	CK(cuCtxPushCurrent(ctx));
	CK(cuCtxGetCurrent(&now));
	REQUIRE(now == ctx && now != primary);
	CK(cuCtxGetDevResource(ctx, &res, CU_DEV_RESOURCE_TYPE_SM));
	REQUIRE(res.sm.smCount == sms);
	/* The default stream, memory of the primary context, a copy that waits. */
	REQUIRE(sms_of(NULL, inside) == sms);
	CK(cuMemsetD32(there, 7, 1));
	launch(post_fn, 1, NULL);
	CK(cuMemcpyDtoH(&x, there, sizeof(x)));
	REQUIRE(x == 1);
	CK(cuStreamGetGreenCtx(NULL, &of));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuStreamGetGreenCtx(st, &of));
	REQUIRE(of == g);
	CK(cuStreamGetCtx(st, &now));
	REQUIRE(now == ctx);
	CK(cuStreamGetCtx_v2(st, &now, &of));
	REQUIRE(now == primary && of == g);
	REQUIRE(sms_of(st, inside) == sms);
	for (unsigned i = 0; i < SMS_MAX; i++)
		REQUIRE(!inside[i] == !seen[i]);
	CK(cuCtxSynchronize());
	CK(cuStreamDestroy(st));
	CK(cuCtxPopCurrent(&now));
	REQUIRE(now == ctx);
	CK(cuCtxGetCurrent(&now));
	REQUIRE(now == primary);
	memset(seen, 0, sizeof(seen));
	REQUIRE(sms_of(NULL, seen) > sms);
}

/* One waits for what the other does: neither would end if they took turns. */
static void at_once(CUgreenCtx a, CUgreenCtx b, unsigned sms)
{
	unsigned char seen[SMS_MAX] = {0};
	CUstream x, y, none;
	CUevent ev;

	CK(cuGreenCtxStreamCreate(&x, a, CU_STREAM_NON_BLOCKING, 0));
	CK(cuGreenCtxStreamCreate(&y, b, CU_STREAM_NON_BLOCKING, 0));
	EXPECT(cuGreenCtxStreamCreate(&none, b, 0, 0), CUDA_ERROR_INVALID_VALUE);
	REQUIRE(sms_of(x, seen) == sms && sms_of(y, seen) == sms);
	for (unsigned i = 0; i < SMS_MAX; i++)
		REQUIRE(seen[i] <= 1);
	CK(cuMemsetD32(there, 0, 1));
	launch(wait_fn, sms, x);
	launch(post_fn, 1, y);
	CK(cuStreamSynchronize(x));
	CK(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
	CK(cuGreenCtxRecordEvent(a, ev));
	CK(cuGreenCtxWaitEvent(b, ev));
	CK(cuEventSynchronize(ev));
	CK(cuEventDestroy(ev));
	CK(cuStreamDestroy(x));
	CK(cuStreamDestroy(y));
}

int main(void)
{
	CUdevResource all, group[SMS_MAX], two[2], res;
	unsigned long long id, other;
	CUgreenCtx a, b, c;
	CUcontext primary;
	unsigned n = SMS_MAX;
	CUmodule mod;

	check_name = "drv_green";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&primary, dev));
	CK(cuCtxSetCurrent(primary));
	CK(cuModuleLoadData(&mod, ptx));
	CK(cuModuleGetFunction(&mark_fn, mod, "mark"));
	CK(cuModuleGetFunction(&wait_fn, mod, "wait"));
	CK(cuModuleGetFunction(&post_fn, mod, "post"));
	CK(cuMemAlloc(&there, SMS_MAX * sizeof(unsigned)));
	CK(cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM));
	resources(&all);
	CK(cuDevSmResourceSplitByCount(group, &n, &all, NULL,
				       CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING,
				       2));
	a = green_of(&group[0], 1);
	b = green_of(&group[n - 1], 1);
	two[0] = group[0];
	two[1] = group[2];
	c = green_of(two, 2);
	CK(cuGreenCtxGetDevResource(c, &res, CU_DEV_RESOURCE_TYPE_SM));
	REQUIRE(res.sm.smCount == 4);
	CK(cuGreenCtxGetId(a, &id));
	CK(cuGreenCtxGetId(b, &other));
	REQUIRE(id != other);
	as_context(a, 2);
	as_context(c, 4);
	at_once(a, b, 2);
	{
		CUcontext ctx, on_top;
		CUdeviceptr p;

		CK(cuCtxFromGreenCtx(&ctx, a));
		EXPECT(cuCtxDestroy(ctx), CUDA_ERROR_INVALID_CONTEXT);
		CK(cuCtxGetId(ctx, &id));
		CK(cuCtxGetId(primary, &other));
		REQUIRE(id != other);
		CK(cuCtxPushCurrent(ctx));
		CK(cuGreenCtxDestroy(a));
		EXPECT(cuMemAlloc(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
		CK(cuCtxPopCurrent(&on_top));
		CK(cuMemAlloc(&p, 4));
		CK(cuMemFree(p));
	}
	CK(cuGreenCtxDestroy(b));
	CK(cuGreenCtxDestroy(c));
	CK(cuMemFree(there));
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
