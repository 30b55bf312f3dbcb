/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries, their functions and variables. A library is given to the driver
 * as such: it looks for code and loads it when something is asked for by name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/launch.h"
#include "device/cuda/module.h"
#include "device/cuda/output.h"
#include "device/cubin.h"
#include "device/image.h"
#include "ptx/fatbin.h"

/* ---- functions ---- */

static struct dev_func **bucket_of(struct dev_module *mod, CUfunction fn)
{
	return &mod->funcs[((uintptr_t)fn >> 6) % CUDA_FUNC_BUCKETS];
}

static struct dev_func *func_find_locked(struct dev_module *mod, CUfunction fn)
{
	struct dev_func *f = *bucket_of(mod, fn);

	while (f && f->cu != fn)
		f = f->next;
	return f;
}

static struct dev_func *func_find(struct dev_module *mod, CUfunction fn)
{
	scoped_lock(&mod->ctx->dev->lock);
	return func_find_locked(mod, fn);
}

/* Asks the driver, which may load the function first: without the lock. */
static struct dev_func *func_new(struct dev_module *mod, CUfunction fn)
{
	struct dev_func *f = calloc(1, sizeof(*f));
	size_t offset, size;

	if (!f)
		return NULL;
	f->mod = mod;
	f->cu = fn;
	if (cu.cuFuncGetName(&f->name, fn))
		f->name = "";
	for (size_t i = 0; !cu.cuFuncGetParamInfo(fn, i, &offset, &size); i++)
		f->params_size = offset + size;
	return f;
}

/* Takes note if the module's code could print, before any of it is launched. relaxed: the
 * launch itself orders it before what waits for the kernel. */
static void note_printing(struct dev_module *mod)
{
	if (atomic_load_explicit(&mod->looked, memory_order_relaxed))
		return;
	if (cuda_image_prints(mod->ctx->dev, mod->image, mod->image_size))
		atomic_store_explicit(&mod->ctx->may_print, true, memory_order_relaxed);
	atomic_store_explicit(&mod->looked, true, memory_order_relaxed);
}

/* The object of a function: made when it is first met, so that it is always the same. */
static CUresult func_get(struct dev_module *mod, CUfunction fn,
			 struct dev_func **ret_func)
{
	_cleanup_free_ struct dev_func *new = NULL;
	struct dev_func *f = func_find(mod, fn);

	note_printing(mod);
	if (!f) {
		new = func_new(mod, fn);
		if (!new)
			return CUDA_ERROR_OUT_OF_MEMORY;
		scoped_lock(&mod->ctx->dev->lock);
		f = func_find_locked(mod, fn); /* another thread was faster */
		if (!f) {
			f = steal(new);
			f->next = *bucket_of(mod, fn);
			*bucket_of(mod, fn) = f;
		}
	}
	*ret_func = f;
	return CUDA_SUCCESS;
}

/* A kernel as the function that it is in the context of the module. */
static CUresult kernel_function(CUkernel kernel, CUfunction *ret_fn)
{
	return cu.cuKernelGetFunction(ret_fn, kernel);
}

static CUresult enumerate_library(struct dev_module *mod, CUfunction *v, unsigned n)
{
	_cleanup_free_ CUkernel *k = calloc(n, sizeof(CUkernel));
	CUresult res;

	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = cu.cuLibraryEnumerateKernels(k, n, mod->lib);
	for (unsigned i = 0; !res && i < n; i++)
		res = kernel_function(k[i], &v[i]);
	return res;
}

/* All functions in the driver's order, once somebody asks. */
static CUresult funcs_enumerate(struct dev_module *mod)
{
	_cleanup_free_ struct dev_func **order = NULL;
	_cleanup_free_ CUfunction *v = NULL;
	unsigned n = 0;
	CUresult res = cuda_module_function_count(mod, &n);

	if (res || !n)
		return res ? res : CUDA_ERROR_INVALID_VALUE;
	v = calloc(n, sizeof(CUfunction));
	order = calloc(n, sizeof(struct dev_func *));
	if (!v || !order)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = mod->lib ? enumerate_library(mod, v, n)
		       : cu.cuModuleEnumerateFunctions(v, n, mod->cu);
	for (unsigned i = 0; !res && i < n; i++)
		res = func_get(mod, v[i], &order[i]);
	if (res)
		return res;
	scoped_lock(&mod->ctx->dev->lock);
	if (!mod->order) {
		mod->order = steal(order);
		mod->n_order = n;
	}
	return CUDA_SUCCESS;
}

