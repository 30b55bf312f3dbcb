// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: contexts and the stacks of current contexts
 *
 * Contexts are rarely made and destroyed, so ctx_lock covers all of that, the messages
 * included; destructors of context-local storage run outside of it, since they call
 * back. The stack of a thread is its own and needs no lock; a place in it holds a
 * reference, so that a context that another thread destroys is found dead and not found
 * freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/capturing.h"
#include "object/context.h"
#include "object/extent.h"
#include "object/hostmem.h"
#include "core/idle.h"
#include "object/device.h"
#include "object/owned.h"
#include "core/process.h"
#include "object/context_send.h"
#include "core/thread.h"
#include "object/enter.h"
#include "object/refuse.h"

static pthread_mutex_t ctx_lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_ctx *primary; /* written once, by cuInit */
static _Atomic uint64_t next_id = 1;

static struct {
	pthread_mutex_t lock;
	struct list list; /* the program's own, the newest last */
} living = {PTHREAD_MUTEX_INITIALIZER, {&living.list, &living.list}};

static CUcontext ctx_handle(const struct guest_ctx *c)
{
	return (CUcontext)(uintptr_t)c->handle;
}

static bool is_alive(struct guest_ctx *c)
{
	/* acquire pairs with set_alive() */
	return atomic_load_explicit(&c->alive, memory_order_acquire);
}

static void set_alive(struct guest_ctx *c, bool alive)
{
	pthread_mutex_lock(&living.lock);
	list_remove(&c->living);
	if (alive && !c->primary)
		list_append(&living.list, &c->living);
	atomic_store_explicit(&c->alive, alive, memory_order_release);
	if (!alive)
		atomic_fetch_add_explicit(&idle_ended, 1, memory_order_relaxed);
	pthread_mutex_unlock(&living.lock);
	if (!alive)
		extent_forget_all();
}

static uint64_t wire_id(const struct guest_ctx *c)
{
	return atomic_load_explicit(&c->wire_id, memory_order_relaxed);
}

CUresult ctx_current(struct guest_ctx **ret_c)
{
	CUresult r = guest_gate();
	struct guest_ctx *c;

	if (r)
		return r;
	c = guest_self ? guest_self->top : NULL;
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!atomic_load_explicit(&c->alive, memory_order_acquire))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_c = c;
	return CUDA_SUCCESS;
}

bool ctx_any(uint64_t *ret_handle, uint64_t *ret_wire_id)
{
	const struct guest_ctx *c = NULL;

	pthread_mutex_lock(&living.lock);
	if (primary && is_alive(primary))
		c = primary;
	else if (!list_empty(&living.list))
		c = list_entry(living.list.prev, struct guest_ctx, living);
	if (c) {
		*ret_handle = c->handle;
		*ret_wire_id = wire_id(c);
	}
	pthread_mutex_unlock(&living.lock);
	return c;
}

void ctx_hold(void)
{
	pthread_mutex_lock(&living.lock);
}

void ctx_let_go(void)
{
	pthread_mutex_unlock(&living.lock);
}

bool ctx_living(uint64_t id)
{
	const struct guest_ctx *c;

	if (wire_id(primary) == id)
		return is_alive(primary);
	list_for_each (c, &living.list, living) {
		if (wire_id(c) == id)
			return true;
	}
	return false;
}

/* Threads must name the context to the worker again, though its handle is the same. */
static void renew_wire_id(struct guest_ctx *c)
{
	atomic_store_explicit(&c->wire_id, wire_id_next(wire_id(c)),
			      memory_order_relaxed);
}

static struct guest_ctx *ctx_new(void)
{
	_cleanup_free_ struct guest_ctx *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	list_init(&c->storage);
	list_init(&c->living);
	list_init(&c->owned);
	c->refs = 1;
	c->id = atomic_fetch_add(&next_id, 1);
	c->handle = guest_handle_new(HANDLE_CONTEXT, c);
	atomic_store_explicit(&c->wire_id, wire_id_make(c->handle, 1),
			      memory_order_relaxed);
	return c->handle ? steal(c) : NULL;
}

