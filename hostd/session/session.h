/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one guest process as its worker sees it. Generated dispatch code and the
 * handlers in hostd/dispatch/ are written against this header.
 *
 * How a command passes through: the lane's thread receives it (lane.h), waits for its
 * ticket (tickets.h), looks up its row and calls the generated trampoline, which decodes
 * and calls handle_<name>(). The trampoline ends with sess_done(), a raw handler answers
 * by itself with sess_reply_begin()/sess_reply_end(). Then every pinned object is
 * released.
 *
 * Threads: one per lane. Commands without a reply run one at a time, in ticket order;
 * waiting commands run beside them and beside each other. So anything that belongs to the
 * session rather than the lane is locked or atomic, and an object may be destroyed by one
 * lane while another uses it: it is freed when the last pin is gone.
 *
 * A command without a reply never waits for a stream: it would hold every later ticket.
 *
 * Return values. 0: the command was handled; a CUDA error is data in its reply.
 * Negative: the protocol was broken or the lane is dead; the session ends.
 */
#ifndef WEFT_SESS_SESSION_H
#define WEFT_SESS_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <cuda.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "device/device.h"
#include "device/tally.h"
#include "handle.h"
#include "ipc/accounts.h"
#include "ipc/page.h"
#include "ipc/share.h"
#include "lane.h"
#include "memory/env.h"
#include "memory/touch.h"
#include "session/batch.h"
#include "session/gate.h"
#include "session/kept.h"
#include "session/object.h"
#include "session/tickets.h"

struct footprint;
struct hostfuncs;
struct hostmem;
struct images;
struct ipc_events;
struct pools;
struct space;

#define SESS_LANE_RESERVED ((struct sess_lane *)1) /* in lanes[]: taken, not started */
#define SESS_LOG_BURST     5 /* lines a second that a guest may cause */
#define SESS_LANES_MAX     WIRE_SESSIONS_MAX
#define SESS_PINS_MAX      16 /* objects that one command may name; arrays use obj_ref() */
#define SESS_STREAM_LEGACY 1ull /* stream values on the wire that are not handles */
#define SESS_STREAM_THREAD 2ull

struct session {
	const struct device_ops *ops;
	struct device *dev;
	struct device_info info;
	struct space *space;           /* allocations; memory/space.h */
	struct footprint *footprint;   /* what the device takes by itself */
	struct pools *pools;           /* stream-ordered memory; memory/pool.h */
	struct images *images;         /* code on its way; image.h */
	struct hostfuncs *hostfuncs;   /* host functions waiting for the guest */
	struct hostmem *hostmem;       /* shared with the guest; NULL: none can be */
	struct ipc_events *ipc_events; /* shared with other sessions */
	struct accounts accounts;      /* how it reaches weftd's */
	struct mem_env env;            /* what memory/ stands on */
	struct touch touch; /* what it launches with, if that is of use */
	struct gate gate;   /* who submits work that may touch device memory is inside */

	uint64_t number;   /* of this session, for messages */
	uint8_t token[16]; /* what a joining lane must show */
	char tenant[64];

	struct obj_table objs;
	struct list libraries; /* sess_module.in_session, under objs.lock */
	pthread_mutex_t contexts_lock;
	pthread_cond_t contexts_cond; /* one has gone */
	struct list contexts;         /* sess_ctx.in_session */
	struct tickets tickets;
	_Atomic uint64_t calls_begun, calls_done; /* commands without a ticket */
	_Atomic unsigned lent; /* lanes that have lent what they keep; kept.h */
	_Atomic unsigned next_ctx_id;
	bool monitor;  /* has no context and makes none */
	bool dropping; /* drop_thread gives up the one that was there */
	pthread_t drop_thread;
	uint64_t
		overhead; /* device memory that weftd has charged for the first context */
	/* Device memory beside chunks that is charged when it is made: contexts, limits,
	 * arrays. */
	struct tally apart;
	_Atomic unsigned paid; /* contexts charged for that are not there (any more) */
	pthread_mutex_t limits_lock;
	struct sess_ctx *primary; /* made before the guest came; lives as long as dev */