/* ---- modules ---- */

static void module_free(struct dev_module *mod)
{
	struct device *dev = mod->ctx->dev;
	struct dev_func *f, *next;

	pthread_mutex_lock(&dev->lock);
	list_remove(&mod->link);
	for (const struct range *r = range_above(&mod->globals, 0); r;
	     r = range_next(&mod->globals, r))
		range_remove(&dev->globals, range_at(&dev->globals, r->start));
	pthread_mutex_unlock(&dev->lock);
	range_fini(&mod->globals);
	free(mod->placed);
	for (unsigned i = 0; i < CUDA_FUNC_BUCKETS; i++) {
		for (f = mod->funcs[i]; f; f = next) {
			next = f->next;
			free(f);
		}
	}
	free(mod->order);
	free(mod);
}

/* Links the parts from number first on, and loads the result. */
static CUresult load_linked(CUmodule *ret_mod, const void *image, size_t size,
			    unsigned first, struct cuda_jit *o)
{
	struct image_part part;
	CUlinkState state;
	size_t pos = 0, linked_size;
	void *linked;
	CUresult res;

	res = cu.cuLinkCreate(o->n, o->option, o->value, &state);
	if (res)
		return res;
	for (unsigned i = 0; !res && image_next(image, size, &pos, &part) == 1; i++) {
		if (i >= first)
			res = cu.cuLinkAddData(state, CU_JIT_INPUT_FATBINARY,
					       (void *)(uintptr_t)part.data, part.size,
					       "part", 0, NULL, NULL);
	}
	if (!res)
		res = cu.cuLinkComplete(state, &linked, &linked_size);
	if (!res)
		res = cu.cuModuleLoadDataEx(ret_mod, linked, 0, NULL, NULL);
	cu.cuLinkDestroy(state); /* and linked with it */
	return res;
}

static CUresult load_parts(CUmodule *ret_mod, const void *image, size_t size, unsigned n,
			   bool linked, struct cuda_jit *o)
{
	CUresult res = CUDA_ERROR_NO_BINARY_FOR_GPU;

	if (n == 1 || linked)
		res = cu.cuModuleLoadDataEx(ret_mod, image, o->n, o->option, o->value);
	if (n > 1 && res == CUDA_ERROR_NO_BINARY_FOR_GPU)
		res = load_linked(ret_mod, image, size, linked, o);
	return res;
}

static void log_nothing(struct dev_jit *jit)
{
	if (jit && jit->error_log && jit->error_size) {
		jit->error_log[0] = 0;
		jit->error_size = 1;
	}
}

static struct dev_module *module_new(struct dev_ctx *ctx)
{
	struct dev_module *mod = calloc(1, sizeof(*mod));

	if (!mod)
		return NULL;
	mod->ctx = ctx;
	list_init(&mod->link);
	return mod;
}

