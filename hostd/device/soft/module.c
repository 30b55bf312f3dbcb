/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: image -> PTX text -> ptx_module -> simt_program, its variables placed in one
 * piece of device memory. Texts of errors go to the JIT error log as ptxas words them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/image.h"
#include "device/soft/soft.h"
#include "device/soft/module.h"
#include "ptx/fatbin.h"

#define PTX_VERSION_MAX 90 /* 9.0, what ptx_parse() takes */

/* For messages when the caller gave no buffer of his own. */
#define LOG_BYTES 1024

static void module_freep(struct dev_module **mod)
{
	if (*mod)
		soft_module_free(*mod);
}

void soft_module_free(struct dev_module *mod)
{
	simt_program_free(mod->prog);
	ptx_module_free(mod->ptx);
	soft_memory_free(&mod->ctx->dev->mem, mod->base, mod->bytes);
	free(mod->vars);
	free(mod->by_name);
	free(mod->funcs);
	free(mod);
}

/* ---- images ---- */

/* Finds the PTX that this GPU would take of an image; the caller frees *ret_text. */
static CUresult image_ptx(const void *image, size_t size, char **ret_text,
			  size_t *ret_size)
{
	enum fatbin_format format;

	if (fatbin_format(image, size, &format) < 0)
		return CUDA_ERROR_INVALID_IMAGE;
	if (format == FATBIN_IS_ELF)
		return CUDA_ERROR_NO_BINARY_FOR_GPU; /* machine code */
	switch (fatbin_ptx(image, size, SOFT_SM, ret_text, ret_size)) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOEXEC:
	case -ENOTSUP:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_INVALID_IMAGE;
	}
}

/* ---- variables ---- */

/* Where a variable in managed memory is to be; 0: nobody has said so. */
static uint64_t managed_at(const struct dev_module *mod, const struct simt_var *var)
{
	for (unsigned i = 0; i < mod->n_managed; i++) {
		const struct dev_managed *m = &mod->managed[i];

		if (!strcmp(m->name, var->name) && m->bytes >= var->bytes)
			return m->addr;
	}
	return 0;
}

/* Gives those in managed memory their addresses. */
static CUresult place_managed(struct dev_module *mod, struct simt_var *vars, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!vars[i].managed)
			continue;
		vars[i].addr = managed_at(mod, &vars[i]);
		if (!vars[i].addr)
			return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

/* Gives variables their first values; new device memory is zero as it comes. */
static void init_vars(const struct dev_module *mod, const struct simt_var *vars, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *at = (void *)(uintptr_t)vars[i].addr;

		if (vars[i].managed && mod->managed_set)
			continue;
		if (vars[i].managed)
			memset(at, 0, vars[i].bytes);
		if (vars[i].has_init)
			simt_var_init(mod->prog, i, at);
	}
}

/* Gives every variable its address, all but those in managed memory within one new piece of
 * device memory. */
static CUresult place_vars(struct dev_module *mod)
{
	struct simt_var *vars;
	uint64_t end = 0;
	CUresult res;
	size_t n;

	vars = simt_program_vars(mod->prog, &n);
	res = place_managed(mod, vars, n);
	if (res)
		return res;
	for (size_t i = 0; i < n; i++) {
		uint64_t align = MAX(vars[i].align, 1u), at = ALIGN_UP(end, align);

		if (vars[i].managed)
			continue;
		if (align > SOFT_PAGE_BYTES || at < end || vars[i].bytes > SOFT_OWN_SIZE)
			return CUDA_ERROR_OUT_OF_MEMORY;
		vars[i].addr = at;
		end = at + MAX(vars[i].bytes, 1u); /* no two share an address */
	}
	if (end) {
		mod->base = end > SOFT_OWN_SIZE
				    ? 0
				    : soft_memory_alloc(&mod->ctx->dev->mem, end);
		if (!mod->base)
			return CUDA_ERROR_OUT_OF_MEMORY;
		mod->bytes = end;
	}
	for (size_t i = 0; i < n; i++)
		vars[i].addr += vars[i].managed ? 0 : mod->base;
	init_vars(mod, vars, n);
	return CUDA_SUCCESS;
}

