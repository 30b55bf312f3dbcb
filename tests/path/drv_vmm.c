/* SPDX-License-Identifier: Apache-2.0 */
/* Reserve, create, map, set access, unmap: one physical allocation seen at two addresses.
 * */
#include <unistd.h>

#include "driver.h"

/* One more handle for the same memory: through a descriptor, and from an address. */
static void handles(size_t gran)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc rw = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
			       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h, same, plain;
	CUmemAllocationProp got;
	unsigned v = 0;
	CUdeviceptr va;
	int fd = -1;

	CK(cuMemAddressReserve(&va, 4 * gran, 0, 0, 0));
	CK(cuMemCreate(&h, 2 * gran, &prop, 0));
	EXPECT(cuMemMap(va, gran, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT(cuMemMap(va, gran, gran, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	CK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					0));
	REQUIRE(fd >= 0);
	CK(cuMemImportFromShareableHandle(&same, (void *)(uintptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	REQUIRE(same != h);
	CK(cuMemMap(va, 2 * gran, 0, h, 0));
	CK(cuMemMap(va + 2 * gran, 2 * gran, 0, same, 0));
	CK(cuMemSetAccess(va, 4 * gran, &rw, 1));
	CK(cuMemsetD32(va + gran, 77, gran / 4));
	CK(cuMemcpyDtoH(&v, va + 3 * gran + 8, 4));
	REQUIRE(v == 77);
	CK(cuMemRelease(same));
	CK(cuMemUnmap(va + 2 * gran, 2 * gran));
	CK(cuMemRelease(h));
	CK(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)(va + gran + 5)));
	CK(cuMemGetAllocationPropertiesFromHandle(&got, h));
	REQUIRE(got.type == prop.type && got.location.type == prop.location.type);
	CK(cuMemUnmap(va, 2 * gran));
	CK(cuMemMap(va, 2 * gran, 0, h, 0));
	CK(cuMemSetAccess(va, 2 * gran, &rw, 1));
	CK(cuMemcpyDtoH(&v, va + gran + 8, 4));
	REQUIRE(v == 77);
	CK(cuMemUnmap(va, 2 * gran));
	CK(cuMemRelease(h));
	EXPECT(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)va),
	       CUDA_ERROR_INVALID_VALUE);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
	EXPECT(cuMemCreate(&plain, gran, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC; /* without its channels */
	EXPECT(cuMemCreate(&plain, gran, &prop, 0), CUDA_ERROR_NOT_PERMITTED);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	CK(cuMemCreate(&plain, gran, &prop, 0));
	EXPECT(cuMemExportToShareableHandle(&fd, plain,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemImportFromShareableHandle(&same, (void *)(uintptr_t)0,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuMemRelease(plain));
	CK(cuMemAddressFree(va, 4 * gran));
	close(fd);
}

/* Compression is a wish: what became of it is told, and kept for later handles. */
static void compressible(CUdevice dev, size_t gran)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc rw = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
			       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp got, later;
	int supported = -1;
	unsigned v = 0;
	CUdeviceptr va;

	CK(cuDeviceGetAttribute(&supported,
				CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, dev));
	REQUIRE(supported == 0 || supported == 1);
	prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	CK(cuMemCreate(&h, gran, &prop, 0));
	CK(cuMemGetAllocationPropertiesFromHandle(&got, h));
	REQUIRE(got.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_NONE ||
		(supported &&
		 got.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_GENERIC));
	CK(cuMemAddressReserve(&va, gran, 0, 0, 0));
	CK(cuMemMap(va, gran, 0, h, 0));
	CK(cuMemSetAccess(va, gran, &rw, 1));
	CK(cuMemsetD32(va, 0x51515151, gran / 4));
	CK(cuMemcpyDtoH(&v, va + gran - 4, 4));
	REQUIRE(v == 0x51515151);
	CK(cuMemRelease(h));
	CK(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)va));
	CK(cuMemGetAllocationPropertiesFromHandle(&later, h));
	REQUIRE(later.allocFlags.compressionType == got.allocFlags.compressionType);
	CK(cuMemUnmap(va, gran));
	CK(cuMemRelease(h));
	CK(cuMemAddressFree(va, gran));
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc rw = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
			       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h[2];
	CUdeviceptr va;
	size_t gran;
	unsigned v = 0;

	check_name = "drv_vmm";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuMemGetAllocationGranularity(&gran, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	REQUIRE(gran >= 4096 && (gran & (gran - 1)) == 0);
	CK(cuMemAddressReserve(&va, 4 * gran, 0, 0, 0));
	CK(cuMemCreate(&h[0], gran, &prop, 0));
	CK(cuMemCreate(&h[1], gran, &prop, 0));
	EXPECT(cuMemCreate(&h[1], gran + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(&h[1], 1ull << 45, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CK(cuMemMap(va, gran, 0, h[0], 0));
	EXPECT(cuMemMap(va, gran, 0, h[1], 0), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemMap(va + gran, gran, 0, h[1], 0));
	CK(cuMemSetAccess(va, 2 * gran, &rw, 1));
	CK(cuMemsetD32(va, 0x11111111, gran / 4));
	CK(cuMemsetD32(va + gran, 0x22222222, gran / 4));
	CK(cuMemcpyDtoH(&v, va + gran - 4, 4));
	REQUIRE(v == 0x11111111);
	CK(cuMemcpyDtoH(&v, va + gran, 4));
	REQUIRE(v == 0x22222222);
	/* the memory moves to another address with what it holds */
	CK(cuMemUnmap(va, gran));
	EXPECT(cuMemcpyDtoH(&v, va, 4), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemMap(va + 3 * gran, gran, 0, h[0], 0));
	CK(cuMemSetAccess(va + 3 * gran, gran, &rw, 1));
	CK(cuMemcpyDtoH(&v, va + 3 * gran, 4));
	REQUIRE(v == 0x11111111);
	CK(cuMemUnmap(va + gran, gran));
	CK(cuMemUnmap(va + 3 * gran, gran));
	CK(cuMemRelease(h[0]));
	CK(cuMemRelease(h[1]));
	EXPECT(cuMemRelease(h[0]), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemAddressFree(va, 4 * gran));
	handles(gran);
	compressible(dev, gran);
	CK(cuCtxDestroy(ctx));
	return pass();
}
