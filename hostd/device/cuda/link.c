/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking by the driver; of one input alone, compiling. Code that is compiled to be linked does
 * not know yet where things will be, and is slower for it: a product of matrices took 29 % longer
 * on an H100. So the first input is loaded, and if nothing else comes, what the driver has made
 * of it then is the result.
 *
 * The logs are named when a link is created and written until it
 * ends, so they are the link's own, and handed on after each step.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/module.h"
#include "device/cuda/tools/callback.h"

#define LOG_BYTES 28672u

struct dev_link {
	struct dev_ctx *ctx;
	CUlinkState cu;
	struct cuda_jit options, fresh; /* the link's; as they were before */
	unsigned n_inputs;
	/* The first input, with a NUL, and its code, while it is the only one. */
	struct link_source {
		CUjitInputType type;
		void *data, *code;
		size_t size, code_size;
	} source;
	char info[LOG_BYTES], error[LOG_BYTES];
};

CUresult cuda_link_create(struct dev_ctx *ctx, const struct dev_jit *jit,
			  struct dev_link **ret_link)
{
	_cleanup_free_ struct dev_link *l = calloc(1, sizeof(*l));
	CUresult res = cuda_enter(ctx);
	struct dev_jit own = *jit;

	if (res)
		return res;
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->ctx = ctx;
	own.info_log = l->info;
	own.error_log = l->error;
	own.info_size = own.error_size = LOG_BYTES;
	cuda_jit_fill(&l->options, &own);
	l->fresh = l->options;
	res = cu.cuLinkCreate(l->options.n, l->options.option, l->options.value, &l->cu);
	if (res)
		return cuda_note(ctx, res);
	*ret_link = steal(l);
	return CUDA_SUCCESS;
}

/* The text so far; the driver writes the NUL. */
static void give_log(const char *from, char *to, size_t *size)
{
	size_t n;

	if (!to || !*size)
		return;
	n = MIN(strnlen(from, LOG_BYTES), *size - 1);
	memcpy(to, from, n);
	to[n] = 0;
	*size = n + 1;
}

static void give_logs(const struct dev_link *l, struct dev_jit *jit)
{
	give_log(l->info, jit->info_log, &jit->info_size);
	give_log(l->error, jit->error_log, &jit->error_size);
}

static bool input_ok(CUjitInputType type, const void *data, size_t size)
{
	switch ((int)type) {
	case CU_JIT_INPUT_CUBIN:
	case CU_JIT_INPUT_FATBINARY:
		return cuda_part_ok(data, size);
	case CU_JIT_INPUT_PTX: /* with its NUL or without; one follows the image */
	case CU_JIT_INPUT_OBJECT:
	case CU_JIT_INPUT_LIBRARY:
	case CU_JIT_INPUT_NVVM:
		return size > 0;
	}
	return false;
}

/* ---- one input alone ---- */

/* A module that the driver has loaded, as it says; the structure's size comes first. */
struct module_params {
	uint64_t size;
	void *unknown[3];
	const void *code;
	uint64_t code_size;
};

static _Thread_local struct link_source *loading;
static pthread_mutex_t loads = PTHREAD_MUTEX_INITIALIZER; /* one at a time is asked for */

static void on_module(const void *params)
{
	const struct module_params *p = params;
	struct link_source *s = loading;

	if (!s || s->code || (uint32_t)p->size < sizeof(*p) || !p->code ||
	    !cuda_part_ok(p->code, p->code_size))
		return;
	s->code = malloc(p->code_size);
	if (!s->code)
		return;
	memcpy(s->code, p->code, p->code_size);
	s->code_size = p->code_size;
}

static void drop_source(struct link_source *s)
{
	free(s->data);
	free(s->code);
	*s = (struct link_source){0};
}

/* Returns whether it can be loaded, which what lacks a part cannot, and there is code. */
static bool load(struct dev_link *l, struct link_source *s)
{
	cuda_scoped_thawed(l->ctx->dev);
	struct cuda_jit options = l->fresh;
	CUmodule mod;

	pthread_mutex_lock(&loads);
	loading = s;
	if (cuda_callback_set(CUDA_CALLBACK_MODULE, on_module) &&
	    !cu.cuModuleLoadDataEx(&mod, s->data, options.n, options.option,
				   options.value))
		cu.cuModuleUnload(mod);
	(void)cuda_callback_set(CUDA_CALLBACK_MODULE, NULL);
	loading = NULL;
	pthread_mutex_unlock(&loads);
	return s->code;
}

static bool take_source(struct dev_link *l, CUjitInputType type, const void *data,
			size_t size)
{
	struct link_source *s = &l->source;

	if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
		return false;
	s->data = malloc(size + 1);
	if (!s->data)
		return false;
	memcpy(s->data, data, size);
	((char *)s->data)[size] = 0;
	s->type = type;
	s->size = size;
	if (load(l, s))
		return true;
	drop_source(s);
	return false;
}

/* Another one has come: the first is to be linked as well. */
static CUresult link_source(struct dev_link *l)
{
	struct link_source *s = &l->source;
	CUresult res = CUDA_SUCCESS;

	if (s->data)
		res = cu.cuLinkAddData(l->cu, s->type, s->data, s->size, "input", 0, NULL,
				       NULL);
	drop_source(s);
	return res;
}

/* ---- links ---- */

CUresult cuda_link_add(struct dev_link *l, CUjitInputType type, const void *data,
		       size_t size, const char *name, struct dev_jit *jit)
{
	CUresult res = cuda_enter(l->ctx);

	if (res)
		return res;
	if (!input_ok(type, data, size)) {
		give_logs(l, jit);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	if (!l->n_inputs++ && take_source(l, type, data, size)) {
		give_logs(l, jit);
		return CUDA_SUCCESS;
	}
	res = link_source(l);
	if (!res)
		res = cu.cuLinkAddData(l->cu, type, (void *)(uintptr_t)data, size, name,
				       0, NULL, NULL);
	give_logs(l, jit);
	return cuda_note(l->ctx, res);
}

CUresult cuda_link_complete(struct dev_link *l, struct dev_jit *jit,
			    const void **ret_data, size_t *ret_size)
{
	CUresult res = cuda_enter(l->ctx);
	void *data;
	size_t size;

	if (res)
		return res;
	if (l->source.code) {
		*ret_data = l->source.code;
		*ret_size = l->source.code_size;
		give_logs(l, jit);
		return CUDA_SUCCESS;
	}
	res = cu.cuLinkComplete(l->cu, &data, &size);
	give_logs(l, jit);
	if (res)
		return cuda_note(l->ctx, res);
	*ret_data = data;
	*ret_size = size;
	return CUDA_SUCCESS;
}

void cuda_link_destroy(struct dev_link *l)
{
	if (!cuda_enter(l->ctx))
		cuda_note(l->ctx, cu.cuLinkDestroy(l->cu));
	drop_source(&l->source);
	free(l);
}
