/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel of one thread that waits until it is told to end: the hardware gives the process
 * its slices, in which nobody else has the device.
 */
#include "device/cuda/device.h"
#include "device/cuda/filler.h"

static const char fill_ptx[] = ".version 6.4\n"
			       ".target sm_75\n"
			       ".address_size 64\n"
			       ".visible .entry fill(.param .u64 stop)\n"
			       "{\n"
			       ".reg .b32 %word;\n"
			       ".reg .b64 %at;\n"
			       ".reg .pred %end;\n"
			       "ld.param.u64 %at, [stop];\n"
			       "again:\n"
			       "ld.volatile.global.u32 %word, [%at];\n"
			       "setp.ne.u32 %end, %word, 0;\n"
			       "@%end ret;\n"
			       "nanosleep.u32 1000;\n"
			       "bra again;\n"
			       "}\n";

static struct {
	bool on;
	CUfunction fn; /* NULL: nothing is there yet */
	CUstream stream;
	volatile uint32_t *stop; /* the host's, which the kernel looks at */
	CUdeviceptr addr;
} filler;

static CUresult open_filler(void)
{
	void *word = NULL;
	CUmodule mod;
	CUfunction fn;
	CUresult res = cu.cuModuleLoadDataEx(&mod, fill_ptx, 0, NULL, NULL);

	if (!res)
		res = cu.cuModuleGetFunction(&fn, mod, "fill");
	if (!res)
		res = cu.cuMemHostAlloc(&word, sizeof(uint32_t),
					CU_MEMHOSTALLOC_DEVICEMAP);
	if (!res)
		res = cu.cuMemHostGetDevicePointer(&filler.addr, word, 0);
	if (!res)
		res = cu.cuStreamCreateWithPriority(&filler.stream,
						    CU_STREAM_NON_BLOCKING, 0);
	filler.stop = word;
	if (!res)
		filler.fn = fn;
	return res;
}

static CUresult start(void)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1};
	void *args[] = {&filler.addr};
	CUresult res = filler.fn ? CUDA_SUCCESS : open_filler();

	/* The one before has been told to end. */
	if (!res)
		res = cu.cuStreamSynchronize(filler.stream);
	if (res)
		return res;
	*filler.stop = 0;
	config.hStream = filler.stream;
	return cu.cuLaunchKernelEx(&config, filler.fn, args, NULL);
}

bool cuda_filler(struct dev_ctx *ctx, bool on)
{
	if (on == filler.on)
		return true;
	if (on && (cuda_enter(ctx) || start()))
		return false;
	if (!on)
		*filler.stop = 1;
	filler.on = on;
	return true;
}
