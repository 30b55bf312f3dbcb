/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuPointerGetAttribute and its kin. Host memory is answered from the table of hostmem.c;
 * for an address in the band the worker is asked, about an allocation once.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "object/context.h"
#include "object/extent.h"
#include "core/extent_table.h"
#include "object/hostmem.h"
#include "object/managed.h"
#include "object/pool.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/refuse.h"

/* Properties of an address; kind NONE if it is neither the device's nor registered. */
struct pointer_info {
	enum {
		POINTER_NONE,
		POINTER_DEVICE,
		POINTER_HOST
	} kind;
	uint64_t ptr, base, size, id, ctx, pool;
	uint64_t dev;  /* its address on the device; 0: none */
	uint64_t host; /* its address in this process; 0: none */
	bool mapped, shareable, managed;
};

/* Regions with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, by buffer id; few if any. */
static pthread_mutex_t sync_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *sync_ids;
static size_t n_sync, sync_room;

static size_t sync_find_locked(uint64_t id)
{
	size_t i;

	for (i = 0; i < n_sync && sync_ids[i] != id; i++)
		;
	return i;
}

static bool sync_get(uint64_t id)
{
	bool found;

	pthread_mutex_lock(&sync_lock);
	found = sync_find_locked(id) < n_sync;
	pthread_mutex_unlock(&sync_lock);
	return found;
}

static CUresult sync_set_locked(uint64_t id, bool on)
{
	size_t i = sync_find_locked(id);

	if (i < n_sync && !on)
		sync_ids[i] = sync_ids[--n_sync];
	if (i < n_sync || !on)
		return CUDA_SUCCESS;
	if (n_sync == sync_room) {
		size_t n = sync_room ? 2 * sync_room : 8;
		uint64_t *p = realloc(sync_ids, n * sizeof(*p));

		if (!p)
			return CUDA_ERROR_OUT_OF_MEMORY;
		sync_ids = p;
		sync_room = n;
	}
	sync_ids[n_sync++] = id;
	return CUDA_SUCCESS;
}

static CUresult ask(struct guest_thread *t, uint64_t ptr, struct pointer_info *ret)
{
	const struct pointer_info_rep *rep;
	CUresult r = extent_look(t, ptr, &rep);

	if (r)
		return r;
	*ret = (struct pointer_info){.kind = rep->in_host_memory ? POINTER_HOST
								 : POINTER_DEVICE,
				     .ptr = ptr,
				     .dev = ptr,
				     .base = rep->base,
				     .size = rep->size,
				     .id = rep->buffer_id,
				     .ctx = rep->ctx,
				     .pool = rep->pool,
				     .mapped = rep->mapped,
				     .shareable = rep->shareable};
	return CUDA_SUCCESS;
}

/* From the table of allocations. */
static bool known(uint64_t ptr, struct pointer_info *ret)
{
	struct extent_info i;

	if (guest_sticky() || !extent_table_find(ptr, &i) || ptr - i.base >= i.size)
		return false;
	*ret = (struct pointer_info){.kind = POINTER_DEVICE,
				     .ptr = ptr,
				     .dev = ptr,
				     .base = i.base,
				     .size = i.size,
				     .id = i.id,
				     .ctx = i.ctx,
				     .pool = i.pool,
				     .mapped = true,
				     .shareable = i.shareable};
	return true;
}

/* INVALID_VALUE of the worker: an address of the band where nothing is. */
static CUresult look(struct guest_thread *t, uint64_t ptr, struct pointer_info *ret)
{
	/* None is needed to ask: the pinning thread of PyTorch's loader has none. */
	const struct guest_ctx *here = t->top ? t->top : ctx_primary();
	struct hostmem h;
	CUresult r;

	*ret = (struct pointer_info){.kind = POINTER_NONE, .ptr = ptr};
	if (guest_is_device(ptr) && !managed_is(ptr)) {
		if (known(ptr, ret))
			return CUDA_SUCCESS;
		r = ask(t, ptr, ret);
		return r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
	}
	if (hostmem_find(ptr, &h))
		*ret = (struct pointer_info){.kind = POINTER_HOST,
					     .ptr = ptr,
					     .dev = h.dev ? h.dev + (ptr - h.base) : 0,
					     .host = h.host + (ptr - h.base),
					     .base = h.base,
					     .size = h.size,
					     .id = h.id |
						   1ull << 63, /* not the worker's */
					     .ctx = here->handle,
					     .mapped = true,
					     .managed = h.managed};
	return CUDA_SUCCESS;
}

