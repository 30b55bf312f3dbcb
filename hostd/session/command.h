/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services for the handling of a command: the lane, the objects that it names, its
 * reply. Generated dispatch code and the handlers in hostd/dispatch/ are written against
 * this header; session.h says how a command passes through.
 */
#ifndef WEFT_SESS_COMMAND_H
#define WEFT_SESS_COMMAND_H

#include "session/session_private.h"

/* ---- the gate (gate.h) ---- */

/* Notes that the session submits work: memory of those that did not lately is evicted. */
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

/* Counts commands without a reply that have been executed. */
static inline void sess_count_posted(struct sess_lane *sl, uint64_t n)
{
	atomic_fetch_add_explicit(&sl->s->count->posts, n, memory_order_relaxed);
}

/* Launches that the device has, whatever became of them: work that it has while there are none is
 * copies to who looks (worker/meter.h). */
static inline void sess_count_launches(const struct sess_lane *sl, uint64_t n)
{
	atomic_fetch_add_explicit(&sl->s->count->launches, n, memory_order_relaxed);
}

/* Waits until every context has done what was submitted to it so far, and on a device that
 * does not tell apart what comes meanwhile, that too. */
void sess_quiesce(struct session *s);
/* As sess_quiesce(), for a session that goes on: what comes meanwhile is not waited for. One
 * thread. */
void sess_catch_up(struct session *s);

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

/* As sess_stream(), with the context as an object of the session's. */
CUresult sess_stream_in(struct sess_lane *sl, uint64_t h, struct dev_stream **ret_stream,
			struct sess_ctx **ret_ctx);

/* The device context current on the lane. NULL: there is none, and the message is not one
 * that needs it (`need ctx` in transport/api). */
static inline struct dev_ctx *sess_ctx_dev(const struct sess_lane *sl)
{
	return sl->ctx ? sl->ctx->dev : NULL;
}

/* The lane's current context or, without one, any that there is: for code that belongs to
 * no context. Pinned until the command ends; NULL if there is none. */
struct sess_ctx *sess_any_ctx(struct sess_lane *sl);

/* Any context that there is, for code outside of commands: a reference, or NULL. */
struct sess_ctx *sess_hold_ctx(struct session *s);

/* The first n attributes of a function; what the device does not know is 0. */
void sess_func_attributes(struct session *s, struct dev_func *f, int32_t *ret,
			  unsigned n);

/* Tells how much device memory the tenant has left, and how much it may have. */
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
 * Waits for a stream and ends a command whose reply is a result alone, with what the wait
 * or an earlier failure gave. handle: the stream as the command names it. Where the guest
 * waits for what has been submitted just now, the device sends the reply, which is made
 * before (decision 20). Returns 0 or negative.
 */
int sess_answer_synchronized(struct sess_lane *sl, struct dev_ctx *ctx,
			     struct dev_stream *st, uint64_t handle);

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

/* Takes note that the device answered r, a failure, to a command: whether the context is
 * lost by that, and what was refused. */
void sess_note_failure(struct sess_lane *sl, uint16_t op, CUresult r);
/* Takes note of what the device answered to a command without a reply, now or before. */
void sess_failed(struct sess_lane *sl, uint16_t op, CUresult r);

/* True if the command being handled has no reply. */
static inline bool sess_posted(const struct sess_lane *sl)
{
	return sl->msg->hdr.flags & WIRE_F_ASYNC;
}

/* Commands that a program does not wait for: after so many, more are likely to come. */
#define SESS_BURST 32u

/* True if the lane's commands come so, or did before the program waited last. */
static inline bool sess_in_burst(const struct sess_lane *sl)
{
	return sl->run >= SESS_BURST || sl->last_run >= SESS_BURST;
}

/* True if it says itself what it comes after, and others need not wait for it. */
static inline bool sess_apart(const struct sess_lane *sl)
{
	return sl->msg->hdr.flags & WIRE_F_APART;
}

/*
 * Returns the result of a synchronising call: r, or, if r is success, the first failure
 * of an earlier command without a reply, which is thereby reported.
 */
CUresult sess_sync_result(struct sess_lane *sl, CUresult r);

/*
 * Counts something that the guest was refused because it is not there, for weftctl info;
 * the text is copied, at most REFUSAL_TEXT bytes, and need not be clean. With a total the
 * count so far is that (or what it was, if more), else it is one more. Any thread.
 */
void sess_refuse(struct session *s, enum refusal kind, const char *what, uint64_t total);

/* Takes note of the guest's library, as it says when the session opens; version has
 * RELEASE_TEXT bytes and may be anything. */
void sess_met(struct sess_lane *sl, const char *version, uint64_t features);

/*
 * Answers a command that a library of another age means and that is not known here:
 * CUDA_ERROR_NOT_SUPPORTED, counted for weftctl info, and in the log with both versions and
 * who is to be upgraded. Returns 0 or negative, as a handler.
 */
int sess_unknown(struct sess_lane *sl);

/* Logs that a guest wants something that this host is too old, or too new, for: text with
 * both versions, which need not be clean. */
void sess_warn_age(struct sess_lane *sl, const char *what);

/*
 * A lane that waits for the guest's own doing (a host function) does not keep the session
 * alive: idle true before the wait, false after it.
 */
void sess_lane_idle(struct sess_lane *sl, bool idle);

/* Called by the device with printed text (device_config.output); arg: the session. */
void sess_output(void *arg, const char *text, size_t size);

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
