/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: answered from what came when the function was looked up. */
#include "core/process.h"
#include "code/module.h"

/* A function, or a kernel that stands for one. */
static CUresult function(CUfunction func, struct guest_func **ret_f)
{
	CUresult r = guest_status();

	if (r == CUDA_SUCCESS)
		r = guest_sticky();
	if (r)
		return r;
	*ret_f = func_lookup(func);
	return *ret_f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attr,
				    CUfunction func)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	if (!value || (unsigned)attr >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = func_attribute(f, attr);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction func, CUfunction_attribute attr, int value)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	return r ? r : func_set_attribute(f, attr, value);
}

/* Preferences that devices since compute capability 7 do not need. */
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction func, CUfunc_cache config)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
							     : CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction func, CUsharedconfig config)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *module, CUfunction func)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	*module = (CUmodule)(uintptr_t)f->module->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction func)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = f->name;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t index, size_t *offset,
				    size_t *size)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	return r ? r : func_param_info(f, index, offset, size);
}

/* Modules are loaded whole: a function that exists is loaded. */
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction func)
{
	struct guest_func *f;
	CUresult r = function(func, &f);

	if (r)
		return r;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction func)
{
	struct guest_func *f;

	return function(func, &f);
}