static int var_by_name(const void *a, const void *b)
{
	return strcmp((*(const struct simt_var *const *)a)->name,
		      (*(const struct simt_var *const *)b)->name);
}

static int func_by_name(const void *a, const void *b)
{
	return strcmp((*(struct dev_func *const *)a)->name,
		      (*(struct dev_func *const *)b)->name);
}

/* Registers that a block of max_threads can have, as ptxas would limit them. */
static unsigned usable_regs(const struct simt_func_attr *a)
{
	unsigned warps = ALIGN_UP((a->max_threads + SIMT_WARP - 1) / SIMT_WARP, 4u);
	unsigned limit = SOFT_SM_REGS / (MAX(warps, 1u) * SIMT_WARP);

	return MIN(MAX(a->regs, 1u), MIN(ALIGN_DOWN(limit, 8u), 255u));
}

/* The tables by which names are found. */
static CUresult index_names(struct dev_module *mod)
{
	const struct simt_var *vars;
	size_t n;

	vars = simt_program_vars(mod->prog, &n);
	mod->n_funcs = (unsigned)simt_program_num_kernels(mod->prog);
	mod->funcs = calloc(mod->n_funcs + 1u, sizeof(*mod->funcs));
	mod->by_name = calloc(mod->n_funcs + 1u, sizeof(struct dev_func *));
	mod->vars = calloc(n + 1, sizeof(struct simt_var *));
	if (!mod->funcs || !mod->by_name || !mod->vars)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < mod->n_funcs; i++) {
		struct dev_func *f = &mod->funcs[i];

		f->mod = mod;
		f->f = simt_program_kernel(mod->prog, i);
		f->name = simt_func_name(f->f);
		f->num_regs = usable_regs(simt_func_attr(f->f));
		f->max_dynamic_bytes = -1;
		f->carveout = -1;
		mod->by_name[i] = f;
	}
	/* nvcc makes __device__ and __constant__ variables local; the driver finds them.
	 */
	for (size_t i = 0; i < n; i++)
		mod->vars[mod->n_vars++] = &vars[i];
	qsort(mod->by_name, mod->n_funcs, sizeof(struct dev_func *), func_by_name);
	qsort(mod->vars, mod->n_vars, sizeof(struct simt_var *), var_by_name);
	return CUDA_SUCCESS;
}

/* ---- loading ---- */

static CUresult ptx_result(int r)
{
	if (r == 0)
		return CUDA_SUCCESS;
	return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_PTX;
}

static void log_line(struct ptx_log *log, const char *line)
{
	int n = snprintf(log->buf + log->len, log->cap - log->len, "%s\n", line);

	log->len += MIN((size_t)n, log->cap - log->len - 1);
}

/* Shared memory beyond what a block can have, as ptxas refuses it. */
static CUresult check_funcs(struct dev_module *mod, struct ptx_log *log)
{
	for (unsigned i = 0; i < mod->n_funcs; i++) {
		uint32_t bytes = simt_func_attr(mod->funcs[i].f)->shared_bytes;
		char line[320];

		if (bytes <= SOFT_BLOCK_SHARED_OPTIN)
			continue;
		snprintf(line, sizeof(line),
			 "ptxas error   : Entry function '%.200s' uses too much shared "
			 "data (0x%x bytes, 0x%x max)",
			 mod->funcs[i].name, bytes, SOFT_BLOCK_SHARED_OPTIN);
		log_line(log, line);
		return CUDA_ERROR_INVALID_PTX;
	}
	return CUDA_SUCCESS;
}

static CUresult module_build(struct dev_module *mod, struct ptx_log *log)
{
	CUresult res;
	int r;

	mod->uses_heap = ptx_find_func(mod->ptx, "malloc");
	r = simt_program_new(mod->ptx, log, &mod->prog);
	if (r < 0)
		return ptx_result(r);
	res = place_vars(mod);
	if (res)
		return res;
	r = simt_program_lower(mod->prog, log);
	if (r < 0)
		return ptx_result(r);
	res = index_names(mod);
	return res ? res : check_funcs(mod, log);
}

