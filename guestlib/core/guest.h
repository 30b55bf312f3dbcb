/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base of the stubs of libcuda.so.1, generated and hand-written alike. A stub looks like
 * this:
 *
 *	CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
 *	{
 *		struct guest_thread *t;
 *		struct cuMemAlloc_v2_cmd *cmd;
 *		struct lane_reply reply;
 *		CUresult r = guest_enter(NEED_CTX, &t);
 *
 *		if (r)
 *			return r;
 *		if (!dptr)
 *			return CUDA_ERROR_INVALID_VALUE;
 *		cmd = guest_begin(t, WIRE_OP_cuMemAlloc_v2, sizeof(*cmd), 0, NULL);
 *		if (!cmd)
 *			return guest_lost(t);
 *		cmd->bytesize = bytesize;
 *		r = guest_call(t, sizeof(struct cuMemAlloc_v2_rep), &reply);
 *		if (r)
 *			return r;
 *		*dptr = ((const struct cuMemAlloc_v2_rep *)reply.body)->dptr;
 *		return CUDA_SUCCESS;
 *	}
 *
 * Nothing here allocates or locks once a thread has its lane.
 */
#ifndef WEFT_GUEST_H
#define WEFT_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prototypes of every version of every function, none renamed by a macro; exported. */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop

#include "base/macros.h"
#include "handle.h"
#include "lane.h"

struct guest_thread; /* thread.h: one per thread that calls into the library */

/* Conditions of a function's work; checked in this order. */
enum guest_need {
	NEED_NONE, /* the process is neither a forked child nor past its exit */
	NEED_INIT, /* cuInit() has succeeded and the session is alive; the thread has a
		      lane */
	NEED_ANY,  /* as NEED_CTX; where none is current, any that lives will do */
	NEED_CTX,  /* a context is current, not destroyed, and the worker knows which */
};

/*
 * Enters the library: every stub begins with it. Returns CUDA_SUCCESS and the calling
 * thread's state, or what the stub is to return: NOT_INITIALIZED (before cuInit, in a
 * forked child), DEINITIALIZED (late calls while the process exits), INVALID_CONTEXT,
 * CONTEXT_IS_DESTROYED, the sticky error of a lost context, or GUEST_ERROR_LOST once the
 * host is gone. With NEED_NONE the thread may have no lane: do not begin a command.
 * Defined in object/enter.c, since it needs contexts.
 */
CUresult guest_enter(enum guest_need need, struct guest_thread **ret_t);

/* Result of all calls after the host or the worker has died. */
#define GUEST_ERROR_LOST CUDA_ERROR_DEVICE_UNAVAILABLE

/*
 * Begins a command on the thread's lane: room for size bytes (8-aligned, not zeroed) and,
 * if payload_size is not 0, *ret_payload for the bulk data. NULL: return guest_lost(t).
 * Exactly one guest_post(), guest_call() or guest_send() follows a success.
 */
void *guest_begin(struct guest_thread *t, uint16_t op, uint32_t size,
		  uint32_t payload_size, void **ret_payload);

/* Says that the structure of the command begun has so many bytes; variable parts follow. */
void guest_fixed(struct guest_thread *t, uint32_t bytes);

/* Sends the command without waiting. CUDA_SUCCESS, GUEST_ERROR_LOST or, if the host does not
 * know a field that is not zero, CUDA_ERROR_NOT_SUPPORTED. */
CUresult guest_post(struct guest_thread *t);

/*
 * As guest_post(), for a command that touches one stream (as it travels) and maybe an
 * event (a handle; 0: none), and needs no order beside commands that touch others. after:
 * the command's field of that name, filled in here. In the legacy stream the command
 * keeps its order with all others.
 */
CUresult guest_post_apart(struct guest_thread *t, uint64_t *after, uint64_t stream,
			  uint64_t event);

/*
 * Sends the command and waits for the first reply record, whose body has at least
 * body_size bytes (sizeof the *_rep structure). Returns the result in it: the code of
 * this call, or of an earlier command that failed after it had been posted, or the
 * session's sticky error. ret_reply is filled on CUDA_SUCCESS only, and also when only
 * `more` matters: a reply that failed has no further records.
 */
CUresult guest_call(struct guest_thread *t, uint32_t body_size,
		    struct lane_reply *ret_reply);

/* As guest_call(), for a command that leaves no work behind when it returns; see
 * idle.h. */
CUresult guest_ask(struct guest_thread *t, uint32_t body_size,
		   struct lane_reply *ret_reply);

