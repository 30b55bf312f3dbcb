/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events of other processes. A handle, 64 bytes that the program carries over,
 * holds what the worker said; nothing in it is secret but the name, and nothing of it is
 * believed.
 */
#include <string.h>

#include "calls.h"
#include "object/context.h"
#include "object/event.h"
#include "object/managed.h"
#include "object/extent.h"
#include "core/process.h"

#undef cuIpcOpenMemHandle

#define MEM_MAGIC   0x316d656d70695457ull
#define EVENT_MAGIC 0x31747665706957ull

struct mem_handle {
	uint64_t magic, name[2], offset, bytes, zero[3];
};
static_assert(sizeof(struct mem_handle) == sizeof(CUipcMemHandle), "as CUDA's");

struct event_handle {
	uint64_t magic, name[2], zero[5];
};
static_assert(sizeof(struct event_handle) == sizeof(CUipcEventHandle), "as CUDA's");

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	struct mem_handle h = {.magic = MEM_MAGIC};
	struct ipc_mem_export_rep rep;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!handle || !guest_is_device(dptr) || managed_is(dptr))
		return CUDA_ERROR_INVALID_VALUE;
	r = call_ipc_mem_export(t, dptr, &rep);
	if (r)
		return r;
	memcpy(h.name, rep.name, sizeof(h.name));
	h.offset = rep.offset;
	h.bytes = rep.bytes;
	memcpy(handle, &h, sizeof(h));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
				       unsigned int Flags)
{
	struct ipc_mem_open_rep rep;
	struct guest_thread *t;
	struct mem_handle h;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	memcpy(&h, &handle, sizeof(h));
	if (!pdptr || (Flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
	    h.magic != MEM_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_ipc_mem_open(t, h.name, h.offset, h.bytes, &rep);
	if (r)
		return r;
	*pdptr = rep.addr;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle,
				    unsigned int Flags)
{
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	extent_forget(t, dptr);
	r = call_ipc_mem_close(t, dptr);
	extent_forget(t, dptr);
	return r;
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	struct event_handle h = {.magic = EVENT_MAGIC};
	struct ipc_event_export_rep rep;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!guest_handle_valid((uintptr_t)event, HANDLE_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	r = call_ipc_event_export(t, (uintptr_t)event, &rep);
	if (r)
		return r;
	memcpy(h.name, rep.name, sizeof(h.name));
	memcpy(handle, &h, sizeof(h));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	struct guest_thread *t;
	struct event_handle h;
	uint64_t ev;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	memcpy(&h, &handle, sizeof(h));
	if (!event || h.magic != EVENT_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	ev = event_new(t->top, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, 0);
	if (!ev)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = call_ipc_event_open(t, ev, h.name);
	if (r)
		event_drop(ev);
	else
		*event = (CUevent)(uintptr_t)ev;
	return r;
}
