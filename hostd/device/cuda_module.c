/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images, functions and launches. The driver takes an image as a pointer and believes the
 * sizes in it, so an image is checked to be as long as it says before the driver sees it;
 * likewise a parameter buffer.
 */
#include <elf.h>
#include <string.h>

#include "device/cuda_device.h"
#include "device/image.h"
#include "ptx/fatbin.h"

#define JIT_OPTIONS_MAX 12

struct dev_func {
	struct list link; /* dev_module.funcs */
	struct dev_module *mod;
	CUfunction cu;
	const char *name; /* the driver's */
	size_t params_size;
};

struct dev_module {
	struct dev_ctx *ctx;
	struct list link;
	CUmodule cu;
	uint64_t bytes;           /* of device memory, about */
	struct list funcs;        /* under the device's lock; in the driver's order */
	struct range_set globals; /* that cuda_module_global() has made known */
};

/* ---- images ---- */

static bool in_image(uint64_t off, uint64_t size, size_t image_size)
{
	return off <= image_size && size <= image_size - off;
}

static bool elf_ok(const unsigned char *image, size_t size)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	Elf64_Phdr ph;

	if (size < sizeof(eh))
		return false;
	memcpy(&eh, image, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_shentsize != sizeof(sh) ||
	    (eh.e_phnum && eh.e_phentsize != sizeof(ph)) ||
	    !in_image(eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(sh), size) ||
	    !in_image(eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(ph), size) ||
	    eh.e_shstrndx >= eh.e_shnum)
		return false;
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		memcpy(&sh, image + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_NOBITS && !in_image(sh.sh_offset, sh.sh_size, size))
			return false;
	}
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, image + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (!in_image(ph.p_offset, ph.p_filesz, size))
			return false;
	}
	return true;
}

/* The container and each machine code in it. */
static bool fatbin_ok(const void *image, size_t size)
{
	struct fatbin_entry e;
	size_t pos = 0;
	int r;

	while ((r = fatbin_next(image, size, &pos, &e)) == 1) {
		if (e.kind == FATBIN_ELF && e.packing == FATBIN_PLAIN &&
		    !elf_ok(e.payload, e.payload_bytes))
			return false;
	}
	return r == 0;
}

/* Whether the driver can be given the part without reading past its end. */
static bool part_ok(const void *image, size_t size)
{
	enum fatbin_format format;

	if (fatbin_format(image, size, &format) < 0)
		return false;
	switch (format) {
	case FATBIN_IS_CONTAINER:
		return fatbin_ok(image, size);
	case FATBIN_IS_ELF:
		return elf_ok(image, size);
	case FATBIN_IS_TEXT:
		return memchr(image, 0, size); /* the driver needs its NUL */
	}
	return false;
}

/* Checks all parts; *ret_linked if the first one is the linked form of the others. */
static bool image_ok(const void *image, size_t size, unsigned *ret_n, bool *ret_linked)
{
	struct image_part part;
	struct fatbin_entry e;
	size_t pos = 0, in_first = 0;
	int r;

	*ret_n = 0;
	while ((r = image_next(image, size, &pos, &part)) == 1) {
		if (!part_ok(part.data, part.size))
			return false;
		++*ret_n;
	}
	if (r < 0 || !*ret_n)
		return false;
	*ret_linked = *ret_n > 1;
	pos = 0;
	if (image_next(image, size, &pos, &part) == 1 && *ret_n > 1) {
		while (fatbin_next(part.data, part.size, &in_first, &e) == 1)
			*ret_linked &= e.kind != FATBIN_PTX;
	}
	return true;
}

struct options {
	CUjit_option option[JIT_OPTIONS_MAX];
	void *value[JIT_OPTIONS_MAX];
	unsigned n;
};

static unsigned option_add(struct options *o, CUjit_option option, uintptr_t value)
{
	o->option[o->n] = option;
	o->value[o->n] = (void *)value;
	return o->n++;
}

struct log_places {
	unsigned info, error, time; /* where the driver writes sizes and time */
};

static void options_fill(struct options *o, const struct dev_jit *jit,
			 struct log_places *ret_at)
{
	*ret_at = (struct log_places){0};
	if (!jit)
		return;
	if (jit->info_log && jit->info_size) {
		option_add(o, CU_JIT_INFO_LOG_BUFFER, (uintptr_t)jit->info_log);
		ret_at->info =
			option_add(o, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, jit->info_size);
	}
	if (jit->error_log && jit->error_size) {
		option_add(o, CU_JIT_ERROR_LOG_BUFFER, (uintptr_t)jit->error_log);
		ret_at->error = option_add(o, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
					   jit->error_size);
	}
	if (jit->max_registers)
		option_add(o, CU_JIT_MAX_REGISTERS, jit->max_registers);
	/* 4 is the driver's default; said aloud, it clashes with PTX for debugging. */
	if (jit->optimization_level >= 0 && jit->optimization_level < 4)
		option_add(o, CU_JIT_OPTIMIZATION_LEVEL,
			   (uintptr_t)jit->optimization_level);
	if (jit->verbose)
		option_add(o, CU_JIT_LOG_VERBOSE, 1);
	if (jit->line_info)
		option_add(o, CU_JIT_GENERATE_LINE_INFO, 1);
	if (jit->debug)
		option_add(o, CU_JIT_GENERATE_DEBUG_INFO, 1);
	ret_at->time = option_add(o, CU_JIT_WALL_TIME, 0);
}

