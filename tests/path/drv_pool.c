/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in stream order, and the pools that it comes from. */
#include <pthread.h>
#include <stdbool.h>

#include "driver.h"

#define MIB (1ull << 20)

static unsigned long long get(CUmemoryPool pool, CUmemPool_attribute attr)
{
	unsigned long long v = 0;

	CK(cuMemPoolGetAttribute(pool, attr, &v));
	return v;
}

static CUresult set(CUmemoryPool pool, CUmemPool_attribute attr, unsigned long long v)
{
	return cuMemPoolSetAttribute(pool, attr, &v);
}

static unsigned word_at(CUdeviceptr p, CUstream st)
{
	unsigned v = 0;

	CK(cuMemcpyDtoHAsync(&v, p, sizeof(v), st));
	CK(cuStreamSynchronize(st));
	return v;
}

static void numbers(CUmemoryPool pool, CUstream st)
{
	CUdeviceptr a, b;

	CK(cuMemAllocAsync(&a, 1000, st));
	CK(cuMemAllocAsync(&b, 600, st));
	REQUIRE(a != b);
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 1600);
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 1600);
	CK(cuMemFreeAsync(a, st));
	CK(cuMemFreeAsync(b, st));
	CK(cuMemFreeAsync(0, st));
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	CK(cuStreamSynchronize(st));
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 1600);
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 1600);
	CK(set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
	EXPECT(set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5), CUDA_ERROR_INVALID_VALUE);
	EXPECT(set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &a),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocAsync(&a, 1ull << 45, st), CUDA_ERROR_OUT_OF_MEMORY);
	CK(cuMemAllocAsync(&a, 0, st));
	REQUIRE(a == 0);
}

/* Frees memory and allocates as much at once: is it the same, with what it held? */
static bool reused(CUstream st, CUdeviceptr *b)
{
	CUdeviceptr a;

	CK(cuMemAllocAsync(&a, 4 * MIB, st));
	CK(cuMemsetD32Async(a, 0x11111111, MIB, st));
	CK(cuMemFreeAsync(a, st));
	CK(cuMemAllocAsync(b, 4 * MIB, st));
	CK(cuMemsetD32Async(*b + 4, 0x22222222, MIB - 1, st));
	REQUIRE(word_at(*b + 4 * MIB - 4, st) == 0x22222222);
	return a == *b && word_at(*b, st) == 0x11111111;
}

static bool kept(CUmemoryPool pool, CUstream st)
{
	CUdeviceptr a;

	CK(cuMemAllocAsync(&a, 4 * MIB, st));
	CK(cuMemFreeAsync(a, st));
	CK(cuStreamSynchronize(st));
	return get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 4 * MIB;
}

/*
 * A stream may have again at once the memory that it has freed, with what was queued in
 * between. A pool may lose at any moment what it only keeps, to somebody who needs it, so
 * the reuse is seen at one of several tries.
 */
static void reuse(CUmemoryPool pool, CUstream st)
{
	CUdeviceptr b, base;
	CUmemoryPool of = NULL;
	size_t size;
	int tries = 20;

	CK(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
	while (!reused(st, &b)) {
		REQUIRE(--tries);
		CK(cuMemFree(b));
	}
	CK(cuMemGetAddressRange(&base, &size, b + 5));
	REQUIRE(base == b && size == 4 * MIB);
	CK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, b));
	REQUIRE(of == pool);
	EXPECT(cuMemFreeAsync(b + 512, st), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(b));
	EXPECT(cuMemFreeAsync(b, st), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree(b), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemGetAddressRange(&base, &size, b), CUDA_ERROR_NOT_FOUND);
	while (!kept(pool, st))
		REQUIRE(--tries);
	CK(cuMemPoolTrimTo(pool, 0));
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	CK(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0));

	/* of no pool */
	CK(cuMemAlloc(&b, MIB));
	CK(cuMemsetD32Async(b, 1, MIB / 4, st));
	CK(cuMemFreeAsync(b, st));
	CK(cuStreamSynchronize(st));
	EXPECT(cuMemFree(b), CUDA_ERROR_INVALID_VALUE);
}