static void info_log(const struct dev_module *mod, struct dev_jit *jit)
{
	size_t len = 0;

	for (unsigned i = 0; jit->verbose && i < mod->n_funcs; i++) {
		const struct simt_func_attr *a = simt_func_attr(mod->funcs[i].f);
		int n = snprintf(
			jit->info_log + len, jit->info_size - len,
			"ptxas info    : Compiling entry function '%s' for 'sm_%u'\n"
			"ptxas info    : Used %u registers, %u bytes smem, %u bytes "
			"cmem[3]\n",
			mod->funcs[i].name, SOFT_SM, mod->funcs[i].num_regs,
			a->shared_bytes, a->const_bytes);

		if ((size_t)n >= jit->info_size - len)
			break;
		len += (size_t)n;
	}
	jit->info_log[len] = 0;
	jit->info_size = len + 1;
}

/* True if the text says that it is of a later PTX than the parser knows. */
static bool is_later_ptx(const char *text)
{
	const char *at = strstr(text, ".version");
	unsigned major, minor;

	return at && sscanf(at, ".version %3u.%3u", &major, &minor) == 2 &&
	       major * 10 + minor > PTX_VERSION_MAX;
}

static CUresult text_parse(const char *text, size_t size, struct ptx_log *log,
			   struct ptx_module **ret_ptx)
{
	struct ptx_module *ptx;
	int r = ptx_parse(text, size, log, &ptx);

	if (r == -EINVAL && is_later_ptx(text))
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (r < 0)
		return ptx_result(r);
	if (ptx->sm > SOFT_SM) {
		log_line(log, "ptxas fatal   : SM version specified by .target is higher "
			      "than default SM version assumed");
		ptx_module_free(ptx);
		return CUDA_ERROR_INVALID_PTX;
	}
	*ret_ptx = ptx;
	return CUDA_SUCCESS;
}

/* The modules of an image's parts, before they are linked. */
struct inputs {
	struct ptx_module **v;
	size_t n, cap;
	/* Error of the first part that is machine code alone, or PTX for later GPUs. */
	CUresult missing;
	char targets[DEV_TARGETS_BYTES];
	bool left_out; /* there is one behind the first part */
};

static void inputs_fini(struct inputs *in)
{
	for (size_t i = 0; i < in->n; i++)
		ptx_module_free(in->v[i]);
	free(in->v);
}

static CUresult inputs_add(struct inputs *in, const struct image_part *part,
			   struct ptx_log *log)
{
	_cleanup_free_ char *text = NULL;
	struct ptx_module **v;
	size_t size;
	CUresult res;

	if (in->n == in->cap) {
		v = realloc(in->v, (2 * in->cap + 1) * sizeof(struct ptx_module *));
		if (!v)
			return CUDA_ERROR_OUT_OF_MEMORY;
		in->v = v;
		in->cap = 2 * in->cap + 1;
	}
	res = image_ptx(part->data, part->size, &text, &size);
	/* Measured on an H200: text that is no PTX at all is not a PTX error. */
	if (!res && !memmem(text, size, ".version", strlen(".version")))
		res = CUDA_ERROR_INVALID_IMAGE;
	if (!res)
		res = text_parse(text, size, log, &in->v[in->n]);
	in->n += !res;
	return res;
}

/*
 * Parses all parts. Any of several may be machine code alone: the first as the linked
 * form of the others, which we link ourselves, and libraries like libcudadevrt.
 */
static CUresult inputs_read(struct inputs *in, const void *image, size_t size,
			    struct ptx_log *log)
{
	CUresult res;
	struct image_part part;
	size_t pos = 0;
	int r;

	while ((r = image_next(image, size, &pos, &part)) == 1) {
		res = inputs_add(in, &part, log);
		if (res && res != CUDA_ERROR_NO_BINARY_FOR_GPU)
			return res;
		if (res && !in->missing)
			fatbin_targets(part.data, part.size, in->targets,
				       sizeof(in->targets));
		in->missing = res ? res : in->missing;
		in->left_out |= res && part.data != image;
	}
	if (r < 0)
		return CUDA_ERROR_INVALID_IMAGE;
	if (!in->n)
		return in->missing ? in->missing : CUDA_ERROR_INVALID_IMAGE;
	return CUDA_SUCCESS;
}