/* Bytes that an attribute's value takes; 0 for an unknown one. */
static size_t attr_size(CUpointer_attribute attr)
{
	switch ((int)attr) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return sizeof(uint32_t);
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return sizeof(uint64_t);
	}
	return 0;
}

/* The value; false where the attribute says nothing about this kind of memory. */
static bool attr_value(const struct pointer_info *p, CUpointer_attribute attr,
		       uint64_t *ret)
{
	bool device = p->kind == POINTER_DEVICE;

	*ret = 0;
	switch ((int)attr) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*ret = p->ctx;
		return p->ctx != 0;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret = device || p->managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret = p->dev;
		return *ret != 0;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*ret = p->host;
		return *ret != 0;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*ret = p->managed;
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*ret = sync_get(p->id);
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*ret = p->id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*ret = p->base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*ret = p->size;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret = p->mapped;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*ret = p->dev && p->mapped ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
					   : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*ret = p->shareable;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*ret = device ? (uintptr_t)pool_from_wire(p->pool) : 0;
		return true;
	}
	return true; /* RDMA and so on: no; ordinal 0 */
}

static void store(void *data, CUpointer_attribute attr, uint64_t value)
{
	uint32_t word = (uint32_t)value;

	if (attr_size(attr) == sizeof(word))
		memcpy(data, &word, sizeof(word));
	else
		memcpy(data, &value, sizeof(value));
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attr,
				       CUdeviceptr ptr)
{
	struct pointer_info p;
	struct guest_thread *t;
	uint64_t value;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!data || !attr_size(attr)) {
		if (data && (int)attr > 0)
			guest_refuse_attribute("cuPointerGetAttribute", (int)attr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = look(t, ptr, &p);
	if (r)
		return r;
	if (p.kind != POINTER_NONE && attr == CU_POINTER_ATTRIBUTE_DEVICE_POINTER &&
	    !t->top)
		return CUDA_ERROR_INVALID_CONTEXT; /* it is for kernels of the current one
						    */
	if (p.kind == POINTER_NONE || !attr_value(&p, attr, &value))
		return CUDA_ERROR_INVALID_VALUE;
	store(data, attr, value);
	return CUDA_SUCCESS;
}

/* Unlike the singular form, answers zeros for addresses of which nothing is known. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attrs,
					void **data, CUdeviceptr ptr)
{
	struct pointer_info p;
	struct guest_thread *t;
	uint64_t value;
	unsigned i;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!n || !attrs || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		if (!attr_size(attrs[i]) || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	r = look(t, ptr, &p);
	for (i = 0; i < n && r == CUDA_SUCCESS; i++) {
		value = 0;
		if (attrs[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && !t->top)
			; /* in no context */
		else if (p.kind != POINTER_NONE)
			attr_value(&p, attrs[i], &value);
		else if (attrs[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			value = (uint64_t)CU_DEVICE_INVALID;
		else if (attrs[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			value = ptr; /* the program's own memory */
		else if (attrs[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
			 attrs[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
			continue; /* left as they are */
		store(data[i], attrs[i], value);
	}
	return r;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attr,
				       CUdeviceptr ptr)
{
	struct pointer_info p;
	struct guest_thread *t;
	uint32_t on;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!value || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	r = look(t, ptr, &p);
	if (r)
		return r;
	if (p.kind == POINTER_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	/* Synchronous copies wait for the data in any case, so it is enough to remember.
	 */
	memcpy(&on, value, sizeof(on));
	pthread_mutex_lock(&sync_lock);
	r = sync_set_locked(p.id, on != 0);
	pthread_mutex_unlock(&sync_lock);
	return r;
}

static CUresult ask_range(struct guest_thread *t, CUdeviceptr ptr, uint64_t *ret_base,
			  uint64_t *ret_size)
{
	struct address_range_rep rep = {0};
	CUresult r = call_address_range(t, ptr, &rep);

	if (r)
		return r;
	*ret_base = rep.base;
	*ret_size = rep.size;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize,
					 CUdeviceptr ptr)
{
	struct guest_thread *t;
	struct pointer_info p;
	struct hostmem h;
	uint64_t base = 0, size = 0;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if ((!guest_is_device(ptr) || managed_is(ptr)) && hostmem_find(ptr, &h)) {
		base = h.base;
		size = h.size;
	} else if (known(ptr, &p)) {
		base = p.base;
		size = p.size;
	} else {
		r = ask_range(t, ptr, &base, &size);
	}
	if (r)
		return r;
	if (pbase)
		*pbase = base;
	if (psize)
		*psize = size;
	return CUDA_SUCCESS;
}
