/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: which one is current, the primary one, those that the program makes.
 *
 * Contexts are rarely made and destroyed, so ctx_lock covers all of that, the messages
 * included; destructors of context-local storage run outside of it, since they call
 * back.
 */
#include "core/capturing.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/context.h"
#include "object/context_send.h"
#include "object/device.h"
#include "object/enter.h"
#include "object/hostmem.h"
#include "object/owned.h"
#include "object/refuse.h"

static pthread_mutex_t ctx_lock = PTHREAD_MUTEX_INITIALIZER;

static CUcontext ctx_handle(const struct guest_ctx *c)
{
	return (CUcontext)(uintptr_t)c->handle;
}

/* Threads must name the context to the worker again, though its handle is the same. */
static void renew_wire_id(struct guest_ctx *c)
{
	atomic_store_explicit(&c->wire_id, wire_id_next(ctx_wire_id(c)),
			      memory_order_relaxed);
}

static CUresult enter_thread(struct guest_thread **ret_t)
{
	CUresult r = guest_status();

	if (r)
		return r;
	*ret_t = thread_get();
	return *ret_t ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The live context behind a handle. */
static CUresult live_ctx(CUcontext ctx, struct guest_ctx **ret_c)
{
	struct guest_ctx *c = ctx_lookup(ctx);

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx_is_alive(c))
		return c->primary ? CUDA_ERROR_INVALID_CONTEXT
				  : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_c = c;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct guest_thread *t;
	struct guest_ctx *c;
	CUresult r = enter_thread(&t);

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	/* An inactive primary context, too: it works once it is retained. */
	c = ctx_lookup_own(ctx);
	return c ? ctx_push(t, c) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct guest_thread *t;
	CUresult r = enter_thread(&t);

	if (r)
		return r;
	if (!t->depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = ctx_handle(ctx_on_top(t));
	ctx_pop(t);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
	struct guest_thread *t;
	struct guest_ctx *c;
	CUresult r = enter_thread(&t);

	if (r)
		return r;
	if (!ctx) {
		if (t->depth)
			ctx_pop(t);
		return CUDA_SUCCESS;
	}
	c = ctx_lookup_own(ctx);
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (c == ctx_on_top(t))
		return CUDA_SUCCESS;
	if (t->depth)
		ctx_pop(t);
	return ctx_push(t, c);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = guest_self && guest_self->top ? ctx_handle(ctx_on_top(guest_self)) : NULL;
	return CUDA_SUCCESS;
}

/* ---- the primary context ---- */

static bool flags_ok(unsigned flags)
{
	unsigned sched = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) &&
	       (sched == CU_CTX_SCHED_AUTO || sched == CU_CTX_SCHED_SPIN ||
		sched == CU_CTX_SCHED_YIELD || sched == CU_CTX_SCHED_BLOCKING_SYNC);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct guest_ctx *c = ctx_primary();
	struct guest_thread *t;
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	r = guest_enter(NEED_INIT, &t);
	if (r)
		return r;
	pthread_mutex_lock(&ctx_lock);
	if (!ctx_is_alive(c)) {
		r = ctx_send_retain(t, c->handle, c->flags);
		if (r == CUDA_SUCCESS) {
			renew_wire_id(c);
			ctx_set_alive(c, true);
		}
	}
	if (r == CUDA_SUCCESS)
		c->retained++;
	pthread_mutex_unlock(&ctx_lock);
	if (r == CUDA_SUCCESS)
		*pctx = ctx_handle(c);
	return r;
}

/* Ending a context that a kernel has brought down is no error. */
static CUresult lost_is_fine(CUresult r)
{
	return r && r == guest_sticky() ? CUDA_SUCCESS : r;
}

