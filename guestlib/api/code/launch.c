/* SPDX-License-Identifier: Apache-2.0 */
/* Launches, plain, cooperative and with attributes. */
#include "code/launch.h"

static CUresult launch_plain(CUfunction func, const unsigned dims[6], unsigned shared,
			     CUstream stream, bool ptsz, void **params, void **extra)
{
	struct launch l = {.func = func,
			   .grid = {dims[0], dims[1], dims[2]},
			   .block = {dims[3], dims[4], dims[5]},
			   .shared_bytes = shared,
			   .stream = stream,
			   .ptsz = ptsz,
			   .params = params,
			   .extra = extra};

	return launch_do(&l);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy,
				unsigned int gz, unsigned int bx, unsigned int by,
				unsigned int bz, unsigned int shared, CUstream stream,
				void **params, void **extra)
{
	const unsigned dims[6] = {gx, gy, gz, bx, by, bz};

	return launch_plain(f, dims, shared, stream, false, params, extra);
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
				     unsigned int gz, unsigned int bx, unsigned int by,
				     unsigned int bz, unsigned int shared,
				     CUstream stream, void **params, void **extra)
{
	const unsigned dims[6] = {gx, gy, gz, bx, by, bz};

	return launch_plain(f, dims, shared, stream, true, params, extra);
}

/* On one device: a cooperative launch in a stream of its own, as it always had to be. */
CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list,
						      unsigned int n, unsigned int flags)
{
	const unsigned all = CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
			     CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC;
	struct launch l = {.cooperative = true};

	if (!list || n != 1 || (flags & ~all))
		return CUDA_ERROR_INVALID_VALUE;
	if (!list->hStream || list->hStream == CU_STREAM_LEGACY ||
	    list->hStream == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE; /* as an H200 has it */
	l.func = list->function;
	l.grid[0] = list->gridDimX;
	l.grid[1] = list->gridDimY;
	l.grid[2] = list->gridDimZ;
	l.block[0] = list->blockDimX;
	l.block[1] = list->blockDimY;
	l.block[2] = list->blockDimZ;
	l.shared_bytes = list->sharedMemBytes;
	l.stream = list->hStream;
	l.params = list->kernelParams;
	return launch_do(&l);
}

static CUresult launch_coop(CUfunction func, const unsigned dims[6], unsigned shared,
			    CUstream stream, bool ptsz, void **params)
{
	struct launch l = {.func = func,
			   .grid = {dims[0], dims[1], dims[2]},
			   .block = {dims[3], dims[4], dims[5]},
			   .shared_bytes = shared,
			   .stream = stream,
			   .ptsz = ptsz,
			   .cooperative = true,
			   .params = params};

	return launch_do(&l);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy,
					   unsigned int gz, unsigned int bx,
					   unsigned int by, unsigned int bz,
					   unsigned int shared, CUstream stream,
					   void **params)
{
	const unsigned dims[6] = {gx, gy, gz, bx, by, bz};

	return launch_coop(f, dims, shared, stream, false, params);
}

CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx,
						unsigned int gy, unsigned int gz,
						unsigned int bx, unsigned int by,
						unsigned int bz, unsigned int shared,
						CUstream stream, void **params)
{
	const unsigned dims[6] = {gx, gy, gz, bx, by, bz};

	return launch_coop(f, dims, shared, stream, true, params);
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction func, void **params,
			  void **extra, bool ptsz)
{
	struct launch l = {.func = func, .params = params, .extra = extra, .ptsz = ptsz};
	struct launch_attrs attrs;
	CUresult r = launch_parse_config(config, &l, &attrs);

	return r ? r : launch_do(&l);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
				  void **params, void **extra)
{
	return launch_ex(config, f, params, extra, false);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
				       void **params, void **extra)
{
	return launch_ex(config, f, params, extra, true);
}
