/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and their functions. */
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "object/context.h"
#include "code/module.h"

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
	return module_load_image(module, image, SIZE_MAX, 0, NULL, NULL);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image,
				    unsigned int n_options, CUjit_option *options,
				    void **values)
{
	return module_load_image(module, image, SIZE_MAX, n_options, options, values);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return module_load_image(module, image, SIZE_MAX, 0, NULL, NULL);
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *path)
{
	_cleanup_free_ void *data = NULL;
	struct guest_thread *t;
	size_t size;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!module || !path)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_read_file(path, &data, &size);
	return r ? r : module_load_image(module, data, size, 0, NULL, NULL);
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
	struct guest_module *m;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_ANY, &t);

	if (r)
		return r;
	if (guest_handle_valid((uintptr_t)module, HANDLE_LIBRARY))
		return CUDA_ERROR_NOT_PERMITTED; /* the library owns it */
	m = guest_object((uintptr_t)module, HANDLE_MODULE);
	return m ? module_unload(t, m) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *func, CUmodule module, const char *name)
{
	struct guest_module *m;
	struct guest_func *f;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_ANY, &t);

	if (r)
		return r;
	if (!func || !name)
		return CUDA_ERROR_INVALID_VALUE;
	m = module_lookup((uintptr_t)module);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	r = module_need(m);
	if (r == CUDA_SUCCESS)
		r = module_get_func(t, m, HANDLE_FUNCTION, name, &f);
	if (r == CUDA_SUCCESS)
		*func = (CUfunction)(uintptr_t)f->handle;
	return r;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
	struct guest_module *m;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	m = module_lookup((uintptr_t)module);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_need(m);
	if (r)
		return r;
	*count = m->function_count;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int n,
					    CUmodule module)
{
	struct guest_module *m;
	struct guest_func *f;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);
	unsigned i;

	if (r)
		return r;
	m = module_lookup((uintptr_t)module);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!functions || !n)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_need(m);
	if (r)
		return r;
	for (i = 0; i < n && i < m->function_count; i++) {
		r = module_get_func_at(t, m, HANDLE_FUNCTION, i, &f);
		if (r)
			return r;
		functions[i] = (CUfunction)(uintptr_t)f->handle;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *value;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	value = getenv("CUDA_MODULE_LOADING");
	*mode = value && strcmp(value, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
						     : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