static void own_pool(CUmemoryPool standard, CUstream st)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUmemoryPool pool, now;
	CUdeviceptr a;
	unsigned long long others = get(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	int flag = 7;

	CK(cuMemPoolCreate(&pool, &props));
	CK(cuDeviceGetMemPool(&now, 0));
	REQUIRE(now == standard);
	CK(cuDeviceSetMemPool(0, pool));
	CK(cuDeviceGetMemPool(&now, 0));
	REQUIRE(now == pool);
	CK(cuMemPoolGetAccess(&access, pool, &device));
	REQUIRE(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
	REQUIRE(flag == 1);
	CK(cuMemAllocAsync(&a, 3 * MIB, st));
	REQUIRE(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 3 * MIB);
	REQUIRE(get(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == others);
	CK(cuMemPoolDestroy(pool));
	CK(cuDeviceGetMemPool(&now, 0));
	REQUIRE(now == standard);
	CK(cuMemsetD8Async(a, 1, 3 * MIB, st)); /* it lives on */
	CK(cuMemFreeAsync(a, st));
	CK(cuStreamSynchronize(st));
	EXPECT(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
}

/* Freed in one stream, used in another after it has waited: all through an event. */
static void two_streams(CUstream st)
{
	CUdeviceptr a, b;
	CUstream other;
	CUevent ev;

	CK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 1; i <= 50; i++) {
		CK(cuMemAllocAsync(&a, 2 * MIB, st));
		CK(cuMemAllocAsync(&b, 2 * MIB, other));
		REQUIRE(a != b);
		CK(cuMemsetD32Async(a, i, MIB / 2, st));
		CK(cuMemsetD32Async(b, 0, MIB / 2, other));
		CK(cuEventRecord(ev, st));
		CK(cuStreamWaitEvent(other, ev, 0));
		CK(cuMemcpyDtoDAsync(b, a, 2 * MIB, other));
		CK(cuMemFreeAsync(a, other));
		REQUIRE(word_at(b + 2 * MIB - 4, other) == i);
		CK(cuMemFreeAsync(b, other));
	}
	CK(cuEventDestroy(ev));
	CK(cuStreamDestroy(other));
	CK(cuCtxSynchronize());
}

/* Threads with a stream each take from one pool: nobody sees another's values. */
static CUcontext shared;

static void *one_thread(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, seed = me;
	CUdeviceptr p[8] = {0};
	size_t words[8];
	CUstream st;

	CK(cuCtxSetCurrent(shared));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 300; i++) {
		unsigned k = (unsigned)rand_r(&seed) % 8;

		if (p[k]) {
			REQUIRE(word_at(p[k] + 4 * (words[k] - 1), st) == (me << 8 | k));
			CK(cuMemFreeAsync(p[k], st));
			p[k] = 0;
			continue;
		}
		words[k] = 1 + (unsigned)rand_r(&seed) % (200 << 10);
		CK(cuMemAllocAsync(&p[k], 4 * words[k], st));
		CK(cuMemsetD32Async(p[k], me << 8 | k, words[k], st));
	}
	for (unsigned k = 0; k < 8; k++)
		CK(cuMemFreeAsync(p[k], st));
	CK(cuStreamSynchronize(st));
	CK(cuStreamDestroy(st));
	return NULL;
}

static void threads(CUcontext ctx)
{
	pthread_t t[6];

	shared = ctx;
	for (unsigned i = 0; i < 6; i++)
		REQUIRE(!pthread_create(&t[i], NULL, one_thread,
					(void *)(uintptr_t)(i + 1)));
	for (unsigned i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
}

int main(void)
{
	CUmemoryPool pool, again;
	CUcontext ctx;
	CUstream st;
	size_t before, after, total;

	check_name = "drv_pool";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuDeviceGetDefaultMemPool(&pool, 0));
	CK(cuDeviceGetMemPool(&again, 0));
	REQUIRE(pool == again);
	CK(cuMemGetInfo(&before, &total));
	numbers(pool, st);
	reuse(pool, st);
	own_pool(pool, st);
	two_streams(st);
	threads(ctx);
	CK(cuMemPoolTrimTo(pool, 0));
	CK(cuMemGetInfo(&after, &total));
	REQUIRE(after + 64 * MIB >= before); /* a driver keeps some for itself */
	CK(cuStreamDestroy(st));
	return pass();
}
