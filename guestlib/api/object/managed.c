/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: managed memory
 *
 * The smallest allocations are host memory that program and device share
 * (object/hostmem_alloc.c), others move in pieces (object/managed.c); kernels may use either at
 * any time. Advice holds for an allocation as a whole: what is preferred on the host stays there,
 * with those that share its pages.
 */
#include "copy/carried.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/context.h"
#include "object/hostmem.h"
#include "object/managed.h"
#include "object/refuse.h"

#define BATCH_MAX (1u << 20)

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	struct hostmem h = {.size = bytes,
			    .flags = CU_MEMHOSTALLOC_DEVICEMAP,
			    .managed = true,
			    .where = {.preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0},
				      .last = {CU_MEM_LOCATION_TYPE_INVALID, 0}}};
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!dptr || !bytes || bytes > SIZE_MAX - HOSTMEM_PAGE ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	r = guest_unsafe(t);
	if (r == CUDA_SUCCESS && !guest_process.host_size)
		r = carried_new(t, &h);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return guest_refuse(REFUSAL_FUNCTION, "cuMemAllocManaged");
	if (r == CUDA_SUCCESS)
		r = hostmem_alloc_here(t, &h);
	if (r == CUDA_SUCCESS)
		*dptr = h.base;
	return r;
}

bool managed_take(struct guest_thread *t, CUdeviceptr dptr, CUresult *ret)
{
	struct hostmem h;

	if (!hostmem_find(dptr, &h) || !h.managed)
		return false;
	*ret = h.base == dptr && !h.variable ? hostmem_end(t, &h)
					     : CUDA_ERROR_INVALID_VALUE;
	return true;
}

/* ---- ranges ---- */

/* Finds the allocation that has all of [ptr, ptr + count). */
static CUresult find(CUdeviceptr ptr, size_t count, struct hostmem *ret)
{
	CUresult r = ctx_check_current();

	if (r)
		return r;
	if (!count || ptr + count < ptr || !hostmem_find(ptr, ret) || !ret->managed ||
	    count > ret->base + ALIGN_UP(ret->size, HOSTMEM_PAGE) - ptr)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUmemLocation location_of(CUdevice device)
{
	return device == CU_DEVICE_CPU
		       ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0}
		       : (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

static CUdevice device_of(struct hostmem_location l)
{
	return l.type == CU_MEM_LOCATION_TYPE_DEVICE    ? (CUdevice)l.id
	       : l.type == CU_MEM_LOCATION_TYPE_INVALID ? (CUdevice)CU_DEVICE_INVALID
							: (CUdevice)CU_DEVICE_CPU;
}

static CUresult check_location(CUmemLocation l)
{
	switch ((int)l.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return l.id ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return l.id < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static struct hostmem_location noted(CUmemLocation l)
{
	return (struct hostmem_location){(int)l.type, l.id};
}

static CUresult advise(CUdeviceptr ptr, size_t count, CUmem_advise advice,
		       CUmemLocation location)
{
	bool on_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	struct hostmem h;
	CUresult r = find(ptr, count, &h);
	bool stayed, stays, read;

	if (r)
		return r;
	read = h.where.read_mostly;
	stayed = hostmem_is_host(h.where.preferred);
	switch ((int)advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		h.where.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		if (h.moves && h.where.read_mostly != read)
			managed_read_mostly(h.moves, !read);
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		r = check_location(location);
		h.where.preferred = noted(location);
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		h.where.preferred.type = CU_MEM_LOCATION_TYPE_INVALID;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		r = check_location(location);
		*(on_device ? &h.where.by_device : &h.where.by_host) =
			advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
		break;
	default:
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS)
		hostmem_set_where(&h);
	stays = hostmem_is_host(h.where.preferred);
	if (r == CUDA_SUCCESS && h.moves && stays != stayed)
		managed_stay(h.moves, stays);
	return r;
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice,
			     CUdevice device)
{
	return advise(ptr, count, advice, location_of(device));
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice,
				CUmemLocation location)
{
	return advise(ptr, count, advice, location);
}

/* ---- what is known of them ---- */

/* Devices that were said to use it, the rest of n words being CU_DEVICE_INVALID. */
static void put_accessed_by(const struct hostmem_where *w, CUdevice *to, size_t n)
{
	size_t k = 0;

	if (w->by_device && k < n)
		to[k++] = 0;
	if (w->by_host && k < n)
		to[k++] = (CUdevice)CU_DEVICE_CPU;
	while (k < n)
		to[k++] = (CUdevice)CU_DEVICE_INVALID;
}

static CUresult put_attribute(const struct hostmem_where *w, void *data, size_t size,
			      CUmem_range_attribute attribute)
{
	int v;

	if (!data || !size || size % sizeof(v))
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		v = w->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		v = device_of(w->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		v = device_of(w->last);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		v = w->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		v = w->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		v = w->last.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		v = w->last.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		put_accessed_by(w, data, size / sizeof(v));
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (size != sizeof(v))
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)data = v;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t size,
					CUmem_range_attribute attribute, CUdeviceptr ptr,
					size_t count)
{
	struct hostmem h;
	CUresult r = find(ptr, count, &h);

	return r ? r : put_attribute(&h.where, data, size, attribute);
}

CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *sizes,
					 CUmem_range_attribute *attributes, size_t n,
					 CUdeviceptr ptr, size_t count)
{
	struct hostmem h;
	CUresult r = find(ptr, count, &h);

	if (r == CUDA_SUCCESS && (!data || !sizes || !attributes || !n))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
		r = put_attribute(&h.where, data[i], sizes[i], attributes[i]);
	return r;
}

/* ---- in streams ---- */

/* The stream's, which may not be captured. */
static CUresult enter(CUstream stream, bool ptsz, struct guest_thread **ret_t)
{
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), ret_t);

	return r ? r : guest_stream(stream, ptsz, &wire);
}

/* Moves at once what was to move when the stream gets there: who reads or writes it before
 * that does so wherever it is. */
static CUresult go_to(struct guest_thread *t, CUdeviceptr ptr, size_t count,
		      CUmemLocation location)
{
	struct hostmem h;
	CUresult r = find(ptr, count, &h);

	if (r == CUDA_SUCCESS)
		r = check_location(location);
	if (r)
		return r;
	h.where.last = noted(location);
	hostmem_set_where(&h);
	return h.moves ? managed_prefetch(t, h.moves, ptr, count,
					  !hostmem_is_host(h.where.last))
		       : CUDA_SUCCESS;
}

static CUresult prefetch_to(CUdeviceptr ptr, size_t count, CUmemLocation location,
			    unsigned flags, CUstream stream, bool ptsz)
{
	struct guest_thread *t;
	CUresult r = enter(stream, ptsz, &t);

	if (r == CUDA_SUCCESS && flags)
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? r : go_to(t, ptr, count, location);
}

static CUresult prefetch(CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream,
			 bool ptsz)
{
	return prefetch_to(ptr, count, location_of(device), 0, stream, ptsz);
}

/* Everybody may use it at any time, whoever it is attached to. */
static CUresult attach(CUstream stream, CUdeviceptr ptr, size_t length, unsigned flags,
		       bool ptsz)
{
	struct guest_thread *t;
	struct hostmem h;
	CUresult r = enter(stream, ptsz, &t);

	if (r == CUDA_SUCCESS)
		r = find(ptr, 1, &h);
	if (r)
		return r;
	if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE) ||
	    ptr != h.base || (length && length != h.size) ||
	    (flags == CU_MEM_ATTACH_SINGLE && !stream))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
			    unsigned long long flags, CUstream stream, bool ptsz,
			    struct guest_thread **ret_t)
{
	struct hostmem h;
	CUresult r = enter(stream, ptsz, ret_t);

