/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry functions of a module: found once at the host, with all that is known about them,
 * and from then on in the module's own table.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "code/module.h"

#define BUCKETS_FIRST 16 /* a power of two, doubled when there are more functions */

static uint32_t hash_name(const char *name)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	while (*name)
		h = (h ^ (unsigned char)*name++) * 16777619u;
	return h;
}

static struct guest_func *find_locked(struct guest_module *m, const char *name)
{
	struct guest_func *f;

	if (!m->n_buckets)
		return NULL;
	f = m->names[hash_name(name) & (m->n_buckets - 1)];
	while (f && strcmp(f->name, name) != 0)
		f = f->next_name;
	return f;
}

static void insert_locked(struct guest_module *m, struct guest_func *f)
{
	struct guest_func **bucket = &m->names[hash_name(f->name) & (m->n_buckets - 1)];

	f->next_name = *bucket;
	*bucket = f;
}

static bool grow_locked(struct guest_module *m)
{
	unsigned n = m->n_buckets ? 2 * m->n_buckets : BUCKETS_FIRST;
	struct guest_func **names, *f;

	if (m->n_funcs < m->n_buckets)
		return true;
	names = calloc(n, sizeof(struct guest_func *));
	if (!names)
		return m->n_buckets > 0;
	free(m->names);
	m->names = names;
	m->n_buckets = n;
	for (f = m->funcs; f; f = f->next) {
		if (!find_locked(m, f->name))
			insert_locked(m, f);
	}
	return true;
}

static struct guest_func *func_new(const struct module_function_reply *in)
{
	struct guest_func *f;
	unsigned i, n = in->rep->param_count;

	f = calloc(1, sizeof(*f) + n * sizeof(f->params[0]));
	if (!f)
		return NULL;
	f->name = strndup(in->real_name, in->rep->real_name_size);
	if (!f->name) {
		free(f);
		return NULL;
	}
	for (i = 0; i < FUNC_ATTRIBUTES; i++)
		f->attributes[i] = in->rep->attribute[i];
	f->n_params = n;
	for (i = 0; i < n; i++) {
		f->params[i].offset = in->param[i].offset;
		f->params[i].size = in->param[i].size;
		f->params_size =
			MAX(f->params_size, in->param[i].offset + in->param[i].size);
	}
	return f;
}

/* The layout decides how much a launch copies from the program: it must fit a message. */
static bool layout_ok(const struct module_function_reply *in)
{
	unsigned i;

	for (i = 0; i < in->rep->param_count; i++) {
		uint64_t end = (uint64_t)in->param[i].offset + in->param[i].size;

		if (end > GUEST_PARAMS_MAX)
			return false;
	}
	return true;
}

/* Asks the host; the new function is in the module's list but not yet in its tables. */
static CUresult fetch_locked(struct guest_thread *t, struct guest_module *m,
			     enum handle_type type, const char *name, unsigned index,
			     struct guest_func **ret_func)
{
	uint64_t handle = guest_handle_new(type, NULL);
	struct module_function_reply in;
	struct module_function_cmd *cmd;
	struct lane_reply reply;
	struct guest_func *f;
	size_t size = strlen(name) + 1;
	CUresult r;

	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cmd = begin_module_function(t, (uint32_t)size);
	if (!cmd) {
		guest_handle_free(handle);
		return guest_lost(t);
	}
	cmd->module = m->handle;
	cmd->func = handle;
	cmd->index = index;
	memcpy(module_function_cmd_name(cmd), name, size);
	r = guest_call(t, sizeof(struct module_function_rep), &reply);
	if (r) {
		guest_handle_free(handle);
		module_warn_no_code(r);
		return r;
	}
	if (module_function_reply_decode(reply.body, reply.body_size, &in) < 0 ||
	    !layout_ok(&in)) {
		guest_handle_free(handle);
		return guest_broken(t);
	}
	f = func_new(&in);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY; /* the handle stays taken at the worker
						  */
	f->handle = handle;
	f->module = m;
	f->next = m->funcs;
	m->funcs = f;
	m->n_funcs++;
	guest_handle_set(handle, f);
	*ret_func = f;
	return CUDA_SUCCESS;
}

CUresult module_get_func(struct guest_thread *t, struct guest_module *m,
			 enum handle_type type, const char *name,
			 struct guest_func **ret_func)
{
	struct guest_func *f;
	CUresult r = CUDA_SUCCESS;

	if (!*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (strlen(name) >= GUEST_NAME_MAX)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&m->lock);
	f = find_locked(m, name);
	if (!f) {
		r = fetch_locked(t, m, type, name, 0, &f);
		if (r == CUDA_SUCCESS && grow_locked(m) && !find_locked(m, f->name))
			insert_locked(m, f);
	}
	pthread_mutex_unlock(&m->lock);
	if (r == CUDA_SUCCESS)
		*ret_func = f;
	return r;
}

static CUresult get_at_locked(struct guest_thread *t, struct guest_module *m,
			      enum handle_type type, unsigned index,
			      struct guest_func **ret_func)
{
	struct guest_func *f, *known;
	CUresult r;

	if (index >= m->function_count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m->by_index)
		m->by_index = calloc(m->function_count, sizeof(struct guest_func *));
	if (!m->by_index)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!m->by_index[index]) {
		r = fetch_locked(t, m, type, "", index, &f);
		if (r)
			return r;
		/* One function has one handle: the one under which it was first found. */
		known = grow_locked(m) ? find_locked(m, f->name) : NULL;
		if (!known && m->n_buckets)
			insert_locked(m, f);
		m->by_index[index] = known ? known : f;
	}
	*ret_func = m->by_index[index];
	return CUDA_SUCCESS;
}

CUresult module_get_func_at(struct guest_thread *t, struct guest_module *m,
			    enum handle_type type, unsigned index,
			    struct guest_func **ret_func)
{
	CUresult r;

	pthread_mutex_lock(&m->lock);
	r = get_at_locked(t, m, type, index, ret_func);
	pthread_mutex_unlock(&m->lock);
	return r;
}