/* The options of a library: its image stays where it is. */
static CUresult load_library(CUlibrary *ret_lib, const void *image, struct cuda_jit *o)
{
	CUlibraryOption option[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
	void *value[] = {(void *)(uintptr_t)1};

	return cu.cuLibraryLoadData(ret_lib, image, o->option, o->value, o->n, option,
				    value, ARRAY_SIZE(option));
}

/* Compiles PTX, len bytes without the NUL behind it, as the driver does in what is linked. */
static int compile(char *text, size_t len, char **ret_elf, size_t *ret_len)
{
	CUlinkState state;
	void *linked;
	int r = -ENOEXEC;

	if (cu.cuLinkCreate(0, NULL, NULL, &state))
		return -ENOEXEC;
	if (!cu.cuLinkAddData(state, CU_JIT_INPUT_PTX, text, len + 1, "managed", 0, NULL,
			      NULL) &&
	    !cu.cuLinkComplete(state, &linked, ret_len)) {
		*ret_elf = malloc(*ret_len);
		r = *ret_elf ? 0 : -ENOMEM;
		if (r == 0)
			memcpy(*ret_elf, linked, *ret_len);
	}
	cu.cuLinkDestroy(state);
	return r;
}

/* Machine code that an image with variables in managed memory has for this GPU, or that comes of
 * its PTX; the caller's to free. */
static int machine_code(const struct device *dev, const void *image, size_t size,
			char **ret_elf, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;
	int r = fatbin_elf(image, size, dev->sm, ret_elf, ret_len);
	size_t len;

	if (r != -ENOEXEC)
		return r;
	r = fatbin_ptx(image, size, dev->sm, &text, &len);
	if (r == 0)
		r = strstr(text, ".managed") ? compile(text, len, ret_elf, ret_len)
					     : -ENOEXEC;
	return r;
}

CUresult cuda_module_managed(struct dev_ctx *ctx, const void *image, size_t image_size,
			     struct dev_managed **ret, unsigned *ret_n)
{
	cuda_scoped_thawed(ctx->dev);
	_cleanup_free_ char *elf = NULL;
	CUresult res = cuda_enter(ctx);
	unsigned parts;
	bool linked;
	size_t len;
	int r;

	*ret = NULL;
	*ret_n = 0;
	if (res || !cuda_image_ok(image, image_size, &parts, &linked) || parts != 1)
		return res;
	r = machine_code(ctx->dev, image, image_size, &elf, &len);
	if (r == 0)
		r = cubin_managed(elf, len, ret, ret_n);
	return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Gives the variables their first values. */
static CUresult set_values(const struct dev_module *mod, size_t len,
			   const struct dev_jit *jit)
{
	CUresult res = CUDA_SUCCESS;

	for (unsigned i = 0; i < jit->n_managed && !res; i++) {
		const struct dev_managed *v = &jit->managed[i];
		const void *value = cubin_value(mod->placed, len, v);

		res = value ? cu.cuMemcpyHtoDAsync(v->addr, value, v->bytes, NULL)
			    : cu.cuMemsetD8Async(v->addr, 0, v->bytes, NULL);
	}
	return res ? res : cu.cuStreamSynchronize(NULL);
}

/* Loads the machine code of an image with its variables in managed memory where jit says. */
static CUresult load_placed(struct dev_module *mod, const void *image, size_t image_size,
			    const struct dev_jit *jit, struct cuda_jit *o)
{
	unsigned parts;
	bool linked;
	size_t len;
	int r = machine_code(mod->ctx->dev, image, image_size, &mod->placed, &len);
	CUresult res;

	if (r == 0 && !cuda_image_ok(mod->placed, len, &parts, &linked))
		return CUDA_ERROR_INVALID_IMAGE;
	if (r == 0)
		r = cubin_place(mod->placed, len, jit->managed, jit->n_managed);
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
	res = load_library(&mod->lib, mod->placed, o);
	return res || jit->managed_set ? res : set_values(mod, len, jit);
}

static CUresult load(struct dev_ctx *ctx, const void *image, size_t image_size,
		     struct dev_jit *jit, bool library, struct dev_module **ret_module)
{
	cuda_scoped_thawed(ctx->dev);
	size_t before = 0, after = 0, total;
	struct cuda_jit o;
	struct dev_module *mod;
	CUresult res = cuda_enter(ctx);
	unsigned parts;
	bool linked;

	if (res)
		return res;
	if (!cuda_image_ok(image, image_size, &parts, &linked)) {
		log_nothing(jit);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	mod = module_new(ctx);
	if (!mod)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cuda_jit_fill(&o, jit);
	cu.cuMemGetInfo(&before, &total);
	if (library && parts == 1 && jit && jit->n_managed)
		res = load_placed(mod, image, image_size, jit, &o);
	else if (library && parts == 1)
		res = load_library(&mod->lib, image, &o);
	else
		res = load_parts(&mod->cu, image, image_size, parts, linked, &o);
	cu.cuMemGetInfo(&after, &total);
	cuda_jit_take(&o, jit);
	if (res) {
		module_free(mod);
		return cuda_note(ctx, res);
	}
	mod->bytes = before > after ? before - after : 0;
	mod->image = image;
	mod->image_size = image_size;
	if (!mod->lib) { /* the caller's from here on */
		note_printing(mod);
		mod->image = NULL;
	}
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->modules, &mod->link);
	*ret_module = mod;
	return CUDA_SUCCESS;
}

CUresult cuda_module_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			  struct dev_jit *jit, struct dev_module **ret_module)
{
	return load(ctx, image, image_size, jit, false, ret_module);
}

CUresult cuda_library_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			   struct dev_jit *jit, struct dev_module **ret_module)
{
	return load(ctx, image, image_size, jit, true, ret_module);
}

