/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of other processes. A descriptor of a pool is a file in memory that says no more
 * than that it is one; what is shared is memory, allocation by allocation, as cuIpc's is.
 */
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "calls.h"
#include "core/process.h"
#include "object/pool.h"

#define POOL_MAGIC 0x316c6f6f507477ull
#define DATA_MAGIC 0x316d654d6c6f6f50ull

struct mem_data {
	uint64_t magic, name[2], offset, bytes, zero[3];
};
static_assert(sizeof(struct mem_data) == sizeof(CUmemPoolPtrExportData), "as CUDA's");

static const struct guest_pool imported = {.imported = true};

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
						  CUmemAllocationHandleType type,
						  unsigned long long flags)
{
	static const uint64_t magic = POOL_MAGIC;
	const struct guest_pool *p = pool_lookup(pool);
	_cleanup_close_ int fd = -1;
	CUresult r = guest_status();

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
	CUresult r = guest_status();

	if (r)
		return r;
	if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    pread((int)(intptr_t)handle, &magic, sizeof(magic), 0) != sizeof(magic) ||
	    magic != POOL_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	h = pool_handle_new(&imported);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = (CUmemoryPool)(uintptr_t)h;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	struct mem_data d = {.magic = DATA_MAGIC};
	struct pool_mem_export_rep rep;
	const struct guest_pool *p;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!data || !guest_is_device(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	r = call_pool_mem_export(t, ptr, &rep);
	if (r)
		return r;
	p = pool_lookup(pool_from_wire(rep.pool));
	if (!p || !p->exportable)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(d.name, rep.name, sizeof(d.name));
	d.offset = rep.offset;
	d.bytes = rep.bytes;
	memcpy(data, &d, sizeof(d));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool,
					CUmemPoolPtrExportData *data)
{
	const struct guest_pool *p = pool_lookup(pool);
	struct guest_thread *t;
	struct mem_data d;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!ptr || !data || !p || !p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&d, data, sizeof(d));
	if (d.magic != DATA_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	return pool_import(t, d.name, d.offset, d.bytes, ptr);
}
