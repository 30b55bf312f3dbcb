/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion of a stream's work, told by the device: behind the work it writes a word of
 * memory that the guest looks at. Else the driver, in this process, looks at a word of its
 * own, and the guest at another that this process writes then. Launch and wait on an H200
 * through two threads, driver 580: 9.6 us with the driver's waiting in between, 8.5 with a
 * word that the device writes, 8.5 natively (hostd/doc/decisions/0020).
 *
 * #syscalls: ioctl
 */
#include "base/clock.h"
#include "device/cuda/output.h"
#include "device/cuda/stream.h"

#define PAGE 4096ull
/* Looking costs the driver nothing; beyond that it waits as it likes to, and finds what
 * has failed. */
#define LOOK_NS (50 * NSEC_PER_USEC)
#define LOOKS   16 /* between two looks at the clock */

/* The page that the thread's words lay in last, and in which context that was known. */
static _Thread_local struct {
	uint64_t ctx; /* id */
	uintptr_t page;
} last;

static CUresult page_register(struct dev_ctx *ctx, uintptr_t page)
{
	CUdeviceptr addr = 0;
	CUresult res;

	res = cu.cuMemHostRegister((void *)page, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP);
	if (res)
		return res;
	res = cu.cuMemHostGetDevicePointer(&addr, (void *)page, 0);
	if (!res && addr != page)
		res = CUDA_ERROR_NOT_SUPPORTED;
	if (!res && range_insert(&ctx->pages, page, PAGE, NULL) < 0)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res)
		cu.cuMemHostUnregister((void *)page);
	return res;
}

/* The device can write to the page from now on. */
static CUresult page_know(struct dev_ctx *ctx, uintptr_t page)
{
	CUresult res = CUDA_SUCCESS;

	if (last.ctx == ctx->id && last.page == page)
		return res;
	scoped_lock(&ctx->dev->making);
	if (!range_at(&ctx->pages, page))
		res = page_register(ctx, page);
	if (!res) {
		last.ctx = ctx->id;
		last.page = page;
	}
	return res;
}

void cuda_completion_drop(struct dev_ctx *ctx)
{
	for (const struct range *r = range_above(&ctx->pages, 0); r;
	     r = range_next(&ctx->pages, r))
		cu.cuMemHostUnregister((void *)(uintptr_t)r->start);
	range_fini(&ctx->pages);
}

static bool is_stored(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t until = clock_now_ns() + LOOK_NS;

	do {
		for (unsigned i = 0; i < LOOKS; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) == value)
				return true;
			cpu_relax();
		}
	} while (clock_now_ns() < until);
	return false;
}

CUresult cuda_stream_synchronize_to(struct dev_ctx *ctx, struct dev_stream *st,
				    _Atomic uint64_t *word, uint64_t value)
{
	uintptr_t at = (uintptr_t)word;
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	/* The driver hands on what was printed when it waits itself. */
	if (!ctx->dev->writes_words ||
	    atomic_load_explicit(&ctx->may_print, memory_order_relaxed) ||
	    page_know(ctx, at - at % PAGE))
		return CUDA_ERROR_NOT_SUPPORTED;
	res = cu.cuStreamWriteValue64(cuda_stream_of(st), at, value, 0);
	if (!res && !is_stored(word, value))
		res = cu.cuStreamSynchronize(cuda_stream_of(st));
	return cuda_note(ctx, res);
}
