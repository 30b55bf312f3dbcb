/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts and the resources that they are made of. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/context.h"
#include "object/device.h"
#include "object/enter.h"
#include "object/green.h"
#include "object/stream.h"

/* Least SMs of a group on Hopper, so that clusters of eight fit; and of any. */
#define ALIGNED   8u
#define UNALIGNED 2u

/* A descriptor: a set of TPCs, which lasts as long as the program. */
struct desc {
	uint64_t tpcs[2];
};

static _Atomic uint32_t last_split;
static _Atomic uint64_t last_id;

/* ---- resources ---- */

static CUresult sm_resource(CUdevResource *resource, CUdevResourceType type,
			    const struct guest_green *g)
{
	uint64_t tpcs[2];

	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	green_all(tpcs);
	green_write(resource, g ? g->tpcs : tpcs, ALIGNED, 0);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
					CUdevResourceType type)
{
	CUresult r = device_check(device);

	return r ? r : sm_resource(resource, type, NULL);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext ctx, CUdevResource *resource,
				     CUdevResourceType type)
{
	struct guest_ctx *c;
	CUresult r = guest_status();

	if (r)
		return r;
	c = ctx_lookup_own(ctx);
	return c ? sm_resource(resource, type, c->green) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult find(CUgreenCtx green, struct guest_ctx **ret_c)
{
	CUresult r = guest_status();

	if (r)
		return r;
	*ret_c = guest_object((uintptr_t)green, HANDLE_GREEN_CONTEXT);
	return *ret_c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource,
					  CUdevResourceType type)
{
	struct guest_ctx *c;
	CUresult r = find(green, &c);

	return r ? r : sm_resource(resource, type, c->green);
}

/* ---- splitting ---- */

/* GPCs of TPCs by their number; all in one where the device does not say. */
static CUresult find_gpcs(uint8_t ret_gpc[GREEN_TPCS])
{
	struct tpc_map_rep rep;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	memset(ret_gpc, 0, GREEN_TPCS);
	if (r)
		return CUDA_SUCCESS; /* without a context nobody can be asked */
	r = call_tpc_map(t, &rep);
	if (r == CUDA_SUCCESS && rep.n <= GREEN_TPCS)
		memcpy(ret_gpc, rep.index, rep.n); /* named the wrong way round */
	return r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : r;
}

/* Takes n TPCs of a GPC (any: -1) out of a set; false: there are not so many. */
static bool take(uint64_t from[2], const uint8_t *gpcs, int gpc, unsigned n,
		 uint64_t ret_tpcs[2])
{
	unsigned i, taken = 0;

	ret_tpcs[0] = ret_tpcs[1] = 0;
	for (i = 0; i < GREEN_TPCS && taken < n; i++) {
		if (!(from[i / 64] >> i % 64 & 1) || (gpc >= 0 && gpcs[i] != gpc))
			continue;
		ret_tpcs[i / 64] |= 1ull << i % 64;
		taken++;
	}
	if (taken < n)
		return false;
	from[0] &= ~ret_tpcs[0];
	from[1] &= ~ret_tpcs[1];
	return true;
}

/* A group of units of `unit` TPCs, each within a GPC. */
static bool take_group(uint64_t from[2], const uint8_t *gpcs, unsigned unit,
		       unsigned n_units, uint64_t ret_tpcs[2])
{
	uint64_t left[2] = {from[0], from[1]}, one[2];

	ret_tpcs[0] = ret_tpcs[1] = 0;
	for (unsigned i = 0; i < n_units; i++) {
		bool found = unit == 1 && take(left, gpcs, -1, 1, one);

		for (int gpc = 0; gpc <= UINT8_MAX && !found; gpc++)
			found = take(left, gpcs, gpc, unit, one);
		if (!found)
			return false;
		ret_tpcs[0] |= one[0];
		ret_tpcs[1] |= one[1];
	}
	from[0] = left[0];
	from[1] = left[1];
	return true;
}

static bool is_hopper(void)
{
	return guest_process.device
		       .attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] >= 9;
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups,
					     const CUdevResource *input,
					     CUdevResource *remaining, unsigned int flags,
					     unsigned int min)
{
	const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
			       CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	unsigned sms =
		flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING || !is_hopper()
			? UNALIGNED
			: ALIGNED;
	unsigned n = 0, units, most;
	uint8_t gpcs[GREEN_TPCS];
	struct green_sms from;
	uint64_t tpcs[2];
	uint32_t split;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!groups || !input || flags & ~known || flags == known)
		return CUDA_ERROR_INVALID_VALUE;
	r = green_read(input, &from);
	if (r)
		return r;
	if (result && !*groups)
		return CUDA_ERROR_INVALID_VALUE;
	if (from.split || min > 2 * green_count(from.tpcs))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	r = find_gpcs(gpcs);
	if (r)
		return r;
	units = MAX((min + sms - 1) / sms, 1u);
	most = result ? *groups : GREEN_TPCS;
	split = atomic_fetch_add(&last_split, 1) + 1;
	for (; n < most && take_group(from.tpcs, gpcs, sms / 2, units, tpcs); n++) {
		if (result)
			green_write(&result[n], tpcs, 0, split);
	}
	*groups = n;
	if (!n)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (remaining && green_count(from.tpcs))
		green_write(remaining, from.tpcs, 0, split);
	else if (remaining)
		memset(remaining, 0, sizeof(*remaining)); /* INVALID */
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *ret_desc,
					   CUdevResource *resources, unsigned int n)
{
	uint64_t tpcs[2] = {0, 0};
	struct desc *d;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ret_desc || !resources || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		struct green_sms sms;

		r = green_read(&resources[i], &sms);
		if (r)
			return r;
		tpcs[0] |= sms.tpcs[0];
		tpcs[1] |= sms.tpcs[1];
	}
	d = malloc(sizeof(*d));
	if (!d)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(d->tpcs, tpcs, sizeof(d->tpcs));
	*ret_desc = (CUdevResourceDesc)(void *)d;
	return CUDA_SUCCESS;
}

