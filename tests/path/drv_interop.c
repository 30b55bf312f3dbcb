/* SPDX-License-Identifier: Apache-2.0 */
/* Graphics and other drivers, where there are none: what a driver answers without a display. */
#include "driver.h"

int main(void)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC sem = {.type = 0};
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC mem = {.type = 0};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buf = {.size = 0};
	CUgraphicsResource g = NULL;
	CUexternalSemaphore s;
	CUmipmappedArray m;
	CUexternalMemory e;
	CUdeviceptr p;
	CUcontext ctx;
	CUdevice dev;
	CUarray a;
	size_t n;

	check_name = "drv_interop";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	EXPECT(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuGraphicsMapResources(0, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphicsMapResources(1, &g, 0), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuGraphicsUnmapResources(0, &g, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphicsUnmapResources(1, &g, 0), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuGraphicsSubResourceGetMappedArray(&a, NULL, 0, 0),
	       CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuGraphicsResourceGetMappedMipmappedArray(&m, NULL),
	       CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuGraphicsResourceGetMappedPointer(&p, &n, NULL),
	       CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuGraphicsResourceSetMapFlags(NULL, 0), CUDA_ERROR_INVALID_HANDLE);

	EXPECT(cuImportExternalMemory(&e, &mem), CUDA_ERROR_INVALID_VALUE);
	mem.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
	EXPECT(cuImportExternalMemory(&e, &mem), CUDA_ERROR_INVALID_VALUE);
	mem.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	mem.handle.fd = -1;
	mem.size = 65536;
	EXPECT(cuImportExternalMemory(&e, &mem), CUDA_ERROR_UNKNOWN);
	EXPECT(cuImportExternalMemory(NULL, &mem), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDestroyExternalMemory(NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuExternalMemoryGetMappedBuffer(&p, NULL, &buf), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuImportExternalSemaphore(&s, &sem), CUDA_ERROR_INVALID_VALUE);
	sem.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	sem.handle.fd = -1;
	EXPECT(cuImportExternalSemaphore(&s, &sem), CUDA_ERROR_UNKNOWN);
	EXPECT(cuDestroyExternalSemaphore(NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuSignalExternalSemaphoresAsync(NULL, NULL, 0, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuWaitExternalSemaphoresAsync(NULL, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);

	CK(cuDeviceGetTexture1DLinearMaxWidth(&n, CU_AD_FORMAT_FLOAT, 4, dev));
	REQUIRE(n == 1u << 28);
	CK(cuDeviceGetTexture1DLinearMaxWidth(&n, CU_AD_FORMAT_HALF, 1, dev));
	REQUIRE(n == 1u << 30);
	EXPECT(cuDeviceGetTexture1DLinearMaxWidth(&n, CU_AD_FORMAT_FLOAT, 3, dev),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuCtxDestroy(ctx));
	return pass();
}
