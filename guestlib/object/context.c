/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: contexts and the stacks of current contexts
 *
 * The stack of a thread is its own and needs no lock; a place in it holds a reference, so
 * that a context that another thread destroys is found dead and not found freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "object/context.h"
#include "object/green.h"
#include "object/extent.h"
#include "core/idle.h"
#include "core/process.h"
#include "core/thread.h"

static struct guest_ctx *primary; /* written once, by cuInit */
static _Atomic uint64_t next_id = 1;

static struct {
	pthread_mutex_t lock;
	struct list list; /* the program's own, the newest last */
} living = {PTHREAD_MUTEX_INITIALIZER, {&living.list, &living.list}};

bool ctx_is_alive(struct guest_ctx *c)
{
	/* acquire pairs with ctx_set_alive() */
	return atomic_load_explicit(&c->alive, memory_order_acquire);
}

void ctx_set_alive(struct guest_ctx *c, bool alive)
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

uint64_t ctx_wire_id(const struct guest_ctx *c)
{
	return atomic_load_explicit(&c->wire_id, memory_order_relaxed);
}

CUresult ctx_current(struct guest_ctx **ret_c)
{
	CUresult r = guest_status();
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
	if (primary && ctx_is_alive(primary))
		c = primary;
	else if (!list_empty(&living.list))
		c = list_entry(living.list.prev, struct guest_ctx, living);
	if (c) {
		*ret_handle = c->handle;
		*ret_wire_id = ctx_wire_id(c);
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

	if (ctx_wire_id(primary) == id)
		return ctx_is_alive(primary);
	list_for_each (c, &living.list, living) {
		if (ctx_wire_id(c) == id)
			return true;
	}
	return false;
}

struct guest_ctx *ctx_new(void)
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

void ctx_ref(struct guest_ctx *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void ctx_unref(struct guest_ctx *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	free(c->green);
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

struct guest_ctx *ctx_lookup_own(CUcontext ctx)
{
	if (!ctx)
		return guest_self ? ctx_on_top(guest_self) : NULL;
	return guest_object((uintptr_t)ctx, HANDLE_CONTEXT);
}

struct guest_ctx *ctx_lookup(CUcontext ctx)
{
	struct guest_ctx *c = ctx_lookup_own(ctx);

	return c && c->base ? c->base : c;
}

uint64_t guest_ctx_handle(CUcontext ctx)
{
	struct guest_ctx *c = guest_object((uintptr_t)ctx, HANDLE_CONTEXT);

	return c && c->base ? c->base->handle : (uintptr_t)ctx;
}

/* ---- the stack ---- */

struct guest_ctx *ctx_on_top(const struct guest_thread *t)
{
	return t->depth ? t->stack[t->depth - 1] : NULL;
}

static void stack_set_top(struct guest_thread *t)
{
	struct guest_ctx *c = ctx_on_top(t);

	t->top = c && c->base ? c->base : c;
	t->green = c && c->base ? c->green : NULL;
	t->default_stream = t->green ? t->green->stream : 0;
}

void ctx_end_green(struct guest_thread *t, struct guest_ctx *c)
{
	c->base = NULL;
	if (t)
		stack_set_top(t);
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

CUresult ctx_push(struct guest_thread *t, struct guest_ctx *c)
{
	if (!stack_make_room(t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx_ref(c);
	t->stack[t->depth++] = c;
	stack_set_top(t);
	return CUDA_SUCCESS;
}

void ctx_pop(struct guest_thread *t)
{
	struct guest_ctx *c = t->stack[--t->depth];

	stack_set_top(t);
	ctx_unref(c);
}