static CUresult inputs_link(struct inputs *in, struct ptx_log *log,
			    struct ptx_module **ret_ptx)
{
	if (in->n == 1) {
		*ret_ptx = in->v[0];
		in->n = 0;
		return CUDA_SUCCESS;
	}
	return ptx_result(
		ptx_link((const struct ptx_module *const *)in->v, in->n, log, ret_ptx));
}

static CUresult module_new(struct dev_ctx *ctx, const void *image, size_t image_size,
			   const struct dev_jit *jit, struct ptx_log *log,
			   char ret_no_code[DEV_TARGETS_BYTES],
			   struct dev_module **ret_module)
{
	_cleanup_(module_freep) struct dev_module *mod = calloc(1, sizeof(*mod));
	_cleanup_(inputs_fini) struct inputs in = {0};
	CUresult res;

	if (!mod)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mod->ctx = ctx;
	list_init(&mod->link);
	if (jit) {
		mod->managed = jit->managed;
		mod->n_managed = jit->n_managed;
		mod->managed_set = jit->managed_set;
	}
	res = inputs_read(&in, image, image_size, log);
	if (!res)
		res = inputs_link(&in, log, &mod->ptx);
	if (!res)
		res = module_build(mod, log);
	/* If a part was left out, the name that PTX calls in vain is in that part. */
	if (res == CUDA_ERROR_INVALID_PTX && in.left_out)
		res = in.missing;
	if (res == CUDA_ERROR_NO_BINARY_FOR_GPU)
		memcpy(ret_no_code, in.targets, sizeof(in.targets));
	if (!res)
		*ret_module = steal(mod);
	return res;
}

CUresult soft_module_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			  struct dev_jit *jit, struct dev_module **ret_module)
{
	CUresult res = soft_ctx_status(ctx);
	uint64_t start = clock_now_ns();
	char own[LOG_BYTES] = "";
	struct ptx_log log = {own, sizeof(own), 0};
	bool has_log = jit && jit->error_log && jit->error_size;
	char no_code[DEV_TARGETS_BYTES] = "";

	if (res)
		return res;
	if (has_log)
		log = (struct ptx_log){jit->error_log, jit->error_size, 0};
	log.buf[0] = 0;
	res = module_new(ctx, image, image_size, jit, &log, no_code, ret_module);
	if (jit)
		memcpy(jit->no_code, no_code, sizeof(no_code));
	if (has_log)
		jit->error_size = log.len + 1;
	if (jit && jit->info_log && jit->info_size) {
		if (res)
			jit->info_log[0] = 0;
		if (res)
			jit->info_size = 1;
		else
			info_log(*ret_module, jit);
	}
	if (jit)
		jit->wall_time_ms = (float)((double)(clock_now_ns() - start) / 1e6);
	if (res)
		return res;
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->modules, &(*ret_module)->link);
	return CUDA_SUCCESS;
}

CUresult soft_library_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			   struct dev_jit *jit, struct dev_module **ret_module)
{
	CUresult res = soft_module_load(ctx, image, image_size, jit, ret_module);
	struct dev_module *mod;

	if (res != CUDA_ERROR_NO_BINARY_FOR_GPU)
		return res;
	mod = calloc(1, sizeof(*mod));
	if (!mod)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mod->ctx = ctx;
	mod->missing = res;
	list_init(&mod->link);
	scoped_lock(&ctx->dev->lock);
	list_append(&ctx->modules, &mod->link);
	*ret_module = mod;
	return CUDA_SUCCESS;
}

static CUresult list_managed(const struct ptx_module *ptx, struct ptx_log *log,
			     struct dev_managed **ret, unsigned *ret_n)
{
	_cleanup_free_ struct dev_managed *v = NULL;
	struct simt_program *prog;
	struct simt_var *vars;
	unsigned n_managed = 0;
	size_t n;
	int r = simt_program_new(ptx, log, &prog);

