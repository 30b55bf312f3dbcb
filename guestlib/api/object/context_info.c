/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a context, and its settings, that are answered in the guest. */
#include <pthread.h>

#include "calls.h"
#include "object/context.h"
#include "core/process.h"
#include "core/thread.h"

/* Answer of cuCtxGetApiVersion for contexts made through the interface since CUDA 3.2. */
#define CTX_API_VERSION 3020

/* A context by its handle; NULL means the current one. */
static CUresult named(CUcontext ctx, struct guest_ctx **ret_c)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ctx)
		return ctx_current(ret_c);
	*ret_c = ctx_lookup(ctx);
	return *ret_c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct guest_ctx *c;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	/* An inactive primary context has a device, too; so no ctx_current(). */
	c = ctx_lookup(ctx);
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = 0;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, NULL);
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
	struct guest_ctx *c = NULL;
	CUresult r = guest_status();

	if (r == CUDA_SUCCESS)
		c = ctx_lookup(NULL); /* ended or not */
	if (r == CUDA_SUCCESS && !c)
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (r)
		return r;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	/* A primary context can always map host memory, and says so. */
	*flags = c->flags | (c->primary ? CU_CTX_MAP_HOST : 0);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	c->flags = flags;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
	struct guest_ctx *c;
	CUresult r = named(ctx, &c);

	if (r)
		return r;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = ctx_lookup_own(ctx)->id;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct guest_ctx *c;
	CUresult r = named(ctx, &c);

	if (r)
		return r;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (!atomic_load_explicit(&c->alive, memory_order_acquire))
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = CTX_API_VERSION;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if (least)
		*least = guest_process.device.priority_least;
	if (greatest)
		*greatest = guest_process.device.priority_greatest;
	return CUDA_SUCCESS;
}

/* ---- limits ---- */

/* Held while the worker is asked, so that no answer is older than what was set. */
static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;

static struct ctx_limits *limits_locked(struct guest_ctx *c)
{
	uint64_t id = atomic_load_explicit(&c->wire_id, memory_order_relaxed);

	if (c->limits.wire_id != id)
		c->limits.known = 0;
	c->limits.wire_id = id;
	return &c->limits;
}

static CUresult ask_limit(struct guest_thread *t, CUlimit limit, uint64_t *ret_value)
{
	struct ctx_get_limit_rep rep;
	CUresult r = call_ctx_get_limit(t, (uint32_t)limit, &rep);

	if (r == CUDA_SUCCESS)
		*ret_value = rep.value;
	return r;
}

static CUresult get_limit_locked(struct guest_thread *t, CUlimit limit,
				 uint64_t *ret_value)
{
	struct ctx_limits *l = limits_locked(t->top);
	CUresult r;

	if ((unsigned)limit >= CU_LIMIT_MAX)
		return ask_limit(t, limit, ret_value);
	if (!(l->known & 1u << limit)) {
		r = ask_limit(t, limit, &l->value[limit]);
		if (r)
			return r;
		l->known |= 1u << limit;
	}
	*ret_value = l->value[limit];
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit)
{
	struct guest_thread *t;
	uint64_t v;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&limits_lock);
	r = get_limit_locked(t, limit, &v);
	pthread_mutex_unlock(&limits_lock);
	if (r == CUDA_SUCCESS)
		*value = v;
	return r;
}

static CUresult set_limit_locked(struct guest_thread *t, CUlimit limit, size_t value)
{
	limits_locked(t->top)->known = 0; /* one may depend on another */
	return call_ctx_set_limit(t, (uint32_t)limit, value);
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS)
		r = guest_unsafe(t);
	if (r)
		return r;
	pthread_mutex_lock(&limits_lock);
	r = set_limit_locked(t, limit, value);
	pthread_mutex_unlock(&limits_lock);
	return r;
}

/*
 * Preferences. Devices since compute capability 7 divide cache and shared memory by
 * themselves; what was asked for is remembered and given back.
 */
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	c->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *config)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = c->cache_config;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return CUDA_ERROR_INVALID_VALUE;
	c->shared_config = config;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	/* Banks are four bytes wide whatever was preferred. */
	*config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void)
{
	struct guest_ctx *c;

	return ctx_current(&c);
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *param, CUexecAffinityType type)
{
	struct guest_ctx *c;
	CUresult r = ctx_current(&c);

	if (r)
		return r;
	if (!param || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	param->type = type;
	param->param.smCount.val =
		(unsigned)guest_process.device
			.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
	return CUDA_SUCCESS;
}
