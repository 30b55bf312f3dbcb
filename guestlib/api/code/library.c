/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries (code without a context) and their kernels. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "object/context.h"
#include "core/image.h"
#include "code/module.h"
#include "core/process.h"

static CUresult lookup(CUlibrary library, struct guest_module **ret_m)
{
	CUresult r = guest_status();

	if (r)
		return r;
	*ret_m = guest_object((uintptr_t)library, HANDLE_LIBRARY);
	return *ret_m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/*
 * The options of a library: who looks up host functions in it (nobody may know), and
 * whether the image stays readable until it is unloaded.
 */
static CUresult check_options(unsigned n, const CUlibraryOption *options, void **values,
			      bool *ret_preserved)
{
	unsigned i;

	*ret_preserved = false;
	if (n && !options)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		if ((unsigned)options[i] >= CU_LIBRARY_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
			*ret_preserved = values && values[i];
	}
	return CUDA_SUCCESS;
}

/* Text is compiled at once: its errors are those of the call. */
static bool is_text(const void *image)
{
	const void *data;
	size_t size;

	return image_part(image, SIZE_MAX, 0, &data, &size) == 0 &&
	       *(const char *)data != '\x7f' && *(const unsigned char *)data != 0x50;
}

static CUresult load(CUlibrary *library, const void *image, size_t max, unsigned n_jit,
		     CUjit_option *jit, void **jit_values)
{
	struct guest_module *m;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	/* A library belongs to no context, but a worker loads it into the primary one. */
	if (r == CUDA_ERROR_INVALID_CONTEXT)
		r = guest_enter(NEED_INIT, &t);
	if (r)
		return r;
	r = module_load_as(t, HANDLE_LIBRARY, image, max, n_jit, jit, jit_values, &m);
	if (r == CUDA_SUCCESS)
		*library = (CUlibrary)(uintptr_t)m->handle;
	return r;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code,
				   CUjit_option *jit, void **jit_values,
				   unsigned int n_jit, CUlibraryOption *options,
				   void **values, unsigned int n_options)
{
	struct guest_module *m;
	bool preserved;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!library || !code)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_options(n_options, options, values, &preserved);
	if (r)
		return r;
	if (!preserved || n_jit || is_text(code))
		return load(library, code, SIZE_MAX, n_jit, jit, jit_values);
	r = module_defer(code, &m);
	if (r == CUDA_SUCCESS)
		*library = (CUlibrary)(uintptr_t)m->handle;
	return r;
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *path,
				       CUjit_option *jit, void **jit_values,
				       unsigned int n_jit, CUlibraryOption *options,
				       void **values, unsigned int n_options)
{
	_cleanup_free_ void *data = NULL;
	bool preserved;
	size_t size;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!library || !path)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_options(n_options, options, values, &preserved);
	if (r == CUDA_SUCCESS)
		r = module_read_file(path, &data, &size);
	return r ? r : load(library, data, size, n_jit, jit, jit_values);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
	struct guest_module *m;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r == CUDA_SUCCESS)
		r = lookup(library, &m);
	return r ? r : module_unload(t, m);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	struct guest_module *m;
	struct guest_func *f;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!kernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	r = lookup(library, &m);
	if (r == CUDA_SUCCESS)
		r = module_need(m);
	if (r == CUDA_SUCCESS)
		r = module_get_func(t, m, HANDLE_KERNEL, name, &f);
	if (r == CUDA_SUCCESS)
		*kernel = (CUkernel)(uintptr_t)f->handle;
	return r;
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	struct guest_module *m;
	CUresult r = lookup(library, &m);

	if (r)
		return r;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	(void)module_need(m); /* without code there is nothing to count */
	*count = m->function_count;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n,
					   CUlibrary library)
{
	struct guest_module *m;
	struct guest_func *f;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);
	unsigned i;

	if (r == CUDA_SUCCESS)
		r = lookup(library, &m);
	if (r)
		return r;
	if (!kernels)
		return CUDA_ERROR_INVALID_VALUE;
	(void)module_need(m);
	for (i = 0; i < n && i < m->function_count; i++) {
		r = module_get_func_at(t, m, HANDLE_KERNEL, i, &f);
		if (r)
			return r;
		kernels[i] = (CUkernel)(uintptr_t)f->handle;
	}
	return CUDA_SUCCESS;
}

static CUresult status(struct guest_module *m)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	return call_module_status(t, m->handle);
}

/* A library's handle does for its module wherever a CUmodule is asked for. */
CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	struct guest_module *m;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	r = lookup(library, &m);
	if (r == CUDA_SUCCESS)
		r = module_need(m);
	if (r == CUDA_SUCCESS)
		r = status(m);
	if (r == CUDA_SUCCESS)
		*module = (CUmodule)(uintptr_t)m->handle;
	return r;
}

/* ---- kernels ---- */

static CUresult kernel(CUkernel k, struct guest_func **ret_f)
{
	CUresult r = guest_status();

	if (r)
		return r;
	*ret_f = guest_object((uintptr_t)k, HANDLE_KERNEL);
	return *ret_f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *func, CUkernel k)
{
	struct guest_func *f;
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!func)
		return CUDA_ERROR_INVALID_VALUE;
	r = kernel(k, &f);
	if (r == CUDA_SUCCESS)
		*func = (CUfunction)(uintptr_t)f->handle;
	return r;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *library, CUkernel k)
{
	struct guest_func *f;
	CUresult r = kernel(k, &f);

	if (r)
		return r;
	if (!library)
		return CUDA_ERROR_INVALID_VALUE;
	*library = (CUlibrary)(uintptr_t)f->module->handle;
	return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice dev)
{
	return guest_has_device(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuKernelGetAttribute(int *value, CUfunction_attribute attr, CUkernel k,
				      CUdevice dev)
{
	struct guest_func *f;
	CUresult r = kernel(k, &f);

	if (r == CUDA_SUCCESS)
		r = check_device(dev);
	if (r)
		return r;
	if (!value || (unsigned)attr >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = func_attribute(f, attr);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attr, int value, CUkernel k,
				      CUdevice dev)
{
	struct guest_func *f;
	CUresult r = kernel(k, &f);

	if (r == CUDA_SUCCESS)
		r = check_device(dev);
	/* cuFuncSetAttribute wants a context, which a kernel does not need. */
	return r ? r : func_set_attribute(f, attr, value);
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice dev)
{
	struct guest_func *f;
	CUresult r = kernel(k, &f);

	if (r == CUDA_SUCCESS)
		r = check_device(dev);
	if (r)
		return r;
	return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
							     : CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel k)
{
	struct guest_func *f;
	CUresult r = kernel(k, &f);

	if (r)
		return r;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = f->name;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset,
				      size_t *size)
{
	struct guest_func *f;
	CUresult r = kernel(k, &f);

	if (r)
		return r;
	return func_param_info(f, index, offset, size);
}