static void ctx_ref(struct guest_ctx *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void ctx_unref(struct guest_ctx *c)
{
	if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		free(c);
}

int ctx_init_primary(void)
{
	if (primary)
		return 0;
	primary = ctx_new();
	if (!primary)
		return -ENOMEM;
	primary->primary = true;
	return 0;
}

struct guest_ctx *ctx_primary(void)
{
	return primary;
}

struct guest_ctx *ctx_lookup(CUcontext ctx)
{
	if (!ctx)
		return guest_self ? guest_self->top : NULL;
	return guest_object((uintptr_t)ctx, HANDLE_CONTEXT);
}

/* ---- the stack ---- */

static void stack_set_top(struct guest_thread *t)
{
	t->top = t->depth ? t->stack[t->depth - 1] : NULL;
}

/* As deep as there is memory: the driver has no limit either. */
static bool stack_make_room(struct guest_thread *t)
{
	unsigned room = t->stack_room ? 2 * t->stack_room : 8;
	struct guest_ctx **p;

	if (t->depth < t->stack_room)
		return true;
	p = realloc(t->stack, room * sizeof(struct guest_ctx *));
	if (!p)
		return false;
	t->stack = p;
	t->stack_room = room;
	return true;
}

static CUresult stack_push(struct guest_thread *t, struct guest_ctx *c)
{
	if (!stack_make_room(t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx_ref(c);
	t->stack[t->depth++] = c;
	stack_set_top(t);
	return CUDA_SUCCESS;
}

static void stack_pop(struct guest_thread *t)
{
	struct guest_ctx *c = t->stack[--t->depth];

	stack_set_top(t);
	ctx_unref(c);
}

static CUresult enter_thread(struct guest_thread **ret_t)
{
	CUresult r = guest_gate();

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
	if (!is_alive(c))
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
	c = ctx_lookup(ctx);
	return c ? stack_push(t, c) : CUDA_ERROR_INVALID_CONTEXT;
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
		*pctx = ctx_handle(t->top);
	stack_pop(t);
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
			stack_pop(t);
		return CUDA_SUCCESS;
	}
	c = ctx_lookup(ctx);
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (c == t->top)
		return CUDA_SUCCESS;
	if (t->depth)
		stack_pop(t);
	return stack_push(t, c);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult r = guest_gate();

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = guest_self && guest_self->top ? ctx_handle(guest_self->top) : NULL;
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
	struct guest_ctx *c = primary;
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
	if (!is_alive(c)) {
		r = ctx_send_retain(t, c->handle, c->flags);
		if (r == CUDA_SUCCESS) {
			renew_wire_id(c);
			set_alive(c, true);
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
	struct guest_ctx *c = primary;
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
	ends = is_alive(c) && (reset || c->retained == 1);
	pthread_mutex_unlock(&ctx_lock);
	if (ends)
		ctx_storage_fini(c); /* destructors still find a working context */
	if (ends)
		capture_ctx_gone(c->handle);
	pthread_mutex_lock(&ctx_lock);
	if (!reset && c->retained)
		c->retained--;
	if (ends && is_alive(c)) {
		set_alive(c, false); /* a reset leaves the count of users as it is */
		hostmem_drop_ctx(t, c->handle, wire_id(c));
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
	primary->flags = flags;
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
	*flags = primary->flags;
	*active = is_alive(primary);
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
		set_alive(c, true);
		r = stack_push(t, c);
		if (r) {
			set_alive(c, false);
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
	c = ctx_lookup(ctx);
	if (!c || c->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx_storage_fini(c);
	capture_ctx_gone(c->handle);
	pthread_mutex_lock(&ctx_lock);
	if (!is_alive(c)) {
		pthread_mutex_unlock(&ctx_lock);
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	set_alive(c, false);
	guest_handle_free(c->handle);
	pthread_mutex_unlock(&ctx_lock);
	hostmem_drop_ctx(t, c->handle, wire_id(c));
	r = lost_is_fine(ctx_send_destroy(t, c->handle));
	owned_take_all(c, &gone);
	owned_drop_all(&gone);
	if (t->top == c) {
		stack_pop(t);
		t->wire_id = 0;
	}
	ctx_unref(c);
	return r;
}

CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct guest_ctx *c;
	CUresult r = guest_gate();

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
	CUresult r = guest_gate();

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
