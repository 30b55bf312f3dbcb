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

/* Limits that cuCtxGetLimit() has told; api/object/context_info.c */
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
	/* Number by which threads remember that the worker knows the context; see
	 * core/thread.h. Never 0, and another one in each life of the context. */
	_Atomic uint64_t wire_id;
	/* One for the handle and one for each place in a thread's stack. */
	_Atomic unsigned refs;
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
	/* A green context's: what it is part of, which is current at the worker in its place;
	 * NULL: it is none's. And it, which is freed with this. */
	struct guest_ctx *base;
	struct guest_green *green;
};

/* Makes the primary context's shadow; from cuInit, once. 0 or -ENOMEM. */
int ctx_init_primary(void);

/* The primary context, whether active or not. */
struct guest_ctx *ctx_primary(void);

/* Finds the shadow of a context by its handle, of a green context's that of what it is part
 * of; NULL stands for the thread's current one (or NULL). Takes no reference. */
struct guest_ctx *ctx_lookup(CUcontext ctx);
/* A green context's own shadow, or as above. */
struct guest_ctx *ctx_lookup_own(CUcontext ctx);

/* Makes a shadow that does not live yet, with one reference; NULL: no memory, no
 * handle. */
struct guest_ctx *ctx_new(void);

/* True if the context exists at the worker. */
bool ctx_is_alive(struct guest_ctx *c);

/* Notes that the worker has the context from now on, or is about to lose it: knowledge of
 * its streams and of memory is void. */
void ctx_set_alive(struct guest_ctx *c, bool alive);

/* Reads guest_ctx.wire_id. */
uint64_t ctx_wire_id(const struct guest_ctx *c);

/* The context that was made current last on a thread, a green context's own; NULL: none. */
struct guest_ctx *ctx_on_top(const struct guest_thread *t);

/* Push a context on the stack of t, the calling thread, with a reference (OUT_OF_MEMORY),
 * and pop the top one of a stack that is not empty. */
CUresult ctx_push(struct guest_thread *t, struct guest_ctx *c);
void ctx_pop(struct guest_thread *t);

/*
 * Finds the calling thread's current context, alive, for functions that send nothing; or
 * returns the error for them to return: the gate's, INVALID_CONTEXT or
 * CONTEXT_IS_DESTROYED.
 */
CUresult ctx_current(struct guest_ctx **ret_c);

/*
 * Finds a living context for calls to which a handle or an address gives one although
 * none is current: the primary one, or the newest. False if there is none.
 */
bool ctx_any(uint64_t *ret_handle, uint64_t *ret_wire_id);

/* Keep contexts from ending in between; meanwhile the caller must not wait for
 * anything. */
void ctx_hold(void);
void ctx_let_go(void);

/* True if a context lives that has this guest_ctx.wire_id. The caller holds contexts. */
bool ctx_living(uint64_t id);

/* As ctx_current(), for functions that only need one to be current. */
static inline CUresult ctx_check_current(void)
{
	struct guest_ctx *c;

	return ctx_current(&c);
}

void ctx_ref(struct guest_ctx *c);
/* Has a green context's shadow be one that is no more; t: the calling thread, whose stack it
 * may be on. */
void ctx_end_green(struct guest_thread *t, struct guest_ctx *c);
/* Drops a reference; the last one frees c. */
void ctx_unref(struct guest_ctx *c);

/* ---- local_storage.c: the CONTEXT_LOCAL_STORAGE table keeps values per context ---- */

typedef void (*ctx_storage_dtor)(CUcontext ctx, void *key, void *value);

CUresult ctx_storage_put(CUcontext ctx, void *key, void *value, ctx_storage_dtor dtor);
CUresult ctx_storage_delete(CUcontext ctx, void *key);
CUresult ctx_storage_get(void **ret_value, CUcontext ctx, void *key);

/* Runs the destructors of a context that ends; may call back into the library. */
void ctx_storage_fini(struct guest_ctx *c);

#endif
