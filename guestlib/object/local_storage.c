/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: values that libraries keep with a context (private table CONTEXT_LOCAL_STORAGE)
 *
 * Each embedded CUDA runtime keeps its own state of a context here, under a key of its
 * own; the value means nothing to us and never leaves the process. Few keys exist, so a
 * list will do. A destructor runs without the lock: it calls back into the driver.
 */
#include <pthread.h>
#include <stdlib.h>

#include "object/context.h"

struct storage {
	struct list link; /* guest_ctx.storage */
	void *key, *value;
	ctx_storage_dtor dtor;
};

static pthread_mutex_t storage_lock = PTHREAD_MUTEX_INITIALIZER;

/* The runtime also passes -1 for the current context. */
static struct guest_ctx *storage_ctx(CUcontext ctx)
{
	return ctx_lookup((uintptr_t)ctx == UINTPTR_MAX ? NULL : ctx);
}

static struct storage *find_locked(struct guest_ctx *c, const void *key)
{
	struct storage *s;

	list_for_each (s, &c->storage, link) {
		if (s->key == key)
			return s;
	}
	return NULL;
}

CUresult ctx_storage_put(CUcontext ctx, void *key, void *value, ctx_storage_dtor dtor)
{
	struct guest_ctx *c = storage_ctx(ctx);
	struct storage *s, *fresh;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&storage_lock);
	s = find_locked(c, key);
	if (!s) {
		s = steal(fresh);
		s->key = key;
		list_append(&c->storage, &s->link);
	}
	s->value = value;
	s->dtor = dtor;
	pthread_mutex_unlock(&storage_lock);
	free(fresh);
	return CUDA_SUCCESS;
}

CUresult ctx_storage_delete(CUcontext ctx, void *key)
{
	struct guest_ctx *c = storage_ctx(ctx);
	struct storage *s;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&storage_lock);
	s = find_locked(c, key);
	if (s)
		list_remove(&s->link);
	pthread_mutex_unlock(&storage_lock);
	free(s);
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ctx_storage_get(void **ret_value, CUcontext ctx, void *key)
{
	struct guest_ctx *c = storage_ctx(ctx);
	struct storage *s;
	void *value = NULL;

	if (!ret_value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&storage_lock);
	s = find_locked(c, key);
	if (s)
		value = s->value;
	pthread_mutex_unlock(&storage_lock);
	/* The runtime relies on a failure to create its state. */
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_value = value;
	return CUDA_SUCCESS;
}

static struct storage *pop(struct guest_ctx *c)
{
	struct storage *s = NULL;

	pthread_mutex_lock(&storage_lock);
	if (!list_empty(&c->storage)) {
		s = list_entry(c->storage.prev, struct storage, link);
		list_remove(&s->link);
	}
	pthread_mutex_unlock(&storage_lock);
	return s;
}

void ctx_storage_fini(struct guest_ctx *c)
{
	struct storage *s;

	while ((s = pop(c))) {
		if (s->dtor)
			s->dtor((CUcontext)(uintptr_t)c->handle, s->key, s->value);
		free(s);
	}
}
