/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of one process and allocations from it used by another: what both see, what an
 * imported pool cannot do, freeing in either order, wrong data.
 */
#include "peer.h"

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define WORDS    (1u << 20)

static void wrong_data(CUmemoryPool pool, const CUmemPoolPtrExportData *d)
{
	CUmemPoolPtrExportData bad;
	CUmemoryPool own;
	CUdeviceptr p;

	memset(&bad, 0, sizeof(bad));
	REQUIRE(cuMemPoolImportPointer(&p, pool, &bad) != CUDA_SUCCESS);
	bad = *d;
	EXPECT(cuMemPoolImportPointer(NULL, pool, &bad), CUDA_ERROR_INVALID_VALUE);
	CK(cuDeviceGetDefaultMemPool(&own, 0));
	EXPECT(cuMemPoolImportPointer(&p, own, &bad), CUDA_ERROR_INVALID_VALUE);
}

static void imported_pool(CUmemoryPool pool)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	CUmemAccessDesc rw = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAccess_flags access = 0;
	CUdeviceptr p;

	EXPECT(cuMemAllocFromPoolAsync(&p, 64, pool, NULL), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemPoolSetAccess(pool, &rw, 1));
	CK(cuMemPoolGetAccess(&access, pool, &here));
	REQUIRE(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static int consumer(void)
{
	CUmemPoolPtrExportData first, second;
	CUdeviceptr a, b, own;
	CUmemoryPool pool;
	CUstream st;
	int fd;

	start();
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	fd = receive_fd();
	CK(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, POSIX_FD, 0));
	close(fd);
	imported_pool(pool);
	hear(&first, sizeof(first));
	hear(&second, sizeof(second));
	wrong_data(pool, &first);
	CK(cuMemPoolImportPointer(&a, pool, &first));
	CK(cuMemPoolImportPointer(&b, pool, &second));
	REQUIRE(word_at(a) == 0x11111111 && word_at(a + 4 * WORDS - 4) == 0x11111111);
	REQUIRE(word_at(b) == 0x22222222);
	CK(cuMemsetD32Async(a, 0x33333333, WORDS, st));
	CK(cuMemFreeAsync(a, st)); /* behind what was queued */
	CK(cuStreamSynchronize(st));
	EXPECT(cuMemcpyDtoH(&fd, a, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFreeAsync(a, st), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemsetD32(b, 0x44444444, 4));
	CK(cuCtxSynchronize());
	step('w');
	expect_step('d'); /* freed by its maker, and its pool destroyed */
	REQUIRE(word_at(b) == 0x44444444);
	CK(cuMemFree(b));
	EXPECT(cuMemFree(b), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolImportPointer(&b, pool, &second), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemPoolDestroy(pool));
	EXPECT(cuMemPoolImportPointer(&b, pool, &second), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemAllocAsync(&own, 4096, st)); /* all is well here */
	CK(cuMemFreeAsync(own, st));
	CK(cuStreamSynchronize(st));
	return 0;
}

static void refused(CUmemoryPool exportable)
{
	CUmemPoolPtrExportData d;
	CUmemoryPool plain, pool;
	CUdeviceptr p, q;
	int fd;

	CK(cuDeviceGetDefaultMemPool(&plain, 0));
	EXPECT(cuMemPoolExportToShareableHandle(&fd, plain, POSIX_FD, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportToShareableHandle(&fd, exportable, POSIX_FD, 1),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemAllocAsync(&p, 64, NULL));
	CK(cuMemAlloc(&q, 64));
	EXPECT(cuMemPoolExportPointer(&d, p), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportPointer(&d, q), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolExportPointer(&d, (CUdeviceptr)(uintptr_t)&d),
	       CUDA_ERROR_INVALID_VALUE);
	REQUIRE(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)peer,
						   POSIX_FD, 0) != CUDA_SUCCESS);
	CK(cuMemFree(q));
	CK(cuMemFree(p));
}

int main(int argc, char **argv)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = POSIX_FD,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemPoolPtrExportData first, second;
	CUmemoryPool pool;
	CUdeviceptr a, b, c;
	int fd = -1, types = 0;
	pid_t pid;

	check_name = "drv_pool_ipc";
	alarm(60);
	if (is_consumer(argc, argv))
		return consumer();
	pid = run_consumer();
	start();
	CK(cuDeviceGetAttribute(&types,
				CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	REQUIRE(types & POSIX_FD);
	CK(cuMemPoolCreate(&pool, &props));
	refused(pool);
	CK(cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FD, 0));
	send_fd(fd);
	close(fd);
	CK(cuMemAllocFromPoolAsync(&c, 1000, pool, NULL));
	CK(cuMemAllocFromPoolAsync(&a, 4 * WORDS, pool, NULL));
	CK(cuMemAllocFromPoolAsync(&b, 64, pool, NULL));
	CK(cuMemsetD32(c, 0x55555555, 250));
	CK(cuMemsetD32(a, 0x11111111, WORDS));
	CK(cuMemsetD32(b, 0x22222222, 16));
	CK(cuCtxSynchronize());
	CK(cuMemPoolExportPointer(&first, a));
	CK(cuMemPoolExportPointer(&second, b));
	REQUIRE(word_at(a) == 0x11111111 && word_at(b) == 0x22222222);
	say(&first, sizeof(first));
	say(&second, sizeof(second));
	expect_step('w');
	REQUIRE(word_at(a) == 0x33333333 && word_at(a + 4 * WORDS - 4) == 0x33333333);
	REQUIRE(word_at(b) == 0x44444444 && word_at(c) == 0x55555555);
	CK(cuMemFreeAsync(a, NULL));
	CK(cuMemFree(b));
	CK(cuMemFree(c));
	CK(cuMemPoolDestroy(pool));
	CK(cuCtxSynchronize());
	step('d');
	consumer_ended(pid);
	return pass();
}
