// SPDX-License-Identifier: Apache-2.0
/*
 * Handles of physical memory as file descriptors. A descriptor is a file in memory that
 * says which session and which memory; it finds that memory as long as a handle or a
 * mapping keeps it. Another process's memory is not to be had yet.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "calls.h"
#include "process.h"
#include "refuse.h"
#include "vmm.h"

#define SHARE_MAGIC 0x31656b6168537457ull

struct share {
	uint64_t magic, session, id;
	CUmemAllocationProp prop;
};

static uint64_t this_session(void)
{
	return link_welcome(guest_process.link)->session;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable,
					      CUmemGenericAllocationHandle handle,
					      CUmemAllocationHandleType type,
					      unsigned long long flags)
{
	_cleanup_close_ int fd = -1;
	struct share s = {.magic = SHARE_MAGIC};
	struct guest_thread *t;
	struct guest_chunk *c;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	c = guest_object(handle, HANDLE_CHUNK);
	if (!shareable || !c || flags ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(c->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	s.session = this_session();
	s.id = c->id;
	s.prop = c->prop;
	fd = fd_memfd("weft-memory", sizeof(s));
	if (fd < 0 || pwrite(fd, &s, sizeof(s), 0) != sizeof(s))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)shareable = fd_steal(&fd);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						void *shareable,
						CUmemAllocationHandleType type)
{
	struct guest_thread *t;
	struct share s;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    pread((int)(intptr_t)shareable, &s, sizeof(s), 0) != sizeof(s) ||
	    s.magic != SHARE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (s.session != this_session())
		return guest_refuse(REFUSAL_FEATURE,
				    "cuMemImportFromShareableHandle: other process");
	return vmm_import(t, s.id, &s.prop, handle);
}