	volatile struct wire_status *status; /* the guest's status line, or NULL */
	_Atomic uint32_t sticky;             /* CUresult once a context is lost */
	_Atomic uint32_t deferred; /* first failure of a command without a reply */

	pthread_mutex_t out_lock;
	char *out; /* text kernels printed, not yet sent */
	size_t out_size, out_room;
	_Atomic bool out_pending;

	pthread_mutex_t lanes_lock;
	struct sess_lane *lanes[SESS_LANES_MAX]; /* holes are NULL */
	unsigned n_lanes;                        /* open ones */
	unsigned n_threads;                      /* of lanes, not quite ended */
	pthread_cond_t threads_cond;
	_Atomic bool ending;
	_Atomic int end_reason;    /* 0: all lanes closed; else -errno */
	struct worker_page *count; /* own_count, or a page shared with weftd */
	struct worker_page own_count;
	struct log_limit log_limit;   /* under lanes_lock */
	pthread_mutex_t refusal_lock; /* writing of count->refusals */
	void (*on_ending)(
		void *arg);        /* the same, before anything is ended; may be NULL */
	void (*on_end)(void *arg); /* called once, by the thread that ends it */
	void (*on_active)(void *arg); /* a launch while not active; may be NULL */
	void *owner;                  /* arg of both */
	_Atomic bool active;          /* somebody measures busy_permille */
};

/* What a lane knew of the others when it found its stream idle (dispatch/copy.c). */
struct sess_taken {
	bool known;
	bool under_way; /* since then copies were taken that may be under way */
	uint64_t stream, calls, posts;
	struct dev_ctx *ctx; /* only to compare */
};

/* One guest thread. Used by its own thread only, except as noted. */
struct sess_lane {
	struct session *s;
	struct lane *lane;
	unsigned index;
	pthread_t thread;
	struct gate_lane gate;

	const struct lane_msg *msg; /* the command being handled */
	struct sess_ctx *ctx;       /* current context, a reference, or NULL */
	struct list thread_streams; /* this thread's default stream of each context */
	/* While it sleeps others may take ctx and thread_streams (rest.c), and what it
	 * has lent (kept.h). */
	pthread_mutex_t rest;
	bool asleep;

	struct sess_pin {
		struct sess_obj *obj;
		uint64_t key; /* under which to keep it; 0: not */
		struct dev_func *dev;
	} pins[SESS_PINS_MAX]; /* references that the command holds */
	unsigned n_pins;
	struct kept kept;
	struct batch batch;
	struct sess_taken taken;
	bool more;      /* another launch lies there already */
	bool replying;  /* a raw handler has begun its reply */
	bool uncounted; /* what this command answers is no refusal of its own */
};

/* ---- the gate (gate.h) ---- */