/* Ends the primary context at the worker once the last user is gone (or is told so). */
static CUresult primary_release(bool reset)
{
	struct guest_ctx *c = ctx_primary();
	struct list gone = {&gone, &gone};
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);
	bool ends;

	if (r)
		return r;
	pthread_mutex_lock(&ctx_lock);
	if (!reset && !c->retained) {
		pthread_mutex_unlock(&ctx_lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	ends = ctx_is_alive(c) && (reset || c->retained == 1);
	pthread_mutex_unlock(&ctx_lock);
	if (ends)
		ctx_storage_fini(c); /* destructors still find a working context */
	if (ends)
		capture_ctx_gone(c->handle);
	pthread_mutex_lock(&ctx_lock);
	if (!reset && c->retained)
		c->retained--;
	if (ends && ctx_is_alive(c)) {
		ctx_set_alive(c, false); /* a reset leaves the count of users as it is */
		hostmem_drop_ctx(t, c->handle, ctx_wire_id(c));
		r = lost_is_fine(ctx_send_release(t, c->handle));
		owned_take_all(c, &gone);
		t->wire_id = 0;
	}
	pthread_mutex_unlock(&ctx_lock);
	owned_drop_all(&gone);
	return r;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult r = device_check(dev);

	return r ? r : primary_release(false);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult r = device_check(dev);

	return r ? r : primary_release(true);
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&ctx_lock);
	ctx_primary()->flags = flags;
	pthread_mutex_unlock(&ctx_lock);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags,
					    int *active)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&ctx_lock);
	*flags = ctx_primary()->flags;
	*active = ctx_is_alive(ctx_primary());
	pthread_mutex_unlock(&ctx_lock);
	return CUDA_SUCCESS;
}

/* ---- contexts made by the program ---- */

static CUresult ctx_create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	struct guest_thread *t;
	struct guest_ctx *c;
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!pctx || !flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	r = guest_enter(NEED_INIT, &t);
	if (r)
		return r;
	c = ctx_new();
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->flags = flags;
	c->retained = 1;
	r = ctx_send_create(t, c->handle, flags);
	if (r == CUDA_SUCCESS) {
		ctx_set_alive(c, true);
		r = ctx_push(t, c);
		if (r) {
			ctx_set_alive(c, false);
			ctx_send_destroy(t, c->handle);
		}
	}
	if (r) {
		guest_handle_free(c->handle);
		ctx_unref(c);
		return r;
	}
	*pctx = ctx_handle(c);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return ctx_create(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params,
				int num_params, unsigned int flags, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (num_params < 0 || (num_params && !params))
		return CUDA_ERROR_INVALID_VALUE;
	if (num_params)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; /* without MPS, as in CUDA */
	return ctx_create(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params,
				unsigned int flags, CUdevice dev)
{
	if (params && params->cigParams)
		return guest_refuse(REFUSAL_FEATURE, "cuCtxCreate_v4: graphics");
	return cuCtxCreate_v3(pctx, params ? params->execAffinityParams : NULL,
			      params ? params->numExecAffinityParams : 0, flags, dev);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx)
{
	struct list gone = {&gone, &gone};
	struct guest_thread *t;
	struct guest_ctx *c;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	c = ctx_lookup(ctx); /* a green context's is the primary one */
	if (!c || c->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx_storage_fini(c);
	capture_ctx_gone(c->handle);
	pthread_mutex_lock(&ctx_lock);
	if (!ctx_is_alive(c)) {
		pthread_mutex_unlock(&ctx_lock);
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	ctx_set_alive(c, false);
	guest_handle_free(c->handle);
	pthread_mutex_unlock(&ctx_lock);
	hostmem_drop_ctx(t, c->handle, ctx_wire_id(c));
	r = lost_is_fine(ctx_send_destroy(t, c->handle));
	owned_take_all(c, &gone);
	owned_drop_all(&gone);
	if (t->top == c) {
		ctx_pop(t);
		t->wire_id = 0;
	}
	ctx_unref(c);
	return r;
}

CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct guest_ctx *c;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = live_ctx(NULL, &c);
	if (r)
		return r;
	pthread_mutex_lock(&ctx_lock);
	c->retained++;
	pthread_mutex_unlock(&ctx_lock);
	*pctx = ctx_handle(c);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx)
{
	struct guest_ctx *c;
	bool last;
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = live_ctx(ctx, &c);
	if (r)
		return r;
	if (c->primary)
		return primary_release(false);
	pthread_mutex_lock(&ctx_lock);
	last = c->retained <= 1;
	if (!last)
		c->retained--;
	pthread_mutex_unlock(&ctx_lock);
	return last ? cuCtxDestroy_v2(ctx) : CUDA_SUCCESS;
}
