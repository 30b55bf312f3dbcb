/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking by the driver. The logs are named when a link is created and written until it
 * ends, so they are the link's own, and handed on after each step.
 */
#include <string.h>

#include "device/cuda/module.h"

#define LOG_BYTES 28672u

struct dev_link {
	struct dev_ctx *ctx;
	CUlinkState cu;
	struct cuda_jit options;
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
	res = cu.cuLinkAddData(l->cu, type, (void *)(uintptr_t)data, size, name, 0, NULL,
			       NULL);
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
	free(l);
}
