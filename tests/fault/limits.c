/* SPDX-License-Identifier: Apache-2.0 */
/* Calls what hostd/doc/limits.md says is not there, and prints what each answers. */
#include <cuda.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1u << 21)

static void say(const char *name, CUresult r)
{
	const char *text = "?";

	cuGetErrorName(r, &text);
	printf("%s %s\n", name, text);
}

#define SAY(name, call) say(#name, call)

static CUdevice dev;
static int fd;

static void memory(void)
{
	CUmemAllocationProp fabric = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC};
	CUmemPoolProps host = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
	CUmemGenericAllocationHandle h;
	CUarrayMapInfo map;
	CUmemoryPool pool;
	CUdeviceptr p;
	int handle;
	void *file;

	memset(&map, 0, sizeof(map));
	SAY(cuMemCreate, cuMemCreate(&h, BYTES, &fabric, 0));
	SAY(cuMemPoolCreate, cuMemPoolCreate(&pool, &host));
	SAY(cuMemMapArrayAsync, cuMemMapArrayAsync(&map, 1, NULL));
	cuMemAlloc(&p, BYTES);
	SAY(cuMemGetHandleForAddressRange,
	    cuMemGetHandleForAddressRange(&handle, p, BYTES,
					  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	SAY(cuFlushGPUDirectRDMAWrites,
	    cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
				       CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	SAY(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync(NULL, 0, 0, NULL, NULL));
	/* Not a private mapping of nothing: what the device cannot share. */
	file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cuMemHostRegister(file, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP);
	SAY(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer(&p, file, 0));
}

static void others(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory_desc;
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC semaphore_desc;
	CUexternalSemaphore semaphore;
	CUexternalMemory memory;
	void *gl = NULL;

	memset(&memory_desc, 0, sizeof(memory_desc));
	memset(&semaphore_desc, 0, sizeof(semaphore_desc));
	memory_desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	memory_desc.size = BYTES;
	memory_desc.handle.fd = fd;
	semaphore_desc.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	semaphore_desc.handle.fd = fd;
	SAY(cuImportExternalMemory, cuImportExternalMemory(&memory, &memory_desc));
	SAY(cuImportExternalSemaphore,
	    cuImportExternalSemaphore(&semaphore, &semaphore_desc));
	/* By name, since the stub that programs link has it not. */
	cuGetProcAddress("cuGraphicsGLRegisterBuffer", &gl, CUDA_VERSION, 0, NULL);
	printf("cuGraphicsGLRegisterBuffer %s\n", gl ? "there" : "NULL");
}

static void contexts(void)
{
	CUcheckpointLockArgs lock;
	CUctxCreateParams params;
	CUctxCigParam cig;
	CUcontext ctx;

	memset(&params, 0, sizeof(params));
	memset(&cig, 0, sizeof(cig));
	memset(&lock, 0, sizeof(lock));
	params.cigParams = &cig;
	SAY(cuCtxCreate, cuCtxCreate(&ctx, &params, 0, dev));
	SAY(cuCheckpointProcessLock, cuCheckpointProcessLock(getpid(), &lock));
	SAY(cuDeviceRegisterAsyncNotification,
	    cuDeviceRegisterAsyncNotification(dev, NULL, NULL, NULL));
}

static void graphs(void)
{
	CUmulticastObjectProp prop;
	CUmemGenericAllocationHandle h;
	CUgraphExec exec;
	CUgraph g;

	memset(&prop, 0, sizeof(prop));
	cuGraphCreate(&g, 0);
	SAY(cuGraphInstantiate,
	    cuGraphInstantiate(&exec, g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	SAY(cuMulticastCreate, cuMulticastCreate(&h, &prop));
}

static void green(void)
{
	CUdevResource all, some;
	CUdevResourceDesc desc;
	unsigned groups = 1;
	CUstream stream;
	CUgreenCtx ctx;

	if (cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM) ||
	    cuDevSmResourceSplitByCount(&some, &groups, &all, NULL, 0, 2) ||
	    cuDevResourceGenerateDesc(&desc, &some, 1) ||
	    cuGreenCtxCreate(&ctx, desc, dev, CU_GREEN_CTX_DEFAULT_STREAM) ||
	    cuGreenCtxStreamCreate(&stream, ctx, CU_STREAM_NON_BLOCKING, 0))
		return;
	SAY(cuStreamBeginCapture,
	    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

int main(void)
{
	CUcontext ctx;
	int managed = -1, pageable = -1;

	if (cuInit(0) || cuDeviceGet(&dev, 0) || cuDevicePrimaryCtxRetain(&ctx, dev) ||
	    cuCtxSetCurrent(ctx))
		return 1;
	fd = open(".", O_TMPFILE | O_RDWR, 0600);
	if (fd < 0)
		fd = memfd_create("limits", 0);
	if (ftruncate(fd, BYTES) < 0)
		return 1;
	memory();
	others();
	contexts();
	green();
	graphs();
	cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, dev);
	cuDeviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, dev);
	printf("CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY %d\n", managed);
	printf("CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS %d\n", pageable);
	return 0;
}
