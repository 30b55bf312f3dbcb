/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of physical memory as file descriptors. A descriptor is a file in memory that
 * says which session and which memory, and the name by which weftd knows it: the process
 * that made it asks its own worker, every other one has its worker open the name. It
 * finds the memory as long as a handle or a mapping of the maker's keeps it, while a
 * descriptor of the driver's keeps it itself.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "calls.h"
#include "core/process.h"
#include "object/vmm.h"

#define SHARE_MAGIC 0x32657261685377ull /* "wShare2" */

struct share {
	uint64_t magic, session, id, name[2];
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
	struct guest_mem *c;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	c = guest_object(handle, HANDLE_MEM);
	if (!shareable || !c || flags ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(c->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	s.session = this_session();
	s.id = c->id;
	s.prop = c->prop;
	r = vmm_export(t, handle, s.name);
	if (r)
		return r;
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
	return s.session == this_session() ? vmm_import(t, s.id, &s.prop, handle)
					   : vmm_open(t, s.name, &s.prop, handle);
}
