/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, their stacks, the private tables. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "core/guest.h"
#include "fake.h"
#include "refusal.h"

#define TABLE(...) (&(CUuuid){.bytes = {__VA_ARGS__}})

static const void **table(const CUuuid *id)
{
	const void *t = NULL;

	cr_assert_eq(cuGetExportTable(&t, id), CUDA_SUCCESS);
	return (const void **)t;
}

static const CUuuid *cudart_id(void)
{
	static const CUuuid id = {.bytes = "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9"
					   "\x39\x12\xfd\x9d\xf9"};

	return &id;
}

static const CUuuid *storage_id(void)
{
	static const CUuuid id = {.bytes = "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68"
					   "\xf3\x55\xd8\x95\x93"};

	return &id;
}

static struct fake *start(void)
{
	struct fake *f = fake_start(true);

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	return f;
}

/* The runtime gets the primary context's handle without activating it. */
Test(guest_context, primary_stays_inactive)
{
	CUresult (*get)(CUcontext *, CUdevice);
	CUcontext early = NULL, ctx = NULL;
	struct fake *f = start();
	unsigned flags = 9;
	int active = 9;

	get = (CUresult(*)(CUcontext *, CUdevice))table(cudart_id())[2];
	cr_expect_eq(get(&early, 0), CUDA_SUCCESS);
	cr_expect_eq(get(&ctx, 1), CUDA_ERROR_INVALID_DEVICE);
	cr_expect_eq(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
	cr_expect_eq(active, 0);
	cr_expect_eq(f->retains, 0);
	cr_expect_eq(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN), CUDA_SUCCESS);
	cr_expect_eq(cuDevicePrimaryCtxSetFlags_v2(0, 3), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_expect_eq(ctx, early);
	cr_expect_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_expect_eq(f->retains, 1);
	cr_expect_eq(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
	cr_expect_eq(active, 1);
	cr_expect_eq(flags, CU_CTX_SCHED_SPIN);
	cr_expect_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	cr_expect_eq(f->releases, 0);
	cr_expect_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	cr_expect_eq(f->releases, 1);
	cr_expect_eq(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	cr_expect_eq(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
}

Test(guest_context, contexts_are_a_stack_per_thread)
{
	CUcontext a, b, c = NULL;
	CUdeviceptr p;
	CUdevice dev = 5;

	start();
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
	cr_expect_eq(cuCtxPopCurrent_v2(&c), CUDA_ERROR_INVALID_CONTEXT);
	cr_expect_eq(cuCtxGetDevice(&dev), CUDA_ERROR_INVALID_CONTEXT);
	cr_expect_eq(cuCtxCreate_v2(&a, 0, 0), CUDA_SUCCESS);
	cr_expect_eq(cuCtxCreate_v2(&b, 0, 0), CUDA_SUCCESS);
	cr_expect_neq(a, b);
	cr_expect_eq(cuCtxGetCurrent(&c), CUDA_SUCCESS);
	cr_expect_eq(c, b);
	cr_expect_eq(cuCtxPushCurrent_v2(a), CUDA_SUCCESS);
	cr_expect_eq(cuCtxPopCurrent_v2(&c), CUDA_SUCCESS);
	cr_expect_eq(c, a);
	cr_expect_eq(cuCtxPopCurrent_v2(&c), CUDA_SUCCESS);
	cr_expect_eq(c, b);
	cr_expect_eq(cuCtxGetCurrent(&c), CUDA_SUCCESS);
	cr_expect_eq(c, a);
	cr_expect_eq(cuCtxSetCurrent(b), CUDA_SUCCESS);
	cr_expect_eq(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	cr_expect_eq(cuCtxGetCurrent(&c), CUDA_SUCCESS);
	cr_expect_eq(c, NULL);
	cr_expect_eq(cuCtxSetCurrent(a), CUDA_SUCCESS);
	cr_expect_eq(cuCtxGetDevice(&dev), CUDA_SUCCESS);
	cr_expect_eq(dev, 0);
	cr_expect_eq(cuCtxPushCurrent_v2((CUcontext)(uintptr_t)0x1234560),
		     CUDA_ERROR_INVALID_CONTEXT);
}

static void *use_destroyed(void *ctx)
{
	CUdeviceptr p;

	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	cr_assert_eq(cuMemAlloc_v2(&p, 16), CUDA_SUCCESS);
	cr_assert_eq(cuCtxDestroy_v2(ctx), CUDA_SUCCESS);
	return NULL;
}

/* Destroyed by another thread while it is current here. */
Test(guest_context, a_context_destroyed_elsewhere_is_an_error_here)
{
	CUcontext ctx, c;
	CUdeviceptr p;
	pthread_t t;

	start();
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	pthread_create(&t, NULL, use_destroyed, ctx);
	pthread_join(t, NULL);
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	cr_expect_eq(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
	cr_expect_eq(cuCtxPopCurrent_v2(&c), CUDA_SUCCESS);
	cr_expect_eq(c, ctx);
}

/* The worker is told which context once per change, and again after a reset. */
Test(guest_context, worker_is_told)
{
	struct fake *f = start();
	CUcontext ctx;
	CUdeviceptr p;
	int i;

	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	for (i = 0; i < 3; i++)
		cr_assert_eq(cuMemAlloc_v2(&p, 16), CUDA_SUCCESS);
	cr_expect_eq(f->ctx_sets, 1);
	cr_assert_eq(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_SUCCESS);
	cr_expect_eq(f->ctx_sets, 2);
}

static int dtor_calls;
static void *dtor_key, *dtor_value;

static void note_dtor(CUcontext ctx, void *key, void *value)
{
	dtor_calls++;
	dtor_key = key;
	dtor_value = value;
}

typedef void (*dtor_fn)(CUcontext, void *, void *);

Test(guest_context, local_storage)
{
	CUresult (*put)(CUcontext, void *, void *, dtor_fn);
	CUresult (*del)(CUcontext, void *);
	CUresult (*get)(void **, CUcontext, void *);
	int key_a, key_b, value_a, value_b;
	const void **t = table(storage_id());
	void *value = NULL;
	CUcontext ctx;

	start();
	put = (CUresult(*)(CUcontext, void *, void *, dtor_fn))t[0];
	del = (CUresult(*)(CUcontext, void *))t[1];
	get = (CUresult(*)(void **, CUcontext, void *))t[2];
	cr_expect_eq(t[3], NULL);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_expect_eq(put(NULL, &key_a, &value_a, note_dtor), CUDA_ERROR_INVALID_CONTEXT);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	cr_expect_eq(get(&value, ctx, &key_a), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(put(NULL, &key_a, &value_a, note_dtor), CUDA_SUCCESS);
	cr_expect_eq(put(ctx, &key_b, &value_b, note_dtor), CUDA_SUCCESS);
	cr_expect_eq(get(&value, ctx, &key_a), CUDA_SUCCESS);
	cr_expect_eq(value, &value_a);
	cr_expect_eq(put(ctx, &key_a, &value_b, note_dtor), CUDA_SUCCESS);
	cr_expect_eq(get(&value, (CUcontext)UINTPTR_MAX, &key_a), CUDA_SUCCESS);
	cr_expect_eq(value, &value_b, "replaced");
	cr_expect_eq(del(ctx, &key_b), CUDA_SUCCESS);
	cr_expect_eq(get(&value, ctx, &key_b), CUDA_ERROR_INVALID_HANDLE);
	cr_expect_eq(dtor_calls, 0);
	cr_assert_eq(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	cr_expect_eq(dtor_calls, 1);
	cr_expect_eq(dtor_key, &key_a);
	cr_expect_eq(dtor_value, &value_b);
	cr_expect_eq(get(&value, ctx, &key_a), CUDA_ERROR_INVALID_HANDLE);
}

Test(guest_context, storage_ends_with_last_release)
{
	CUresult (*put)(CUcontext, void *, void *, dtor_fn);
	CUcontext ctx, own;
	int key;

	start();
	put = (CUresult(*)(CUcontext, void *, void *, dtor_fn))table(storage_id())[0];
	cuDevicePrimaryCtxRetain(&ctx, 0);
	cuDevicePrimaryCtxRetain(&ctx, 0);
	cr_assert_eq(put(ctx, &key, NULL, note_dtor), CUDA_SUCCESS);
	cuDevicePrimaryCtxRelease_v2(0);
	cr_expect_eq(dtor_calls, 0);
	cuDevicePrimaryCtxRelease_v2(0);
	cr_expect_eq(dtor_calls, 1);
	cr_assert_eq(cuCtxCreate_v2(&own, 0, 0), CUDA_SUCCESS);
	cr_assert_eq(put(own, &key, NULL, note_dtor), CUDA_SUCCESS);
	cr_assert_eq(cuCtxDestroy_v2(own), CUDA_SUCCESS);
	cr_expect_eq(dtor_calls, 2);
}

Test(guest_context, export_tables_have_their_known_sizes)
{
	const CUuuid *skip = TABLE(0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9,
				   0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9);
	const CUuuid *hooks = TABLE(0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93,
				    0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66);
	const CUuuid *tls = TABLE(0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82,
				  0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc);
	const CUuuid *checks = TABLE(0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92,
				     0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e);
	const void *t = &t;
	uint64_t *buf = NULL;
	size_t n = 0;
	unsigned i;

	/* The runtime's probe must be refused with exactly this code. */
	cr_expect_eq(cuGetExportTable(&t, skip), CUDA_ERROR_NOT_FOUND);
	cr_expect_eq(t, NULL);
	cr_expect_eq(cuGetExportTable(&t, TABLE(1)), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuGetExportTable(NULL, skip), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq((uintptr_t)table(cudart_id())[0], 13 * 8);
	cr_expect_eq((uintptr_t)table(tls)[0], 4 * 8);
	cr_expect_eq((uintptr_t)table(checks)[0], 4 * 8);
	for (i = 1; i < 4; i++)
		cr_expect_neq(table(tls)[i], NULL);
	((void (*)(uint64_t **, size_t *))table(hooks)[2])(&buf, &n);
	cr_assert_eq(n, 1024);
	for (i = 0; i < n; i++)
		cr_assert_eq(buf[i], 0);
	((void (*)(uint64_t **, size_t *))table(hooks)[6])(&buf, &n);
	cr_expect_eq(n, 14);
	cr_expect_eq(buf[0], 0);
}

/* CUPTI is told that there is no profiling; other tools do not find what it finds. */
Test(guest_context, profiler_tables)
{
	const CUuuid *callbacks = TABLE(0x2c, 0x8e, 0x0a, 0xd8, 0x07, 0x10, 0xab, 0x4e,
					0x90, 0xdd, 0x54, 0x71, 0x9f, 0xe5, 0xf7, 0x4b);
	const CUuuid *profiling = TABLE(0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42,
					0xa4, 0x84, 0xbe, 0xb6, 0x6e, 0x6a, 0xed, 0x7f);
	const CUuuid *versions = TABLE(0x41, 0xae, 0x71, 0x7d, 0xa9, 0xeb, 0xa6, 0x4f,
				       0x99, 0x9b, 0xe3, 0xc2, 0x7f, 0x3c, 0x14, 0x0f);
	const CUuuid *shared = TABLE(0x35, 0x77, 0x0f, 0x1b, 0x09, 0x2e, 0x03, 0x48, 0xa4,
				     0x8e, 0x05, 0x6f, 0xc4, 0x23, 0x96, 0x8d);
	struct fake *f = start();
	const void *t = &t;
	unsigned i;

	cr_expect_eq(cuGetExportTable(&t, shared), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(t, NULL);
	cr_expect_eq(f->refusals, 1);
	cr_expect_eq((uintptr_t)table(callbacks)[0], 12 * 8);
	for (i = 1; i < 12; i++)
		cr_expect_eq(((CUresult(*)(void))table(callbacks)[i])(),
			     CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(((int (*)(void))table(profiling)[32])(), 19);
	cr_expect_neq(((void *(*)(unsigned))table(versions)[1])(4), NULL);
	cr_expect_eq((uintptr_t)table(shared)[0], 8, "no slots");
	cr_expect_eq(f->refusals, 1, "all that was an answer");
	cr_expect_eq(((CUresult(*)(void))table(shared)[1])(), CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(f->refusals, 2);
	cr_expect_eq(fake_last_refusal().kind, REFUSAL_SLOT);
}

Test(guest_context, a_limit_is_asked_for_once)
{
	struct fake *f = fake_start(true);
	unsigned calls;
	CUcontext ctx;
	size_t v = 0;

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	f->limit[CU_LIMIT_STACK_SIZE] = 1024;
	cr_assert_eq(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	cr_expect_eq(v, 1024);
	calls = f->calls;
	cr_assert_eq(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	cr_expect_eq(v, 1024);
	cr_expect_eq(f->calls, calls);
	cr_assert_eq(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2000), CUDA_SUCCESS);
	cr_assert_eq(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	cr_expect_eq(v, 2048, "as the device has rounded it");
	cr_assert_eq(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	f->limit[CU_LIMIT_STACK_SIZE] = 512;
	cr_assert_eq(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	cr_expect_eq(v, 512, "of the new one");
	f->fail_next = CUDA_ERROR_UNSUPPORTED_LIMIT;
	cr_expect_eq(cuCtxGetLimit(&v, CU_LIMIT_SHMEM_SIZE),
		     CUDA_ERROR_UNSUPPORTED_LIMIT);
	cr_expect_eq(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
}