	if (r)
		return r;
	if (!ptrs || !sizes || !count || count > BATCH_MAX || flags || !stream)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = find(ptrs[i], sizes[i], &h);
	return r;
}

/* Location k is for the ranges from indices[k] on, to the next one's. */
static CUresult prefetch_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
			       CUmemLocation *locations, size_t *indices, size_t n,
			       unsigned long long flags, CUstream stream, bool ptsz)
{
	struct guest_thread *t;
	CUresult r = check_batch(ptrs, sizes, count, flags, stream, ptsz, &t);
	size_t k = 0;

	if (r)
		return r;
	if (!locations || !indices || !n || n > count || indices[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (k = 1; k < n; k++) {
		if (indices[k] <= indices[k - 1] || indices[k] >= count)
			return CUDA_ERROR_INVALID_VALUE;
	}
	k = 0;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		k += k + 1 < n && indices[k + 1] == i;
		r = go_to(t, ptrs[i], sizes[i], locations[k]);
	}
	return r;
}

static CUresult discard_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
			      unsigned long long flags, CUstream stream, bool ptsz)
{
	struct guest_thread *t;

	return check_batch(ptrs, sizes, count, flags, stream, ptsz, &t);
}

GUEST_PAIR(cuMemPrefetchAsync, ptsz,
	   (CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream), prefetch,
	   ptr, count, device, stream)
GUEST_PAIR(cuMemPrefetchAsync_v2, ptsz,
	   (CUdeviceptr ptr, size_t count, CUmemLocation location, unsigned int flags,
	    CUstream stream),
	   prefetch_to, ptr, count, location, flags, stream)
GUEST_PAIR(cuStreamAttachMemAsync, ptsz,
	   (CUstream stream, CUdeviceptr ptr, size_t length, unsigned int flags), attach,
	   stream, ptr, length, flags)
GUEST_PAIR(cuMemPrefetchBatchAsync, ptsz,
	   (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
	    size_t *indices, size_t n, unsigned long long flags, CUstream stream),
	   prefetch_batch, ptrs, sizes, count, locations, indices, n, flags, stream)
GUEST_PAIR(cuMemDiscardBatchAsync, ptsz,
	   (CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags,
	    CUstream stream),
	   discard_batch, ptrs, sizes, count, flags, stream)
GUEST_PAIR(cuMemDiscardAndPrefetchBatchAsync, ptsz,
	   (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
	    size_t *indices, size_t n, unsigned long long flags, CUstream stream),
	   prefetch_batch, ptrs, sizes, count, locations, indices, n, flags, stream)
