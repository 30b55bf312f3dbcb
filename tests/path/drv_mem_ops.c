/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on memory in stream order. */
#include "driver.h"

static unsigned read32(CUdeviceptr p)
{
	unsigned v = 0;

	CK(cuMemcpyDtoH(&v, p, 4));
	return v;
}

static void values(CUstream a, CUstream b, CUdeviceptr p)
{
	CUstreamBatchMemOpParams ops[3];
	unsigned long long wide = 0;

	/* b waits for what a writes, and says so in turn */
	CK(cuStreamWaitValue32(b, p, 7, CU_STREAM_WAIT_VALUE_EQ));
	CK(cuStreamWriteValue32(b, p + 4, 1, 0));
	REQUIRE(cuStreamQuery(b) == CUDA_ERROR_NOT_READY);
	CK(cuStreamWriteValue32(a, p, 7, 0));
	CK(cuStreamSynchronize(b));
	REQUIRE(read32(p) == 7 && read32(p + 4) == 1);
	CK(cuStreamWriteValue64(a, p + 8, 0x123456789abcull, 0));
	CK(cuStreamWaitValue64(a, p + 8, 0x123456789abcull, CU_STREAM_WAIT_VALUE_GEQ));
	CK(cuStreamSynchronize(a));
	CK(cuMemcpyDtoH(&wide, p + 8, 8));
	REQUIRE(wide == 0x123456789abcull);
	memset(ops, 0, sizeof(ops));
	ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = p + 16;
	ops[0].writeValue.value = 3;
	ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[1].waitValue.address = p;
	ops[1].waitValue.value = 1;
	ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
	ops[2].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	ops[2].writeValue.address = p + 24;
	ops[2].writeValue.value64 = 5;
	CK(cuStreamBatchMemOp(a, 3, ops, 0));
	CK(cuStreamSynchronize(a));
	REQUIRE(read32(p + 16) == 3 && read32(p + 24) == 5);
}

static void refusals(CUstream a, CUdeviceptr p)
{
	CUstreamBatchMemOpParams ops[1] = { { .operation = 77 } };

	EXPECT(cuStreamWriteValue32(a, 0x10, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamWriteValue32(a, p + 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamWaitValue32(a, p, 7, 77), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamBatchMemOp(a, 257, ops, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamBatchMemOp(a, 1, ops, 0), CUDA_ERROR_INVALID_VALUE);
	CK(cuStreamBatchMemOp(a, 0, ops, 0));
	CK(cuStreamSynchronize(a));
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	CUstream a, b;
	CUdeviceptr p;
	int has = 0;

	check_name = "drv_mem_ops";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	CK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&p, 4096));
	CK(cuMemsetD8(p, 0, 4096));
	CK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
				dev));
	REQUIRE(has);
	values(a, b, p);
	refusals(a, p);
	CK(cuCtxDestroy(ctx));
	return pass();
}
