/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: loading code
 *
 * An image is posted (image_send.c), and one command that waits loads it: so the host
 * compiles while nothing else is asked of it, and the messages of its compiler come back
 * with the result.
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
#include "code/image_send.h"
#include "code/jit.h"
#include "code/module.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/hostmem.h"

/* Flag of module_load beside those of jit.h. */
#define JIT_MANAGED 8u

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

/* Maps the variables in managed memory that the worker has shared. */
static CUresult map_managed(struct guest_thread *t, struct guest_module *m,
			    const struct module_load_rep *rep)
{
	struct hostmem h = {.base = rep->managed_addr,
			    .size = rep->managed_size,
			    .flags = CU_MEMHOSTALLOC_DEVICEMAP,
			    .managed = true,
			    .variable = true,
			    .where = {.preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0},
				      .last = {CU_MEM_LOCATION_TYPE_INVALID, 0}},
			    .host = rep->managed_addr,
			    .dev = rep->managed_addr};

	if (!rep->managed_size)
		return CUDA_SUCCESS;
	if (rep->managed_addr - guest_process.host_base >= guest_process.host_size ||
	    rep->managed_size >
		    guest_process.host_base + guest_process.host_size - rep->managed_addr)
		return guest_broken(t);
	if (link_map(guest_process.link, h.base, rep->managed_offset, h.size) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->managed = h.base;
	return hostmem_insert(&h);
}

static void unmap_managed(struct guest_module *m)
{
	struct hostmem h;

	if (m->managed && hostmem_take(m->managed, false, &h))
		link_unmap(guest_process.link, h.base, h.size);
	m->managed = 0;
}

static CUresult load(struct guest_thread *t, struct guest_module *m, uint64_t image,
		     uint64_t source, struct jit_options *jit)
{
	struct module_load_cmd *cmd = begin_module_load(t, jit->n_others);
	struct module_load_reply out;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->module = m->handle;
	cmd->image = image;
	cmd->source = source;
	cmd->max_registers = jit->max_registers;
	cmd->optimization_level = jit->optimization_level;
	cmd->jit_flags = jit->flags | (m->wants_managed ? JIT_MANAGED : 0);
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
	if (out.rep->status)
		return out.rep->status;
	m->function_count = out.rep->function_count;
	return map_managed(t, m, out.rep);
}

/* True for errors that the driver reports of a library only when something of it is asked
 * for. */
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

/* Loads machine code that was compiled or found in the cache. Its logs are those of
 * compiling it. */
static CUresult load_compiled(struct guest_thread *t, struct guest_module *m,
			      const struct compiled *c, const void *image, size_t max)
{
	struct jit_options plain = {.optimization_level = -1};
	uint64_t number, source = 0;
	CUresult r = image_send_bytes(t, c->code, c->size, &number);

	if (!r && guest_process.device.features & FEATURE_SOURCES)
		r = image_send(t, image, max, &source);
	return r ? r : load(t, m, number, source, &plain);
}

static CUresult send_and_load(struct guest_thread *t, struct guest_module *m,
			      const void *image, size_t max, struct jit_options *jit)
{
	struct compiled c;
	uint64_t number;
	CUresult r;

	if (compiled_get(t, image, max, jit, &c)) {
		r = load_compiled(t, m, &c, image, max);
		if (is_about_image(r))
			code_cache_drop(&c.key);
		free(c.code);
		if (!is_about_image(r))
			return r;
	}
	r = image_send(t, image, max, &number);
	return r ? r : load(t, m, number, 0, jit);
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

CUresult module_need_managed(struct guest_module *m)
{
	CUresult r;

	pthread_mutex_lock(&m->lock);
	m->wants_managed = true;
	r = need_locked(m);
	if (r == CUDA_SUCCESS && !m->managed)
		r = CUDA_ERROR_NOT_FOUND;
	pthread_mutex_unlock(&m->lock);
	return r;
}

CUresult module_unload(struct guest_thread *t, struct guest_module *m)
{
	CUresult r;

	if (m->image || m->failed) { /* the worker does not know it */
		module_free(m);
		return CUDA_SUCCESS;
	}
	unmap_managed(m); /* the worker frees it */
	r = call_module_unload(t, m->handle);
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

CUresult module_load_image(CUmodule *ret_module, const void *image, size_t max,
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