/* The driver reports text lengths; ours count the NUL and are within the buffer. */
static size_t log_end(char *log, size_t room, const void *reported)
{
	size_t n = MIN((size_t)(uintptr_t)reported, room - 1);

	log[n] = 0;
	return strlen(log) + 1;
}

static void options_take(const struct options *o, const struct log_places *at,
			 struct dev_jit *jit)
{
	uint32_t bits;

	if (!jit)
		return;
	if (at->info)
		jit->info_size =
			log_end(jit->info_log, jit->info_size, o->value[at->info]);
	if (at->error)
		jit->error_size =
			log_end(jit->error_log, jit->error_size, o->value[at->error]);
	bits = (uint32_t)(uintptr_t)o->value[at->time];
	memcpy(&jit->wall_time_ms, &bits, sizeof(bits));
}

/* ---- functions ---- */

static struct dev_func *func_find_locked(struct dev_module *mod, CUfunction fn)
{
	struct dev_func *f;

	list_for_each (f, &mod->funcs, link) {
		if (f->cu == fn)
			return f;
	}
	return NULL;
}

/* The object of a function: made when it is first met, so that it is always the same. */
static CUresult func_get(struct dev_module *mod, CUfunction fn,
			 struct dev_func **ret_func)
{
	size_t offset, size;
	struct dev_func *f;

	cuda_scoped_lock(&mod->ctx->dev->lock);
	f = func_find_locked(mod, fn);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return CUDA_ERROR_OUT_OF_MEMORY;
		f->mod = mod;
		f->cu = fn;
		if (cu.cuFuncGetName(&f->name, fn))
			f->name = "";
		for (size_t i = 0; !cu.cuFuncGetParamInfo(fn, i, &offset, &size); i++)
			f->params_size = offset + size;
		list_append(&mod->funcs, &f->link);
	}
	*ret_func = f;
	return CUDA_SUCCESS;
}

static CUresult funcs_enumerate(struct dev_module *mod)
{
	_cleanup_free_ CUfunction *v = NULL;
	struct dev_func *f;
	unsigned n = 0;
	CUresult res = cu.cuModuleGetFunctionCount(&n, mod->cu);

	if (res)
		return res;
	v = calloc(n + 1u, sizeof(CUfunction));
	if (!v)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = n ? cu.cuModuleEnumerateFunctions(v, n, mod->cu) : CUDA_SUCCESS;
	for (unsigned i = 0; !res && i < n; i++)
		res = func_get(mod, v[i], &f);
	return res;
}

/* ---- modules ---- */

static void module_free(struct dev_module *mod)
{
	struct device *dev = mod->ctx->dev;
	struct dev_func *f, *tmp;

	pthread_mutex_lock(&dev->lock);
	list_remove(&mod->link);
	for (size_t i = 0; i < mod->globals.n; i++)
		range_remove(&dev->globals,
			     range_above(&dev->globals, mod->globals.v[i].start), 1);
	pthread_mutex_unlock(&dev->lock);
	range_fini(&mod->globals);
	list_for_each_safe (f, tmp, &mod->funcs, link)
		free(f);
	free(mod);
}

/* Links the parts from number first on, and loads the result. */
static CUresult load_linked(CUmodule *ret_mod, const void *image, size_t size,
			    unsigned first, struct options *o)
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
			   bool linked, struct options *o)
{
	CUresult res = CUDA_ERROR_NO_BINARY_FOR_GPU;

	if (n == 1 || linked)
		res = cu.cuModuleLoadDataEx(ret_mod, image, o->n, o->option, o->value);
	if (n > 1 && res == CUDA_ERROR_NO_BINARY_FOR_GPU)
		res = load_linked(ret_mod, image, size, linked, o);
	return res;
}