/* Halves of guest_ask(): send the command, and wait for its answer. In between the caller
 * uses the lane for nothing else. */
CUresult guest_send(struct guest_thread *t);
CUresult guest_answer(struct guest_thread *t, uint32_t body_size,
		      struct lane_reply *ret_reply);

/* As guest_ask(), for commands that go on after the context was lost: the sticky error is
 * not returned. */
CUresult guest_call_even_lost(struct guest_thread *t, uint32_t body_size,
			      struct lane_reply *ret_reply);

/* Waits for the next record of a reply that had more; parameters and results as
 * guest_call(). */
CUresult guest_next(struct guest_thread *t, uint32_t body_size,
		    struct lane_reply *ret_reply);

/* Notes that the session is over, since the connection ended (the first time with a
 * message). Returns what the stub is to return, GUEST_ERROR_LOST unless the process
 * exits. */
CUresult guest_lost(struct guest_thread *t);

/* As guest_lost(), when the host broke the protocol. */
CUresult guest_broken(struct guest_thread *t);

/* True for addresses that only devices have; everything else is host memory. */
bool guest_is_device(uint64_t addr);

#define GUEST_PARAMS_MAX 32764u /* bytes of kernel parameters, CUDA's own limit */
#define GUEST_NAME_MAX   32768u /* bytes of a symbol's name with its NUL */

/* ---- handles: numbered here, see transport/handle.h ---- */

/*
 * Makes a handle of a type, with a shadow object (may be NULL) that guest_object() finds.
 * 0 when a million of that type exist. Thread-safe.
 */
uint64_t guest_handle_new(enum handle_type type, void *object);

/* Ends a handle: lookups fail from now on. The shadow object stays the caller's. */
void guest_handle_free(uint64_t h);

/* True if h is a live handle of that type. Lock-free. */
bool guest_handle_valid(uint64_t h, enum handle_type type);

/* The shadow of a live handle of that type, or NULL. Lock-free. */
void *guest_object(uint64_t h, enum handle_type type);

/* Replaces the shadow of a live handle. */
void guest_handle_set(uint64_t h, void *object);

/*
 * Translates a stream argument to what travels: 1 the legacy default stream, 2 the
 * calling thread's own, else a handle. ptsz says what NULL means: the entry points with
 * the suffix _ptsz or _ptds pass true. CUDA_ERROR_INVALID_HANDLE for a stream that does
 * not exist.
 */
CUresult guest_stream(CUstream stream, bool ptsz, uint64_t *ret_wire);

/* As guest_stream(), for functions that may be called while the stream is being captured;
 * guest_stream() ends the capture, and fails. */
CUresult guest_stream_value(CUstream stream, bool ptsz, uint64_t *ret_wire);

/* The handle by which the worker knows a context: a green context's is that of what it is
 * part of. */
uint64_t guest_ctx_handle(CUcontext ctx);

/* Refuses a function that may not be called during a capture (such as cuMemAlloc), as far
 * as the capture modes of thread and captures say so: those captures become invalid.
 * CUDA_SUCCESS or STREAM_CAPTURE_UNSUPPORTED. */
CUresult guest_unsafe(struct guest_thread *t);

/* Refuses a function that waits for all work of a context (a handle, or 0: the current
 * one), or records it, while one of its streams is being captured, in whatever mode.
 * CUDA_SUCCESS or STREAM_CAPTURE_UNSUPPORTED, the captures being invalid. */
CUresult guest_whole(struct guest_thread *t, uint64_t ctx);

/*
 * Defines the two entry points of a function whose default stream may be the thread's
 * own: both call impl(arguments..., ptsz).
 *	GUEST_PAIR(cuStreamQuery, ptsz, (CUstream stream), query, stream)
 */
#define GUEST_PAIR(name, suffix, params, impl, ...)                                      \
	CUresult CUDAAPI name params                                                     \
	{                                                                                \
		return impl(__VA_ARGS__, false);                                         \
	}                                                                                \
	CUresult CUDAAPI name##_##suffix params                                          \
	{                                                                                \
		return impl(__VA_ARGS__, true);                                          \
	}

#define GUEST_STREAM_LEGACY     1u
#define GUEST_STREAM_PER_THREAD 2u

/* Need of a function with a stream argument: only the default streams are the current
 * context's. */
static inline enum guest_need guest_need_on(CUstream stream)
{
	return (uintptr_t)stream > GUEST_STREAM_PER_THREAD ? NEED_ANY : NEED_CTX;
}

#endif
