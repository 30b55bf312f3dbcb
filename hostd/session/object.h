/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a session and the tables that find them by handle.
 *
 * The guest numbers objects (handle.h), so an index is only a place in a sparse table. An
 * object is counted: the table holds one reference, whoever uses it another. Objects of a
 * context hold a reference on it; destroying the context takes all of them out of the
 * tables first.
 */
#ifndef WEFT_SESS_OBJECT_H
#define WEFT_SESS_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "device/device.h"
#include "handle.h"
#include "ipc/wmem.h"

struct ipc_event;
struct session;
struct sess_ctx;

struct sess_obj {
	_Atomic unsigned refs;
	enum handle_type type;
	uint64_t handle;      /* 0 while not in a table */
	struct sess_ctx *ctx; /* a reference, or NULL */
	struct list in_ctx;   /* of ctx->objs while in a table */
	/* Ends the device's object; obj_put() frees the memory. */
	void (*fini)(struct session *s, struct sess_obj *o);
};

struct sess_ctx {
	struct sess_obj obj;
	struct dev_ctx *dev;
	struct list objs;
	struct list in_session; /* session.contexts, as long as dev is there */
	unsigned id;            /* owner number of the context's memory (space.h) */
	/* Device memory charged for the context itself, and for its limits above what
	 * they were at first; under session.limits_lock. */
	uint64_t charged, limits_charged;
	uint64_t apart;    /* for itself, by whomever it was charged: in session.apart */
	struct dev_event *caught_up; /* sess_catch_up()'s; NULL: it has not been needed */
	_Atomic bool gone;           /* the guest has destroyed it */
	bool paid; /* instead of charged: before the session, and good for the next one */
};

struct sess_stream {
	struct sess_obj obj;
	struct dev_stream *dev;
	struct list in_lane; /* a thread's default stream */
};

struct sess_event {
	struct sess_obj obj;
	struct dev_event *dev;
	/* Where and when (pools_moment()) it was recorded last; moment 0: not known, as
	 * of events that graphs and kernels record (elsewhere). */
	_Atomic(struct dev_stream *) stream;
	_Atomic uint64_t moment;
	_Atomic bool elsewhere;
	bool interprocess;
	struct ipc_event *ipc; /* shared, or may be; NULL: not, or too many are */
};

#define OBJ_PAGE_BITS 10
#define OBJ_PAGE_SIZE (1u << OBJ_PAGE_BITS)
#define OBJ_PAGES     (1u << (HANDLE_INDEX_BITS - OBJ_PAGE_BITS))
/* Most live objects of one session: bounds what a guest can make the worker allocate.
 * What keeps the handles of conditional nodes has numbers of the guest's graphs. */
#define OBJ_SHELLS_MAX 4096u
#define OBJ_LIVE_MAX   (HANDLE_LIVE_MAX + OBJ_SHELLS_MAX)

struct obj_page {
	struct sess_obj *slot[OBJ_PAGE_SIZE];
};

/* Bytes of its worker's memory that one object takes, about. */
#define OBJ_BYTES 512u

struct obj_table {
	pthread_mutex_t lock;
	struct wmem_many many;
	struct obj_page *pages[HANDLE_NUM_TYPES][OBJ_PAGES];
	_Atomic unsigned live;  /* written under the lock */
	_Atomic uint64_t taken; /* objects that have left it */
};

/* Changes whenever an object leaves the table, before obj_take() returns. Without a lock:
 * what another thread takes out at this moment may not be counted yet. */
static inline uint64_t obj_taken(const struct obj_table *t)
{
	return atomic_load_explicit(&t->taken, memory_order_acquire);
}

int obj_table_init(struct obj_table *t);

/* Drops every object, contexts last. No other thread may be running. */
void obj_table_fini(struct session *s, struct obj_table *t);

/*
 * Makes an object of `size` bytes (zeroed, one reference) for the guest's handle h; it is
 * not findable yet. NULL: out of memory. ctx may be NULL; else a reference is taken.
 */
void *obj_new(enum handle_type type, uint64_t h, size_t size, struct sess_ctx *ctx,
	      void (*fini)(struct session *, struct sess_obj *));

/*
 * Makes o findable; the table takes over the caller's reference. Returns 0, -EPROTO (the
 * handle is of another type or in use; o stays the caller's) or -ENOMEM (likewise). May
 * wait for weftd, as worker memory is charged.
 */
int obj_publish(struct session *s, struct sess_obj *o);

/* Finds and references. NULL if there is none of that type with that handle. */
struct sess_obj *obj_find(struct session *s, enum handle_type type, uint64_t h);

/* Takes an object out of its table and hands the table's reference to the caller. NULL:
 * not there. */
struct sess_obj *obj_take(struct session *s, enum handle_type type, uint64_t h);

/* Takes every object of a context out of its table and drops it. */
void obj_drop_ctx(struct session *s, struct sess_ctx *ctx);

/* Any object of a type, referenced. NULL: there is none. */
struct sess_obj *obj_any(struct session *s, enum handle_type type);

/* The handle of the context with that number, or 0. */
uint64_t obj_ctx_handle(struct session *s, unsigned id);

/* References an object that the caller knows to be there; returns it. */
static inline struct sess_obj *obj_ref(struct sess_obj *o)
{
	atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
	return o;
}

/* References an object that may be about to end. False: it is. */
bool obj_ref_live(struct sess_obj *o);

/* Drops a reference; the last one ends and frees the object. Accepts NULL. */
void obj_put(struct session *s, struct sess_obj *o);

#endif