/* Whose memory gives way depends on who has submitted work lately. */
static inline void sess_submitted(struct session *s)
{
	struct timespec ts; /* some milliseconds early, for a quarter of the price */

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	atomic_store_explicit(&s->count->last_submit_ns,
			      (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec,
			      memory_order_relaxed);
}

/* Around every operation of the device that may touch its memory. Returns 0, or -EPIPE:
 * the session has ended. */
static inline int sess_enter(struct sess_lane *sl)
{
	return gate_enter(&sl->s->gate, &sl->gate);
}

static inline void sess_leave(struct sess_lane *sl)
{
	gate_leave(&sl->gate);
	if (unlikely(sl->s->touch.pages))
		sess_submitted(sl->s);
}

/* Adds to a counter that only posted commands change: they run one at a time. */
static inline void sess_count_posted(_Atomic uint64_t *c, uint64_t n)
{
	uint64_t before = atomic_load_explicit(c, memory_order_relaxed);

	atomic_store_explicit(c, before + n, memory_order_relaxed);
}

/* Waits until every context has done what was submitted to it so far. */
void sess_quiet(struct session *s);

/* ---- objects (types in object.h) ---- */

/*
 * Finds the object that the guest calls h; pinned until the command ends. NULL if h is
 * not a live object of that type, whatever else it is: answer CUDA_ERROR_INVALID_HANDLE
 * (or what CUDA documents for the case).
 */
void *sess_get(struct sess_lane *sl, enum handle_type type, uint64_t h);

/* Hands a reference over to the command: dropped when it ends. Returns o, or NULL (and
 * drops it at once) if the command has too many. */
void *sess_pin(struct sess_lane *sl, struct sess_obj *o);

/* Make a context or a stream, not findable yet; the caller holds the reference. */
CUresult sess_ctx_new(struct session *s, uint64_t h, unsigned flags,
		      struct sess_ctx **ret_ctx);
CUresult sess_stream_new(struct session *s, struct sess_ctx *ctx, uint64_t h,
			 unsigned flags, int priority, struct sess_stream **ret_stream);

/* What the first context has taken, for weftd to charge; once, before the guest comes. */
uint64_t sess_overhead(struct session *s);

/* Changes a limit; what it takes is charged. CUDA_ERROR_OUT_OF_MEMORY, or the device's.
 */
CUresult sess_ctx_set_limit(struct session *s, struct sess_ctx *ctx, CUlimit limit,
			    size_t value);

/* The lane's thread is about to wait for a command; it has one, or will get none. */
void sess_lane_sleeps(struct sess_lane *sl);
void sess_lane_wakes(struct sess_lane *sl);

/* The guest has destroyed a context: lanes that sleep let go of it, others when they do.
 * The caller holds a reference and no lock. */
void sess_ctx_gone(struct session *s, struct sess_ctx *ctx);

/* Drops the lane's own default streams of a context, or (NULL) of all. */
void sess_drop_thread_streams(struct sess_lane *sl, struct sess_ctx *ctx);

/*
 * The stream that a command names: legacy, per-thread or a handle, of the lane's current
 * context. *ret_stream is NULL for the legacy stream. Returns CUDA_SUCCESS,
 * CUDA_ERROR_INVALID_HANDLE or CUDA_ERROR_INVALID_CONTEXT (no current context).
 * *ret_ctx (may be NULL) is the context in which to submit: a handle's own.
 */
CUresult sess_stream(struct sess_lane *sl, uint64_t h, struct dev_stream **ret_stream,
		     struct dev_ctx **ret_ctx);

/* The same, with the context as an object of the session's. */
CUresult sess_stream_in(struct sess_lane *sl, uint64_t h, struct dev_stream **ret_stream,
			struct sess_ctx **ret_ctx);

/* The device context current on the lane, or NULL: CUDA_ERROR_INVALID_CONTEXT. */
static inline struct dev_ctx *sess_ctx_dev(const struct sess_lane *sl)
{
	return sl->ctx ? sl->ctx->dev : NULL;
}

/* The lane's current context or, without one, any that there is: for code that belongs to
 * no context. Pinned until the command ends; NULL if there is none. */
struct sess_ctx *sess_any_ctx(struct sess_lane *sl);

/* The same outside of commands: a reference. */
struct sess_ctx *sess_hold_ctx(struct session *s);

/* The first n attributes of a function; what the device does not know is 0. */
void sess_func_attributes(struct session *s, struct dev_func *f, int32_t *ret,
			  unsigned n);

/* What the tenant has left of device memory, and what it may have. */
void sess_memory(struct session *s, uint64_t *ret_free, uint64_t *ret_total);

/* Returns 0 or -errno (no broker). */
int sess_tenant(struct session *s, struct msg_tenant *ret_tenant);

/* ---- results ---- */

/*
 * Ends a command: rep starts with struct wire_result. Of a waiting command it becomes the
 * reply (text that kernels printed goes ahead of it); of a command without a reply a
 * failure is remembered for the next synchronising call. Returns 0 or negative.
 */
int sess_done(struct sess_lane *sl, const void *rep, uint32_t rep_size);

/*
 * For raw handlers: as lane_reply_begin()/lane_reply(); the first record of a reply is
 * preceded by printed text. The body is zeroed, and res.sticky is filled in at the end.
 * NULL when the lane is dead: return -EPIPE.
 */
void *sess_reply_begin(struct sess_lane *sl, uint16_t flags, uint32_t body_size,
		       uint32_t payload_size, void **ret_payload);
int sess_reply_end(struct sess_lane *sl);

/* Remembers a failure for the next synchronising call; the first one wins. */
void sess_defer(struct session *s, CUresult r);

/* Takes note of what the device answered to a command without a reply, now or before. */
void sess_failed(struct sess_lane *sl, uint16_t op, CUresult r);

/* True if the command being handled has no reply. */
static inline bool sess_posted(const struct sess_lane *sl)
{
	return sl->msg->hdr.flags & WIRE_F_ASYNC;
}

/*
 * What a synchronising call returns: r, or, if r is success, the first failure of an
 * earlier command without a reply, which is thereby reported.
 */
CUresult sess_sync_result(struct sess_lane *sl, CUresult r);

/*
 * Counts something that the guest was refused because it is not there, for weftctl info;
 * the text is copied, at most REFUSAL_TEXT bytes, and need not be clean. With a total the
 * count so far is that (or what it was, if more), else it is one more. Any thread.
 */
void sess_refuse(struct session *s, enum refusal kind, const char *what, uint64_t total);

/* ---- life ---- */

/* Who the session belongs to; known when the guest comes. */
struct sess_identity {
	const char *tenant;
	uint64_t number;
	const uint8_t *token; /* 16 bytes */
};

/*
 * Opens a device and makes the primary context: all that takes long, before the guest is
 * there. cfg's output is replaced. Returns 0 or -errno.
 */
int sess_new(const struct device_ops *ops, const struct device_config *cfg,
	     const struct accounts *broker, struct session **ret_s);

/* Says whose session it is; before the first lane. */
void sess_identify(struct session *s, const struct sess_identity *id);

/*
 * The session only monitors: it gives up its context, in a thread of its own, for a
 * driver takes its time over that. Before the first lane. Returns 0 or -errno.
 */
int sess_monitor(struct session *s);

/* No lane may be running. Destroys every object and closes the device. Accepts NULL. */
void sess_free(struct session *s);

/* What the device calls with printed text (device_config.output); arg: the session. */
void sess_output(void *arg, const char *text, size_t size);

/*
 * Adds a lane and starts its thread, which takes over l. Returns 0, -ENOSPC or -errno;
 * on failure l stays the caller's.
 */
int sess_lane_start(struct session *s, struct lane *l, unsigned index);

/*
 * A lane that waits for the guest's own doing (a host function) does not keep the session
 * alive: idle true before the wait, false after it.
 */
void sess_lane_idle(struct sess_lane *sl, bool idle);

/* A free lane number, reserved until sess_lane_start() or sess_lane_unreserve(). */
int sess_lane_reserve(struct session *s);
void sess_lane_unreserve(struct session *s, unsigned index);

/* Waits until no thread of a lane is left; after sess_end(), or once the guest is gone.
 */
void sess_join(struct session *s);

/* Ends the session for every lane; first reason wins. Any thread. */
void sess_end(struct session *s, int reason);

/* Waits until no lane runs a command and the device has done all of them; after
 * sess_end(), also from on_end(). A kernel may never end. */
void sess_settle(struct session *s);

/* Handles one command on the lane; the body of a lane's thread, and of tests and fuzzing.
 * Returns 0 or negative. */
int sess_handle(struct sess_lane *sl, const struct lane_msg *msg);

/* A lane without a thread, for sess_handle(). */
void sess_lane_init(struct sess_lane *sl, struct session *s, struct lane *l,
		    unsigned index);
void sess_lane_fini(struct sess_lane *sl);

/* Logs with tenant, session and sequence number, at most a few lines a second. */
void sess_warn(struct sess_lane *sl, const char *fmt, ...) _printf_(2, 3);

#endif
