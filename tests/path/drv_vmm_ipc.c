/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory of one process mapped by another, through a descriptor that the program
 * passes over a socket: what one writes the other sees; the maker lets go first; memory
 * that is gone, and descriptors of other things.
 */
#include "peer.h"

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static size_t gran;

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = POSIX_FD,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};

static void begin(void)
{
	start();
	CK(cuMemGetAllocationGranularity(&gran, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void map(CUdeviceptr va, size_t size, CUmemGenericAllocationHandle h)
{
	CUmemAccessDesc rw = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	CK(cuMemMap(va, size, 0, h, 0));
	CK(cuMemSetAccess(va, size, &rw, 1));
}

static CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle h;

	CK(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, POSIX_FD));
	return h;
}

static int consumer(void)
{
	CUmemGenericAllocationHandle h, again;
	CUmemAllocationProp got;
	size_t before, after, total;
	CUdeviceptr va;
	int fd, pair[2];

	begin();
	fd = receive_fd();
	CK(cuMemAddressReserve(&va, 4 * gran, 0, 0, 0));
	CK(cuMemGetInfo(&before, &total));
	h = import(fd);
	again = import(fd);
	REQUIRE(h != again);
	CK(cuMemGetInfo(&after, &total));
	REQUIRE(before == after); /* it is paid for */
	CK(cuMemGetAllocationPropertiesFromHandle(&got, h));
	REQUIRE(got.type == prop.type && got.location.type == prop.location.type);
	EXPECT(cuMemMap(va, gran, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	map(va, 2 * gran, h);
	map(va + 2 * gran, 2 * gran, again);
	REQUIRE(word_at(va) == 0x11111111 && word_at(va + 2 * gran - 4) == 0x22222222);
	CK(cuMemsetD32(va + 2 * gran, 0x33333333, 16));
	CK(cuCtxSynchronize());
	REQUIRE(word_at(va) == 0x33333333);
	CK(cuMemRelease(h)); /* the mapping keeps it */
	CK(cuMemRelease(again));
	step('w');
	expect_step('r'); /* the maker has let go of it */
	REQUIRE(word_at(va + 2 * gran - 4) == 0x22222222);
	CK(cuMemUnmap(va + 2 * gran, 2 * gran));
	REQUIRE(word_at(va) == 0x33333333);
	CK(cuMemUnmap(va, 2 * gran));
	CK(cuMemAddressFree(va, 4 * gran));
	close(fd);

	/* a descriptor without memory behind it, and others that never had any */
	fd = receive_fd();
	step('i');
	expect_step('g');
	EXPECT(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, POSIX_FD),
	       CUDA_ERROR_INVALID_VALUE);
	close(fd);
	EXPECT(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, POSIX_FD),
	       CUDA_ERROR_INVALID_VALUE);
	REQUIRE(pipe(pair) == 0);
	EXPECT(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)pair[0], POSIX_FD),
	       CUDA_ERROR_INVALID_VALUE);
	return 0;
}

int main(int argc, char **argv)
{
	CUmemGenericAllocationHandle h, same;
	CUdeviceptr va;
	int fd = -1, twice = -1;
	pid_t pid;

	check_name = "drv_vmm_ipc";
	alarm(60);
	if (is_consumer(argc, argv))
		return consumer();
	pid = run_consumer();
	begin();
	CK(cuMemAddressReserve(&va, 4 * gran, 0, 0, 0));
	CK(cuMemCreate(&h, 2 * gran, &prop, 0));
	map(va, 2 * gran, h);
	map(va + 2 * gran, 2 * gran, h); /* seen at two addresses when it is shared */
	CK(cuMemsetD32(va, 0x11111111, gran / 4));
	CK(cuMemsetD32(va + gran, 0x22222222, gran / 4));
	CK(cuCtxSynchronize());
	CK(cuMemExportToShareableHandle(&fd, h, POSIX_FD, 0));
	CK(cuMemExportToShareableHandle(&twice, h, POSIX_FD, 0));
	REQUIRE(word_at(va + 2 * gran) == 0x11111111);
	send_fd(fd);
	expect_step('w');
	REQUIRE(word_at(va) == 0x33333333 && word_at(va + 2 * gran) == 0x33333333);
	same = import(twice); /* here it is the process's own */
	CK(cuMemUnmap(va, 4 * gran));
	map(va, 2 * gran, same);
	REQUIRE(word_at(va + 2 * gran - 4) == 0x22222222);
	CK(cuMemUnmap(va, 2 * gran));
	CK(cuMemRelease(same));
	CK(cuMemRelease(h));
	close(fd);
	close(twice);
	step('r');
	CK(cuMemCreate(&h, gran, &prop, 0));
	CK(cuMemExportToShareableHandle(&fd, h, POSIX_FD, 0));
	send_fd(fd);
	expect_step('i');
	CK(cuMemRelease(h));
	close(fd);
	step('g');
	consumer_ended(pid);
	CK(cuMemAddressFree(va, 4 * gran));
	return pass();
}
