// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: loading code
 *
 * An image goes to the host as it is, cut into pieces that are posted, and one command
 * that waits loads it: so the host compiles while nothing else is asked of it, and the
 * messages of its compiler come back with the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "calls.h"
#include "code/compiled.h"
#include "feature.h"
#include "core/image.h"
#include "code/jit.h"
#include "code/module.h"
#include "core/process.h"
#include "core/thread.h"

static _Atomic uint64_t next_image = 1;

/* ---- sending ---- */

static CUresult send_piece(struct guest_thread *t, uint64_t image, uint64_t offset,
			   uint64_t total, const void *data, uint32_t size)
{
	void *payload;
	struct image_data_cmd *cmd = begin_image_data(t, size, &payload);

	if (!cmd)
		return guest_lost(t);
	cmd->image = image;
	cmd->offset = offset;
	cmd->total = total;
	memcpy(payload, data, size);
	return guest_post(t);
}

static CUresult send_part(struct guest_thread *t, uint64_t image, uint64_t *offset,
			  uint64_t total, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		uint32_t n = (uint32_t)MIN(size, (size_t)WIRE_PAYLOAD_MAX);
		CUresult r = send_piece(t, image, *offset, total, p, n);

		if (r)
			return r;
		*offset += n;
		p += n;
		size -= n;
	}
	return CUDA_SUCCESS;
}