struct dev_module *cuda_module_first(struct dev_ctx *ctx)
{
	scoped_lock(&ctx->dev->lock);
	if (list_empty(&ctx->modules))
		return NULL;
	return list_entry(ctx->modules.next, struct dev_module, link);
}

void cuda_module_unload(struct dev_module *mod)
{
	struct dev_ctx *ctx = mod->ctx;

	if (!cuda_enter(ctx)) {
		cuda_note(ctx, cu.cuCtxSynchronize());
		cuda_scoped_thawed(ctx->dev);
		cuda_batches_drop(ctx);
		cuda_note(ctx, mod->lib ? cu.cuLibraryUnload(mod->lib)
					: cu.cuModuleUnload(mod->cu));
	}
	module_free(mod);
	cuda_output_flush(ctx->dev);
}

uint64_t cuda_module_memory(struct dev_module *mod)
{
	return mod->bytes;
}

CUresult cuda_module_function(struct dev_module *mod, const char *name,
			      struct dev_func **ret_func)
{
	cuda_scoped_thawed(mod->ctx->dev);
	CUresult res = cuda_enter(mod->ctx);
	CUkernel kernel;
	CUfunction fn;

	if (!res && mod->lib) {
		res = cu.cuLibraryGetKernel(&kernel, mod->lib, name);
		if (!res)
			res = kernel_function(kernel, &fn);
	} else if (!res) {
		res = cu.cuModuleGetFunction(&fn, mod->cu, name);
	}
	return res ? cuda_note(mod->ctx, res) : func_get(mod, fn, ret_func);
}

CUresult cuda_module_status(struct dev_module *mod)
{
	cuda_scoped_thawed(mod->ctx->dev);
	CUresult res = cuda_enter(mod->ctx);
	CUmodule unused;

	if (res || !mod->lib)
		return res;
	return cuda_note(mod->ctx, cu.cuLibraryGetModule(&unused, mod->lib));
}

CUresult cuda_module_function_count(struct dev_module *mod, unsigned *ret_n)
{
	cuda_scoped_thawed(mod->ctx->dev);
	CUresult res = cuda_enter(mod->ctx);

	if (res)
		return res;
	return cuda_note(mod->ctx, mod->lib
					   ? cu.cuLibraryGetKernelCount(ret_n, mod->lib)
					   : cu.cuModuleGetFunctionCount(ret_n, mod->cu));
}

/* Variables are where the driver put them: from now on copies may touch this one. */
static CUresult global_known(struct dev_module *mod, CUdeviceptr addr, size_t size)
{
	struct device *dev = mod->ctx->dev;

	scoped_lock(&dev->lock);
	if (!size || range_at(&dev->globals, addr))
		return CUDA_SUCCESS;
	if (range_insert(&mod->globals, addr, size, NULL))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!range_insert(&dev->globals, addr, size, NULL))
		return CUDA_SUCCESS;
	range_remove(&mod->globals, range_at(&mod->globals, addr));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuda_module_global(struct dev_module *mod, const char *name,
			    CUdeviceptr *ret_addr, size_t *ret_size)
{
	cuda_scoped_thawed(mod->ctx->dev);
	CUresult res = cuda_enter(mod->ctx);
	CUdeviceptr addr;
	size_t size;

	if (!res)
		res = mod->lib ? cu.cuLibraryGetGlobal(&addr, &size, mod->lib, name)
			       : cu.cuModuleGetGlobal(&addr, &size, mod->cu, name);
	if (!res)
		res = global_known(mod, addr, size);
	if (res)
		return cuda_note(mod->ctx, res);
	*ret_addr = addr;
	*ret_size = size;
	return CUDA_SUCCESS;
}

CUresult cuda_module_function_at(struct dev_module *mod, unsigned index,
				 struct dev_func **ret_func, const char **ret_name)
{
	cuda_scoped_thawed(mod->ctx->dev);
	CUresult res = cuda_enter(mod->ctx);

	if (!res && !mod->order)
		res = funcs_enumerate(mod);
	if (res)
		return cuda_note(mod->ctx, res);
	scoped_lock(&mod->ctx->dev->lock);
	if (index >= mod->n_order)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_func = mod->order[index];
	*ret_name = mod->order[index]->name;
	return CUDA_SUCCESS;
}
