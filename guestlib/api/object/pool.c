/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. */
#include <string.h>

#include "calls.h"
#include "core/process.h"
#include "object/pool.h"
#include "object/refuse.h"

static const struct guest_pool plain, exportable = {.exportable = true};

/* Pools live on the device. */
static CUresult check_props(const CUmemPoolProps *props)
{
	if (!props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	     props->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return guest_refuse(REFUSAL_FEATURE,
				    "cuMemPoolCreate: location or handle type");
	return props->location.id ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	struct guest_thread *t;
	uint64_t h;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r == CUDA_SUCCESS)
		r = pool_supported();
	if (r)
		return r;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_props(props);
	if (r)
		return r;
	pool_default(); /* so that its number is none of the worker's pools */
	h = pool_handle_new(props->handleTypes ? &exportable : &plain);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = call_pool_create(t, h, props->maxSize);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	*pool = pool_public(h);
	return CUDA_SUCCESS;
}

/* Enters; finds a pool's number on the wire. */
static CUresult enter(CUmemoryPool pool, struct guest_thread **ret_t, uint64_t *ret_wire)
{
	CUresult r = guest_enter(NEED_INIT, ret_t);

	return r ? r : pool_to_wire(pool, ret_wire);
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
	const struct guest_pool *p = pool_lookup(pool);
	struct guest_thread *t;
	uint64_t wire;
	CUresult r;

	if (p && p->imported) {
		guest_handle_free((uintptr_t)pool);
		return CUDA_SUCCESS;
	}
	r = enter(pool, &t, &wire);
	if (r)
		return r;
	if (!wire)
		return CUDA_ERROR_INVALID_VALUE; /* the default pool stays */
	r = call_pool_destroy(t, wire);
	guest_handle_free(wire);
	pool_gone(wire);
	return r;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = enter(pool, &t, &wire);

	if (r)
		return r;
	return call_pool_trim(t, wire, keep);
}

static bool is_int(CUmemPool_attribute attr)
{
	return attr == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
	       attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
	       attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static bool attr_known(CUmemPool_attribute attr)
{
	return (int)attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attr <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
				       void *value)
{
	struct guest_thread *t;
	uint64_t wire, v = 0;
	CUresult r = enter(pool, &t, &wire);

	if (r)
		return r;
	if (!value || !attr_known(attr))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&v, value, is_int(attr) ? sizeof(int) : sizeof(uint64_t));
	return call_pool_set_attribute(t, wire, (uint32_t)attr,
				       is_int(attr) ? v != 0 : v);
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
				       void *value)
{
	struct pool_get_attribute_rep rep;
	struct guest_thread *t;
	uint64_t wire;
	int flag;
	CUresult r = enter(pool, &t, &wire);

	if (r)
		return r;
	if (!value || !attr_known(attr))
		return CUDA_ERROR_INVALID_VALUE;
	r = call_pool_get_attribute(t, wire, (uint32_t)attr, &rep);
	if (r)
		return r;
	flag = rep.value != 0;
	if (is_int(attr))
		memcpy(value, &flag, sizeof(flag));
	else
		memcpy(value, &rep.value, sizeof(rep.value));
	return CUDA_SUCCESS;
}

/* ---- access: the one device has it, nobody else is there ---- */

static CUresult check_location(const CUmemLocation *l)
{
	if (l->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return guest_has_device(l->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
				    size_t count)
{
	size_t i;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!pool_lookup(pool) || (!map && count))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count && r == CUDA_SUCCESS; i++) {
		r = check_location(&map[i].location);
		/* The device that a pool is on cannot be shut out; codes of an H200. */
		if (r == CUDA_SUCCESS && map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
			r = CUDA_ERROR_INVALID_DEVICE;
		else if (r == CUDA_SUCCESS &&
			 map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			r = CUDA_ERROR_NOT_SUPPORTED;
	}
	return r;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
				    CUmemLocation *location)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!pool_lookup(pool) || !flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_location(location);
	if (r == CUDA_SUCCESS)
		*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return r;
}

/* ---- which pool is whose ---- */

static CUresult check_device(CUdevice dev)
{
	CUresult r = pool_supported();

	if (r)
		return r;
	return guest_has_device(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	CUresult r = check_device(dev);

	if (r)
		return r;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = pool_public(pool_default());
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	uint64_t h = pool_current();
	CUresult r = check_device(dev);

	if (r)
		return r;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = pool_public(h ? h : pool_default());
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	uint64_t wire;
	CUresult r = check_device(dev);

	if (r == CUDA_SUCCESS)
		r = pool_to_wire(pool, &wire);
	if (r == CUDA_SUCCESS)
		pool_set_current(wire);
	return r;
}

/* Checks a location, by which pools are named since 13.0; only devices have pools
 * here. */
static CUresult check_place(const CUmemLocation *location, CUmemAllocationType type)
{
	CUresult r = pool_supported();

	if (r)
		return r;
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return guest_refuse(REFUSAL_FEATURE, "pool of a location: type");
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
					CUmemAllocationType type)
{
	CUresult r = check_place(location, type);

	return r ? r : cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
				 CUmemAllocationType type)
{
	CUresult r = check_place(location, type);

	return r ? r : cuDeviceGetMemPool(pool, location->id);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
				 CUmemoryPool pool)
{
	CUresult r = check_place(location, type);

	return r ? r : cuDeviceSetMemPool(location->id, pool);
}