CUresult module_send_bytes(struct guest_thread *t, const void *data, size_t size,
			   uint64_t *ret_image)
{
	uint64_t offset = 0;

	if (!size || size > IMAGE_SIZE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_image = atomic_fetch_add(&next_image, 1);
	return send_part(t, *ret_image, &offset, size, data, size);
}

static CUresult send_image(struct guest_thread *t, const void *image, size_t max,
			   uint64_t *ret_image)
{
	uint64_t offset = 0, total = 0, number;
	const void *data;
	size_t size;
	unsigned i;
	int r;

	for (i = 0; (r = image_part(image, max, i, &data, &size)) == 0; i++)
		total += size;
	if (r != -ENOENT || total > IMAGE_SIZE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	number = atomic_fetch_add(&next_image, 1);
	for (i = 0; image_part(image, max, i, &data, &size) == 0; i++) {
		CUresult res = send_part(t, number, &offset, total, data, size);

		if (res)
			return res;
	}
	*ret_image = number;
	return CUDA_SUCCESS;
}

/* ---- loading ---- */

static void module_free(struct guest_module *m)
{
	struct guest_func *f, *next;

	owned_remove(&m->owned);
	for (f = m->funcs; f; f = next) {
		next = f->next;
		guest_handle_free(f->handle);
		free(f->name);
		free(f->old);
		free(f);
	}
	guest_handle_free(m->handle);
	pthread_mutex_destroy(&m->lock);
	free(m->names);
	free(m->by_index);
	free(m);
}

static void drop(struct owned *o)
{
	module_free(container_of(o, struct guest_module, owned));
}

static struct guest_module *module_new(enum handle_type type)
{
	struct guest_module *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	owned_add(NULL, &m->owned, drop);
	m->handle = guest_handle_new(type, m);
	if (m->handle)
		return m;
	module_free(m);
	return NULL;
}

struct guest_module *module_lookup(uint64_t handle)
{
	enum handle_type type = handle_type(handle);

	if (type != HANDLE_MODULE && type != HANDLE_LIBRARY)
		return NULL;
	return guest_object(handle, type);
}

/* Programs often look at no error here, and compute on. */
void module_warn_no_code(CUresult r)
{
	static _Atomic bool told;

	if (r != CUDA_ERROR_NO_BINARY_FOR_GPU ||
	    guest_process.device.features & FEATURE_COMPILES ||
	    atomic_exchange_explicit(&told, true, memory_order_relaxed))
		return;
	log_warning("the software GPU runs PTX, and this program has machine code only: "
		    "build it with nvcc -gencode arch=compute_90,code=compute_90 (CuPy: "
		    "CUPY_COMPILE_WITH_PTX=1 CUPY_ACCELERATORS=)");
}

static CUresult load(struct guest_thread *t, struct guest_module *m, uint64_t image,
		     struct jit_options *jit)
{
	struct module_load_cmd *cmd = begin_module_load(t, jit->n_others);
	struct module_load_reply out;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->module = m->handle;
	cmd->image = image;
	cmd->max_registers = jit->max_registers;
	cmd->optimization_level = jit->optimization_level;
	cmd->jit_flags = jit->flags;
	cmd->info_size = jit->info.room;
	cmd->error_size = jit->error.room;
	jit_put_others(module_load_cmd_option(cmd), jit);
	r = guest_call(t, sizeof(struct module_load_rep), &reply);
	if (r)
		return r;
	if (module_load_reply_decode(reply.body, reply.body_size, &out) < 0 ||
	    out.rep->function_count > MODULE_FUNCTIONS_MAX)
		return guest_broken(t);
	jit_store_log(&jit->info, out.info_log, out.rep->info_log_size);
	jit_store_log(&jit->error, out.error_log, out.rep->error_log_size);
	jit_store_wall_time(jit, out.rep->wall_time_ms);
	module_warn_no_code(out.rep->status);
	if (!out.rep->status)
		m->function_count = out.rep->function_count;
	return out.rep->status;
}

/* Of a library the driver says these only when something of it is asked for. */
static bool is_about_image(CUresult r)
{
	switch ((int)r) {
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILATION_DISABLED:
	case CUDA_ERROR_INVALID_SOURCE:
		return true;
	}
	return false;
}

/* Machine code out of the cache, or for it. Its logs are those of compiling it. */
static CUresult load_compiled(struct guest_thread *t, struct guest_module *m,
			      const struct compiled *c)
{
	struct jit_options plain = {.optimization_level = -1};
	uint64_t number;
	CUresult r = module_send_bytes(t, c->code, c->size, &number);

	return r ? r : load(t, m, number, &plain);
}

static CUresult send_and_load(struct guest_thread *t, struct guest_module *m,
			      const void *image, size_t max, struct jit_options *jit)
{
	struct compiled c;
	uint64_t number;
	CUresult r;

	if (compiled_get(t, image, max, jit, &c)) {
		r = load_compiled(t, m, &c);
		if (is_about_image(r))
			code_cache_drop(&c.key);
		free(c.code);
		if (!is_about_image(r))
			return r;
	}
	r = send_image(t, image, max, &number);
	return r ? r : load(t, m, number, jit);
}

CUresult module_load_as(struct guest_thread *t, enum handle_type type, const void *image,
			size_t max, unsigned n, CUjit_option *options, void **values,
			struct guest_module **ret_module)
{
	struct guest_module *m;
	struct jit_options jit;
	CUresult r = jit_parse(n, options, values, &jit);

	if (r)
		return r;
	m = module_new(type);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = send_and_load(t, m, image, max, &jit);
	if (type == HANDLE_LIBRARY && is_about_image(r)) {
		m->failed = r;
		r = CUDA_SUCCESS;
	}
	if (r) {
		module_free(m);
		return r;
	}
	if (type == HANDLE_MODULE)
		owned_add(t->top, &m->owned, drop);
	*ret_module = m;
	return CUDA_SUCCESS;
}

CUresult module_defer(const void *image, struct guest_module **ret_module)
{
	struct guest_module *m;
	const void *data;
	size_t size;
	unsigned i;
	int r;

	for (i = 0; (r = image_part(image, SIZE_MAX, i, &data, &size)) == 0; i++)
		;
	m = module_new(HANDLE_LIBRARY);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (r == -ENOENT)
		m->image = image;
	else
		m->failed = CUDA_ERROR_INVALID_IMAGE;
	*ret_module = m;
	return CUDA_SUCCESS;
}

static CUresult need_locked(struct guest_module *m)
{
	struct jit_options jit;
	struct guest_thread *t;
	CUresult r;

	if (!m->image)
		return m->failed;
	/* A library belongs to no context, but a worker loads it into one. */
	r = guest_enter(NEED_CTX, &t);
	if (r == CUDA_ERROR_INVALID_CONTEXT)
		r = guest_enter(NEED_INIT, &t);
	if (r == CUDA_SUCCESS)
		r = jit_parse(0, NULL, NULL, &jit);
	if (r)
		return r;
	r = send_and_load(t, m, m->image, SIZE_MAX, &jit);
	if (r && !is_about_image(r))
		return r; /* the next try may end better */
	m->image = NULL;
	m->failed = r;
	return r;
}

CUresult module_need(struct guest_module *m)
{
	CUresult r;

	pthread_mutex_lock(&m->lock);
	r = need_locked(m);
	pthread_mutex_unlock(&m->lock);
	return r;
}

CUresult module_unload(struct guest_thread *t, struct guest_module *m)
{
	struct module_unload_cmd *cmd;
	struct lane_reply reply;
	CUresult r;

	if (m->image || m->failed) { /* the worker does not know it */
		module_free(m);
		return CUDA_SUCCESS;
	}
	cmd = begin_module_unload(t);
	if (!cmd)
		return guest_lost(t);
	cmd->module = m->handle;
	r = guest_call(t, sizeof(struct module_unload_rep), &reply);
	module_free(m);
	return r;
}

CUresult module_read_file(const char *path, void **ret_data, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *data = NULL;
	struct stat st;

	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (fstat(fd, &st) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > IMAGE_SIZE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (fd_read_full(fd, data, (size_t)st.st_size) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	data[st.st_size] = '\0';
	*ret_data = steal(data);
	*ret_size = (size_t)st.st_size + 1;
	return CUDA_SUCCESS;
}

/* ---- cuModule*: see also function.c ---- */

static CUresult load_module(CUmodule *ret_module, const void *image, size_t max,
			    unsigned n, CUjit_option *options, void **values)
{
	struct guest_module *m;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!ret_module || !image)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_load_as(t, HANDLE_MODULE, image, max, n, options, values, &m);
	if (r == CUDA_SUCCESS)
		*ret_module = (CUmodule)(uintptr_t)m->handle;
	return r;
}

CUresult module_load_image(CUmodule *ret_module, const void *image, unsigned n,
			   CUjit_option *options, void **values)
{
	return load_module(ret_module, image, SIZE_MAX, n, options, values);
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
	return module_load_image(module, image, 0, NULL, NULL);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image,
				    unsigned int n_options, CUjit_option *options,
				    void **values)
{
	return module_load_image(module, image, n_options, options, values);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return module_load_image(module, image, 0, NULL, NULL);
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
	return r ? r : load_module(module, data, size, 0, NULL, NULL);
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

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *value;
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	value = getenv("CUDA_MODULE_LOADING");
	*mode = value && strcmp(value, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
						     : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
