/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching as before CUDA 4.0: a function keeps its block shape and parameters between
 * calls. The state is made at the first such call; it lives as long as the function. (As
 * with the driver, two threads that set up one function at once get a mixture.)
 */
#include <stdlib.h>
#include <string.h>

#include "object/context.h"
#include "code/launch.h"
#include "code/module.h"

struct func_old {
	unsigned block[3], shared_bytes, size;
	uint8_t params[GUEST_PARAMS_MAX];
};

static CUresult get(CUfunction func, struct guest_func **ret_f)
{
	CUresult r = ctx_check_current();
	struct guest_func *f;

	if (r)
		return r;
	f = func_lookup(func);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&f->module->lock);
	if (!f->old)
		f->old = calloc(1, sizeof(*f->old));
	pthread_mutex_unlock(&f->module->lock);
	*ret_f = f;
	return f->old ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuFuncSetBlockShape(CUfunction func, int x, int y, int z)
{
	struct guest_func *f;
	CUresult r = get(func, &f);

	if (r)
		return r;
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	f->old->block[0] = (unsigned)x;
	f->old->block[1] = (unsigned)y;
	f->old->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetSharedSize(CUfunction func, unsigned int bytes)
{
	struct guest_func *f;
	CUresult r = get(func, &f);

	if (r == CUDA_SUCCESS)
		f->old->shared_bytes = bytes;
	return r;
}

CUresult CUDAAPI cuParamSetSize(CUfunction func, unsigned int bytes)
{
	struct guest_func *f;
	CUresult r = get(func, &f);

	if (r)
		return r;
	if (bytes > GUEST_PARAMS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	f->old->size = bytes;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuParamSetv(CUfunction func, int offset, void *ptr, unsigned int bytes)
{
	struct guest_func *f;
	CUresult r = get(func, &f);

	if (r)
		return r;
	if (offset < 0 || !ptr || bytes > GUEST_PARAMS_MAX ||
	    (unsigned)offset > GUEST_PARAMS_MAX - bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(f->old->params + offset, ptr, bytes);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuParamSeti(CUfunction func, int offset, unsigned int value)
{
	return cuParamSetv(func, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuParamSetf(CUfunction func, int offset, float value)
{
	return cuParamSetv(func, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction func, int width, int height,
				   CUstream stream)
{
	struct guest_func *f;
	CUresult r = get(func, &f);
	size_t size;

	if (r)
		return r;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	size = f->old->size;
	struct launch l = {
		.func = func,
		.grid = {(unsigned)width, (unsigned)height, 1},
		.block = {f->old->block[0], f->old->block[1], f->old->block[2]},
		.shared_bytes = f->old->shared_bytes,
		.stream = stream};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, f->old->params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

	l.extra = extra;
	return launch_do(&l);
}

CUresult CUDAAPI cuLaunchGrid(CUfunction func, int width, int height)
{
	return cuLaunchGridAsync(func, width, height, NULL);
}

CUresult CUDAAPI cuLaunch(CUfunction func)
{
	return cuLaunchGrid(func, 1, 1);
}
