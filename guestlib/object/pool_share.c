// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of other processes. A descriptor of a pool is a file in memory that says no more
 * than that it is one; what is shared is memory, allocation by allocation, as cuIpc's is.
 * The worker knows imported memory as cuIpc's too, so what was imported is kept here:
 * programs free it like their own. That waits for the context's work, where the real
 * driver would free in the order of the stream.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "calls.h"
#include "object/extent.h"
#include "object/pool.h"
#include "core/process.h"

#define POOL_MAGIC 0x316c6f6f507477ull
#define DATA_MAGIC 0x316d654d6c6f6f50ull

struct mem_data {
	uint64_t magic, name[2], offset, bytes, zero[3];
};
static_assert(sizeof(struct mem_data) == sizeof(CUmemPoolPtrExportData), "as CUDA's");

struct import {
	struct list link;
	CUdeviceptr ptr;
};

static const struct guest_pool imported = {.imported = true};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list imports = {&imports, &imports};
_Atomic unsigned pool_imports; /* how many; relaxed: who frees has been given one */

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
						  CUmemAllocationHandleType type,
						  unsigned long long flags)
{
	static const uint64_t magic = POOL_MAGIC;
	const struct guest_pool *p = pool_lookup(pool);
	_cleanup_close_ int fd = -1;
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!handle || !p || !p->exportable || flags ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	fd = fd_memfd("weft-pool", sizeof(magic));
	if (fd < 0 || pwrite(fd, &magic, sizeof(magic), 0) != sizeof(magic))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)handle = fd_steal(&fd);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
						    CUmemAllocationHandleType type,
						    unsigned long long flags)
{
	uint64_t magic, h;
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    pread((int)(intptr_t)handle, &magic, sizeof(magic), 0) != sizeof(magic) ||
	    magic != POOL_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	h = guest_handle_new(HANDLE_POOL, (void *)(uintptr_t)&imported);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = (CUmemoryPool)(uintptr_t)h;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	struct mem_data d = {.magic = DATA_MAGIC};
	const struct pool_mem_export_rep *rep;
	struct pool_mem_export_cmd *cmd;
	const struct guest_pool *p;
	struct lane_reply reply;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!data || !guest_is_device(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	cmd = begin_pool_mem_export(t);
	if (!cmd)
		return guest_lost(t);
	cmd->dptr = ptr;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	p = pool_lookup(pool_from_wire(rep->pool));
	if (!p || !p->exportable)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(d.name, rep->name, sizeof(d.name));
	d.offset = rep->offset;
	d.bytes = rep->bytes;
	memcpy(data, &d, sizeof(d));
	return CUDA_SUCCESS;
}

static CUresult open_memory(struct guest_thread *t, const struct mem_data *d,
			    CUdeviceptr *ret_ptr)
{
	struct ipc_mem_open_cmd *cmd = begin_ipc_mem_open(t);
	const struct ipc_mem_open_rep *rep;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	memcpy(cmd->name, d->name, sizeof(cmd->name));
	cmd->offset = d->offset;
	cmd->bytes = d->bytes;
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	*ret_ptr = rep->addr;
	return CUDA_SUCCESS;
}

static CUresult close_memory(struct guest_thread *t, CUdeviceptr ptr)
{
	struct ipc_mem_close_cmd *cmd;
	struct lane_reply reply;
	CUresult r;

	extent_forget(t, ptr);
	cmd = begin_ipc_mem_close(t);
	if (!cmd)
		return guest_lost(t);
	cmd->addr = ptr;
	r = guest_call(t, sizeof(struct ipc_mem_close_rep), &reply);
	extent_forget(t, ptr);
	return r;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool,
					CUmemPoolPtrExportData *data)
{
	const struct guest_pool *p = pool_lookup(pool);
	struct guest_thread *t;
	struct mem_data d;
	struct import *i;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!ptr || !data || !p || !p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&d, data, sizeof(d));
	if (d.magic != DATA_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	i = malloc(sizeof(*i));
	if (!i)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = open_memory(t, &d, &i->ptr);
	if (r) {
		free(i);
		return r;
	}
	*ptr = i->ptr;
	pthread_mutex_lock(&lock);
	list_append(&imports, &i->link);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add_explicit(&pool_imports, 1, memory_order_relaxed);
	return CUDA_SUCCESS;
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
	/* Its context went before, and perhaps it is other memory by now. */
	return *ret != CUDA_ERROR_INVALID_VALUE;
}
