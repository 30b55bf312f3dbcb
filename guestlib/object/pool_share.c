/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imported memory of other processes' pools. The worker knows it as cuIpc's, so what was
 * imported is kept here: programs free it like their own. That waits for the context's
 * work, where the real driver would free in the order of the stream.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "calls.h"
#include "object/extent.h"
#include "object/pool.h"

struct import {
	struct list link;
	CUdeviceptr ptr;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list imports = {&imports, &imports};
_Atomic unsigned pool_imports; /* how many; relaxed: who frees has been given one */

static CUresult open_memory(struct guest_thread *t, const uint64_t name[2],
			    uint64_t offset, uint64_t bytes, CUdeviceptr *ret_ptr)
{
	struct ipc_mem_open_rep rep;
	CUresult r = call_ipc_mem_open(t, name, offset, bytes, &rep);

	if (r)
		return r;
	*ret_ptr = rep.addr;
	return CUDA_SUCCESS;
}

CUresult pool_import(struct guest_thread *t, const uint64_t name[2], uint64_t offset,
		     uint64_t bytes, CUdeviceptr *ret_ptr)
{
	struct import *i = malloc(sizeof(*i));
	CUresult r;

	if (!i)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = open_memory(t, name, offset, bytes, &i->ptr);
	if (r) {
		free(i);
		return r;
	}
	*ret_ptr = i->ptr;
	pthread_mutex_lock(&lock);
	list_append(&imports, &i->link);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add_explicit(&pool_imports, 1, memory_order_relaxed);
	return CUDA_SUCCESS;
}

static CUresult close_memory(struct guest_thread *t, CUdeviceptr ptr)
{
	CUresult r;

	extent_forget(t, ptr);
	r = call_ipc_mem_close(t, ptr);
	extent_forget(t, ptr);
	return r;
}

/* Imported twice, it is in the list twice. */
static bool forget(CUdeviceptr ptr)
{
	struct import *i, *found = NULL;

	pthread_mutex_lock(&lock);
	list_for_each (i, &imports, link) {
		if (i->ptr == ptr)
			found = i;
	}
	if (found)
		list_remove(&found->link);
	pthread_mutex_unlock(&lock);
	if (!found)
		return false;
	free(found);
	return true;
}

bool pool_import_take(struct guest_thread *t, CUdeviceptr ptr, CUresult *ret)
{
	if (!forget(ptr))
		return false;
	atomic_fetch_sub_explicit(&pool_imports, 1, memory_order_relaxed);
	*ret = close_memory(t, ptr);
	/* INVALID_VALUE: its context ended first, and another allocation may be there by
	 * now. */
	return *ret != CUDA_ERROR_INVALID_VALUE;
}