CUresult cuda_module_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			  struct dev_jit *jit, struct dev_module **ret_module)
{
	size_t before = 0, after = 0, total;
	struct options o = {.n = 0};
	struct log_places at;
	struct dev_module *mod;
	CUresult res = cuda_enter(ctx);
	unsigned parts;
	bool linked;

	if (res)
		return res;
	if (!image_ok(image, image_size, &parts, &linked)) {
		if (jit && jit->error_log && jit->error_size) {
			jit->error_log[0] = 0;
			jit->error_size = 1;
		}
		return CUDA_ERROR_INVALID_IMAGE;
	}
	mod = calloc(1, sizeof(*mod));
	if (!mod)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mod->ctx = ctx;
	list_init(&mod->link);
	list_init(&mod->funcs);
	options_fill(&o, jit, &at);
	cu.cuMemGetInfo(&before, &total);
	res = load_parts(&mod->cu, image, image_size, parts, linked, &o);
	cu.cuMemGetInfo(&after, &total);
	options_take(&o, &at, jit);
	if (!res) {
		mod->bytes = before > after ? before - after : 0;
		res = funcs_enumerate(mod);
		if (res)
			cu.cuModuleUnload(mod->cu);
	}
	if (res) {
		module_free(mod);
		return cuda_note(ctx, res);
	}
	cuda_scoped_lock(&ctx->dev->lock);
	list_append(&ctx->modules, &mod->link);
	*ret_module = mod;
	return CUDA_SUCCESS;
}

struct dev_module *cuda_module_first(struct dev_ctx *ctx)
{
	cuda_scoped_lock(&ctx->dev->lock);
	if (list_empty(&ctx->modules))
		return NULL;
	return list_entry(ctx->modules.next, struct dev_module, link);
}

void cuda_module_unload(struct dev_module *mod)
{
	struct dev_ctx *ctx = mod->ctx;

	if (!cuda_enter(ctx)) {
		cuda_note(ctx, cu.cuCtxSynchronize());
		cuda_note(ctx, cu.cuModuleUnload(mod->cu));
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
	CUresult res = cuda_enter(mod->ctx);
	CUfunction fn;

	if (!res)
		res = cu.cuModuleGetFunction(&fn, mod->cu, name);
	return res ? cuda_note(mod->ctx, res) : func_get(mod, fn, ret_func);
}

/* Variables are where the driver put them: from now on copies may touch this one. */
static CUresult global_known(struct dev_module *mod, CUdeviceptr addr, size_t size)
{
	struct device *dev = mod->ctx->dev;

	cuda_scoped_lock(&dev->lock);
	if (!size || range_at(&dev->globals, addr))
		return CUDA_SUCCESS;
	if (range_insert(&mod->globals, addr, size, NULL))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!range_insert(&dev->globals, addr, size, NULL))
		return CUDA_SUCCESS;
	range_remove(&mod->globals, range_above(&mod->globals, addr), 1);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuda_module_global(struct dev_module *mod, const char *name,
			    CUdeviceptr *ret_addr, size_t *ret_size)
{
	CUresult res = cuda_enter(mod->ctx);
	CUdeviceptr addr;
	size_t size;

	if (!res)
		res = cu.cuModuleGetGlobal(&addr, &size, mod->cu, name);
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
	struct dev_func *f;

	cuda_scoped_lock(&mod->ctx->dev->lock);
	list_for_each (f, &mod->funcs, link) {
		if (index--)
			continue;
		*ret_func = f;
		*ret_name = f->name;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuda_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx, cu.cuFuncGetAttribute(ret_value, attr, f->cu));
}

CUresult cuda_func_set_attribute(struct dev_func *f, CUfunction_attribute attr, int value)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx, cu.cuFuncSetAttribute(f->cu, attr, value));
}

CUresult cuda_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p)
{
	CUresult res = cuda_enter(f->mod->ctx);
	size_t offset, size;

	if (!res)
		res = cu.cuFuncGetParamInfo(f->cu, index, &offset, &size);
	if (res)
		return cuda_note(f->mod->ctx, res);
	*ret_p = (struct dev_param){(uint32_t)offset, (uint32_t)size};
	return CUDA_SUCCESS;
}

CUresult cuda_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks)
{
	CUresult res = cuda_enter(f->mod->ctx);

	if (res)
		return res;
	return cuda_note(f->mod->ctx,
			 cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				 ret_blocks, f->cu, block_size, shared_bytes, flags));
}

/* ---- launches ---- */

CUresult cuda_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l)
{
	CUlaunchAttribute attrs[2];
	CUlaunchConfig config = {
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared_bytes,
		.hStream = cuda_stream_of(st),
		.attrs = attrs,
	};
	size_t size = l->params_size;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)l->params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (l->func->mod->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (size != l->func->params_size) /* before the driver reads past the end */
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	memset(attrs, 0, sizeof(attrs));
	if (l->cooperative) {
		attrs[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
		attrs[config.numAttrs++].value.cooperative = 1;
	}
	if (l->cluster[0]) {
		attrs[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
		attrs[config.numAttrs].value.clusterDim.x = l->cluster[0];
		attrs[config.numAttrs].value.clusterDim.y = l->cluster[1];
		attrs[config.numAttrs++].value.clusterDim.z = l->cluster[2];
	}
	return cuda_note(ctx, cu.cuLaunchKernelEx(&config, l->func->cu, NULL,
						  size ? extra : NULL));
}