	if (r < 0)
		return ptx_result(r);
	vars = simt_program_vars(prog, &n);
	v = calloc(n + 1, sizeof(*v));
	for (size_t i = 0; v && i < n; i++) {
		if (vars[i].managed)
			v[n_managed++] = (struct dev_managed){.name = vars[i].name,
							      .bytes = vars[i].bytes};
	}
	*ret = v ? dev_managed_copy(v, n_managed) : NULL;
	*ret_n = *ret ? n_managed : 0;
	simt_program_free(prog);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult soft_module_managed(struct dev_ctx *ctx, const void *image, size_t image_size,
			     struct dev_managed **ret, unsigned *ret_n)
{
	_cleanup_(inputs_fini) struct inputs in = {0};
	struct ptx_module *ptx = NULL;
	char text[LOG_BYTES] = "";
	struct ptx_log log = {text, sizeof(text), 0};
	CUresult res = inputs_read(&in, image, image_size, &log);

	if (!res)
		res = inputs_link(&in, &log, &ptx);
	if (!res)
		res = list_managed(ptx, &log, ret, ret_n);
	ptx_module_free(ptx);
	return res;
}

void soft_module_unload(struct dev_module *mod)
{
	struct dev_ctx *ctx = mod->ctx;

	pthread_mutex_lock(&ctx->dev->lock);
	soft_ctx_wait_locked(ctx); /* one of its kernels may be queued or running */
	list_remove(&mod->link);
	pthread_mutex_unlock(&ctx->dev->lock);
	soft_output_flush(&ctx->output); /* records may point into the module */
	soft_module_free(mod);
}

/* ---- device_ops ---- */

CUresult soft_module_status(struct dev_module *mod)
{
	CUresult res = soft_ctx_status(mod->ctx);

	return res ? res : mod->missing;
}

CUresult soft_module_function_count(struct dev_module *mod, unsigned *ret_n)
{
	CUresult res = soft_module_status(mod);

	if (!res)
		*ret_n = mod->n_funcs;
	return res;
}

uint64_t soft_module_memory(struct dev_module *mod)
{
	return soft_memory_charge(mod->bytes);
}

CUresult soft_module_function(struct dev_module *mod, const char *name,
			      struct dev_func **ret_func)
{
	struct dev_func key = {.name = name}, *pkey = &key, **hit;
	CUresult res = soft_module_status(mod);

	if (res || !*name)
		return res ? res : CUDA_ERROR_INVALID_VALUE; /* as the driver has it */
	hit = bsearch(&pkey, mod->by_name, mod->n_funcs, sizeof(struct dev_func *),
		      func_by_name);
	if (!hit)
		return CUDA_ERROR_NOT_FOUND;
	*ret_func = *hit;
	return CUDA_SUCCESS;
}

CUresult soft_module_global(struct dev_module *mod, const char *name,
			    CUdeviceptr *ret_addr, size_t *ret_size)
{
	struct simt_var key = {.name = name};
	const struct simt_var *pkey = &key, **hit;
	CUresult res = soft_module_status(mod);
	struct dev_func *f;

	if (!res && (!*name || !soft_module_function(mod, name, &f)))
		res = CUDA_ERROR_INVALID_VALUE; /* as the driver has it */
	if (res)
		return res;
	hit = bsearch(&pkey, mod->vars, mod->n_vars, sizeof(struct simt_var *),
		      var_by_name);
	if (!hit)
		return CUDA_ERROR_NOT_FOUND;
	*ret_addr = (*hit)->addr;
	*ret_size = (*hit)->bytes;
	return CUDA_SUCCESS;
}

CUresult soft_module_function_at(struct dev_module *mod, unsigned index,
				 struct dev_func **ret_func, const char **ret_name)
{
	CUresult res = soft_module_status(mod);

	if (res || index >= mod->n_funcs)
		return res ? res : CUDA_ERROR_INVALID_VALUE;
	*ret_func = &mod->funcs[index];
	*ret_name = mod->funcs[index].name;
	return CUDA_SUCCESS;
}
