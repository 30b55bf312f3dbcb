/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts as the guest sees them. Which context is current is known here alone; the
 * worker is told when a command needs it (guest_enter(NEED_CTX)). The primary context has
 * its handle from cuInit on but exists at the worker only while it is retained.
 */
#ifndef WEFT_GUEST_CONTEXT_H
#define WEFT_GUEST_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/guest.h"
#include "base/list.h"

/* What is known of cuCtxGetLimit(); api/object/context_info.c */
struct ctx_limits {
	uint64_t wire_id; /* guest_ctx.wire_id for which it holds */
	uint32_t known;   /* bit set of CUlimit */
	uint64_t value[CU_LIMIT_MAX];
};
static_assert(CU_LIMIT_MAX <= 32, "a bit for each");

struct guest_ctx {
	uint64_t handle;
	_Atomic bool alive; /* exists at the worker */
	bool primary;
	/* What threads remember of it as "the worker knows"; see core/thread.h. Never 0, never
	 * that of an earlier life. */
	_Atomic uint64_t wire_id;
	_Atomic unsigned
		refs;      /* its handle, and one for each place in a thread's stack */
	unsigned flags;    /* CU_CTX_*; under ctx_lock of api/object/context.c */
	unsigned retained; /* primary: cuDevicePrimaryCtxRetain; else cuCtxAttach */
	uint64_t id;
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
	struct ctx_limits limits;
	_Atomic uint64_t idle;     /* of the legacy stream; core/idle.h */
	_Atomic uint64_t all_idle; /* of all streams */
	struct list storage;       /* values of local_storage.c; under its lock */
	struct list living;        /* where it stands while it lives, unless primary */
	struct list owned;         /* owned.h */
};

/* Makes the primary context's shadow; from cuInit, once. 0 or -ENOMEM. */
int ctx_init_primary(void);

/* The primary context, whether active or not. */
struct guest_ctx *ctx_primary(void);

/* The shadow of a context handle; NULL stands for the thread's current one (or NULL). */
struct guest_ctx *ctx_lookup(CUcontext ctx);

/* A shadow that does not live yet, with one reference; NULL: no memory, no handle. */
struct guest_ctx *ctx_new(void);

/* Whether the worker has it. */
bool ctx_is_alive(struct guest_ctx *c);

/* The worker has it from now on, or is about to lose it: nothing that is known of its
 * streams and of memory holds any more. */
void ctx_set_alive(struct guest_ctx *c, bool alive);

uint64_t ctx_wire_id(const struct guest_ctx *c);

/* The calling thread's stack. A place in it takes a reference; OUT_OF_MEMORY. Popping
 * takes one that is not empty. */
CUresult ctx_push(struct guest_thread *t, struct guest_ctx *c);
void ctx_pop(struct guest_thread *t);

/*
 * The calling thread's current context, alive, for functions that send nothing; or what
 * they are to return: what the gate says, INVALID_CONTEXT, CONTEXT_IS_DESTROYED.
 */
CUresult ctx_current(struct guest_ctx **ret_c);

/*
 * A context that lives, for calls that a handle or an address gives one to although none
 * is current: the primary one, or the newest. False if there is none.
 */
bool ctx_any(uint64_t *ret_handle, uint64_t *ret_wire_id);

/* In between no context ends, and nothing may be waited for. */
void ctx_hold(void);
void ctx_let_go(void);

/* With contexts held: whether one lives that has this guest_ctx.wire_id. */
bool ctx_living(uint64_t id);

static inline CUresult ctx_check_current(void)
{
	struct guest_ctx *c;

	return ctx_current(&c);
}

void ctx_unref(struct guest_ctx *c);

/* ---- local_storage.c: the CONTEXT_LOCAL_STORAGE table keeps values per context ---- */

typedef void (*ctx_storage_dtor)(CUcontext ctx, void *key, void *value);

CUresult ctx_storage_put(CUcontext ctx, void *key, void *value, ctx_storage_dtor dtor);
CUresult ctx_storage_delete(CUcontext ctx, void *key);
CUresult ctx_storage_get(void **ret_value, CUcontext ctx, void *key);

/* Runs the destructors of a context that ends; may call back into the library. */
void ctx_storage_fini(struct guest_ctx *c);

#endif
