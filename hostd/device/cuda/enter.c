/* SPDX-License-Identifier: Apache-2.0 */
/* The context that a thread's calls go to, and what a context was lost with. */
#include "device/cuda/device.h"

/* The context that is current on this thread, by its id: handles are reused, ids not. */
static _Thread_local uint64_t current_ctx;

CUresult cuda_enter(struct dev_ctx *ctx)
{
	CUresult res = (CUresult)atomic_load_explicit(&ctx->status, memory_order_relaxed);

	if (res || current_ctx == ctx->id)
		return res;
	res = cu.cuCtxSetCurrent(ctx->cu);
	current_ctx = res ? 0 : ctx->id;
	return cuda_note(ctx, res);
}

void cuda_leave(void)
{
	current_ctx = 0;
}

/* Errors after which the driver gives the same answer to everything. */
static bool is_sticky(CUresult res)
{
	switch (res) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_EXTERNAL_DEVICE:
	case CUDA_ERROR_MPS_CONNECTION_FAILED:
	case CUDA_ERROR_MPS_RPC_FAILURE:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
		return true;
	default:
		return false;
	}
}

CUresult cuda_note(struct dev_ctx *ctx, CUresult res)
{
	int none = CUDA_SUCCESS;

	if (unlikely(is_sticky(res)))
		atomic_compare_exchange_strong(&ctx->status, &none, (int)res);
	return res;
}