/* ---- contexts ---- */

static struct guest_ctx *shadow_new(const struct desc *d)
{
	struct guest_ctx *c = ctx_new();

	if (!c)
		return NULL;
	c->base = ctx_primary();
	c->green = calloc(1, sizeof(*c->green));
	if (c->green)
		c->green->handle = guest_handle_new(HANDLE_GREEN_CONTEXT, c);
	if (!c->green || !c->green->handle) {
		guest_handle_free(c->handle);
		ctx_unref(c);
		return NULL;
	}
	memcpy(c->green->tpcs, d->tpcs, sizeof(c->green->tpcs));
	c->green->id = atomic_fetch_add(&last_id, 1) + 1;
	return c;
}

static void shadow_end(struct guest_ctx *c)
{
	guest_handle_free(c->green->handle);
	guest_handle_free(c->handle);
	ctx_unref(c);
}

/* Makes a stream of a green context, whatever context is current. Blocking ones are only its
 * default streams, so that copies of the legacy stream come behind their kernels. */
static CUresult stream_of(struct guest_ctx *c, unsigned flags, int priority,
			  uint64_t *ret_stream)
{
	struct guest_thread *t = thread_get();
	CUresult r = t ? ctx_push(t, c) : CUDA_ERROR_OUT_OF_MEMORY;

	if (r)
		return r;
	r = guest_enter(NEED_CTX, &t);
	if (r == CUDA_SUCCESS)
		r = stream_new(t, c, flags, priority, ret_stream);
	ctx_pop(t);
	return r;
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *ret_green, CUdevResourceDesc desc,
				  CUdevice dev, unsigned int flags)
{
	const struct desc *d = (const void *)desc;
	struct guest_ctx *c;
	CUcontext primary;
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!ret_green || !d || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuDevicePrimaryCtxRetain(&primary, dev);
	if (r)
		return r;
	c = shadow_new(d);
	r = c ? stream_of(c, 0, 0, &c->green->stream) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r) {
		if (c)
			shadow_end(c);
		(void)cuDevicePrimaryCtxRelease_v2(dev);
		return r;
	}
	*ret_green = (CUgreenCtx)(uintptr_t)c->green->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx green)
{
	struct guest_thread *t = guest_self;
	struct guest_ctx *c;
	CUresult r = find(green, &c);

	if (r)
		return r;
	(void)cuStreamDestroy_v2((CUstream)(uintptr_t)c->green->stream);
	ctx_end_green(t, c);
	shadow_end(c);
	return cuDevicePrimaryCtxRelease_v2(0);
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *ret_ctx, CUgreenCtx green)
{
	struct guest_ctx *c;
	CUresult r = find(green, &c);

	if (r)
		return r;
	if (!ret_ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_ctx = (CUcontext)(uintptr_t)c->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx green, unsigned long long *ret_id)
{
	struct guest_ctx *c;
	CUresult r = find(green, &c);

	if (r)
		return r;
	if (!ret_id)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_id = c->green->id;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *ret_stream, CUgreenCtx green,
					unsigned int flags, int priority)
{
	struct guest_ctx *c;
	uint64_t h;
	CUresult r = find(green, &c);

	if (r)
		return r;
	if (!ret_stream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_of(c, flags, priority, &h);
	if (r == CUDA_SUCCESS)
		*ret_stream = (CUstream)(uintptr_t)h;
	return r;
}

/* Events of a green context are the whole primary context's: later than they need be. */
CUresult CUDAAPI cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
	struct guest_ctx *c;
	CUresult r = find(green, &c);

	return r ? r : cuCtxRecordEvent((CUcontext)(uintptr_t)c->handle, event);
}

CUresult CUDAAPI cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
	struct guest_ctx *c;
	CUresult r = find(green, &c);

	return r ? r : cuCtxWaitEvent((CUcontext)(uintptr_t)c->handle, event);
}
