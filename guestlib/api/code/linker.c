/* SPDX-License-Identifier: Apache-2.0 */
/* Linking at run time (cuLink*). */
#include <stdlib.h>

#include "code/image_send.h"
#include "code/linker.h"
#include "code/module.h"
#include "core/process.h"

static CUresult enter(CUlinkState state, struct guest_thread **ret_t,
		      struct guest_link **ret_l)
{
	CUresult r = guest_enter(NEED_CTX, ret_t);

	if (r)
		return r;
	*ret_l = guest_object((uintptr_t)state, HANDLE_LINK);
	return *ret_l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuLinkCreate_v2(unsigned int n, CUjit_option *options, void **values,
				 CUlinkState *state)
{
	_cleanup_free_ struct guest_link *l = NULL;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	l = calloc(1, sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = jit_parse(n, options, values, &l->jit);
	if (r)
		return r;
	l->handle = guest_handle_new(HANDLE_LINK, l);
	if (!l->handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = linker_create(t, l);
	if (r) {
		guest_handle_free(l->handle);
		return r;
	}
	*state = (CUlinkState)(uintptr_t)l->handle;
	steal(l);
	return CUDA_SUCCESS;
}

/* Logs named at this call win over those of the whole link. */
static CUresult own_logs(struct guest_link *l, unsigned n, CUjit_option *options,
			 void **values, struct jit_options *ret_jit)
{
	CUresult r = jit_parse(n, options, values, ret_jit);

	if (r)
		return r;
	if (!ret_jit->info.buf)
		ret_jit->info = l->jit.info;
	if (!ret_jit->error.buf)
		ret_jit->error = l->jit.error;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
				  size_t size, const char *name, unsigned int n,
				  CUjit_option *options, void **values)
{
	struct jit_options jit;
	struct guest_thread *t;
	struct guest_link *l;
	uint64_t image;
	CUresult r = enter(state, &t, &l);

	if (r)
		return r;
	if (!data || !size || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	r = own_logs(l, n, options, values, &jit);
	if (r == CUDA_SUCCESS)
		r = image_send_bytes(t, data, size, &image);
	return r ? r : linker_add(t, l, type, image, name ? name : "", &jit);
}

CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type,
				  const char *path, unsigned int n, CUjit_option *options,
				  void **values)
{
	_cleanup_free_ void *data = NULL;
	size_t size;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_read_file(path, &data, &size);
	/* Text keeps the NUL that reading a file adds; of others it is no part. */
	if (r == CUDA_SUCCESS && type != CU_JIT_INPUT_PTX)
		size--;
	return r ? r
		 : cuLinkAddData_v2(state, type, data, size, path, n, options, values);
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **image, size_t *ret_size)
{
	struct guest_thread *t;
	struct guest_link *l;
	size_t size = 0;
	CUresult r = enter(state, &t, &l);

	if (r)
		return r;
	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	r = linker_complete(t, l, &size);
	if (r == CUDA_SUCCESS)
		r = linker_fetch(t, l, size);
	if (r)
		return r;
	*image = l->image;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state)
{
	struct guest_thread *t;
	struct guest_link *l;
	CUresult r = enter(state, &t, &l);

	if (r)
		return r;
	r = linker_destroy(t, l);
	guest_handle_free(l->handle);
	free(l->image);
	free(l);
	return r;
}
