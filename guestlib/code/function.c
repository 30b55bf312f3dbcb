// SPDX-License-Identifier: Apache-2.0
/* Functions: answered from what came when the function was looked up. */
#include "calls.h"
#include "object/context.h"
#include "code/module.h"
#include "core/process.h"

/* A function, or a kernel that stands for one. */
static CUresult function(CUfunction func, struct guest_func **ret_f)
{
	CUresult r = guest_gate();

	if (r == CUDA_SUCCESS)
		r = guest_sticky();
	if (r)
		return r;
	*ret_f = func_lookup(func);
	return *ret_f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult func_param_info(struct guest_func *f, size_t index, size_t *ret_offset,
			 size_t *ret_size)
{
	if (!ret_offset || index >= f->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = f->params[index].offset;
	if (ret_size)
		*ret_size = f->params[index].size;
	return CUDA_SUCCESS;
}

/* Setting it to what it is changes nothing, and cannot fail. */
static bool has_value(struct guest_func *f, CUfunction_attribute attr, int value)
{
	return (attr == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
		attr == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
		attr == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) &&
	       func_attribute(f, attr) == value;
}

/* Libraries call it before each launch with shared memory, with one value. */
CUresult func_set_attribute(struct guest_func *f, CUfunction_attribute attr, int value)
{
	const struct func_set_attribute_rep *rep;
	struct func_set_attribute_cmd *cmd;
	struct guest_thread *t;
	struct lane_reply reply;
	CUresult r = guest_enter(NEED_INIT, &t);
	unsigned i;

	if (r)
		return r;
	if ((unsigned)attr >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_value(f, attr, value))
		return guest_sticky();
	cmd = begin_func_set_attribute(t);
	if (!cmd)
		return guest_lost(t);
	cmd->func = f->handle;
	cmd->attribute = (uint32_t)attr;
	cmd->value = value;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	for (i = 0; i < FUNC_OCCUPANCY; i++)
		atomic_store_explicit(&f->occupancy[i], 0, memory_order_relaxed);
	atomic_store_explicit(&f->taken_cluster, 0, memory_order_relaxed);
	for (i = 0; i < FUNC_ATTRIBUTES; i++)
		atomic_store_explicit(&f->attributes[i], rep->all[i],
				      memory_order_relaxed);
	return CUDA_SUCCESS;
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
