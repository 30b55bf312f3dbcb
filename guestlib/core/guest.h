/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stubs of libcuda.so.1 stand on, generated and hand-written alike. A stub looks
 * like this:
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

/* What must hold before a function does its work; checked in this order. */
enum guest_need {
	NEED_NONE, /* the process is neither a forked child nor past its exit */
	NEED_INIT, /* cuInit() has succeeded and the session is alive; the thread has a
		      lane */
	NEED_ANY,  /* as NEED_CTX; where none is current, any that lives will do */
	NEED_CTX,  /* a context is current, not destroyed, and the worker knows which */
};

/*
 * First thing in every stub. Returns CUDA_SUCCESS and the calling thread's state, or
 * what the stub is to return: NOT_INITIALIZED (before cuInit, in a forked child),
 * DEINITIALIZED (late calls while the process exits), INVALID_CONTEXT,
 * CONTEXT_IS_DESTROYED, the sticky error of a lost context, or GUEST_ERROR_LOST once the
 * host is gone. With NEED_NONE the thread may have no lane: do not begin a command.
 * Not for this room: object/enter.c has it, since it needs contexts.
 */
CUresult guest_enter(enum guest_need need, struct guest_thread **ret_t);

/* What calls return after the host or the worker has died. */
#define GUEST_ERROR_LOST CUDA_ERROR_DEVICE_UNAVAILABLE

/*
 * Begins a command on the thread's lane: room for size bytes (8-aligned, not zeroed) and,
 * if payload_size is not 0, *ret_payload for the bulk data. NULL: return guest_lost(t).
 * Exactly one guest_post(), guest_call() or guest_send() follows a success.
 */
void *guest_begin(struct guest_thread *t, uint16_t op, uint32_t size,
		  uint32_t payload_size, void **ret_payload);

/* Sends without waiting. CUDA_SUCCESS or GUEST_ERROR_LOST. */
CUresult guest_post(struct guest_thread *t);

/*
 * As guest_post(), of a command that touches a stream and maybe an event (handle, or 0)
 * and needs no order beside those that touch others; *after is its field of that name.
 * Where the stream is the legacy one (as it travels), it is one for all.
 */
CUresult guest_post_apart(struct guest_thread *t, uint64_t *after, uint64_t stream,
			  uint64_t event);

/*
 * Sends and waits for the first reply record, whose body has at least body_size bytes
 * (sizeof the *_rep structure). Returns the result in it: the code of this call, or of an
 * earlier command that failed after it had been posted, or the session's sticky error.
 * ret_reply is filled on CUDA_SUCCESS only, and also when only `more` matters: a reply
 * that failed has no further records.
 */
CUresult guest_call(struct guest_thread *t, uint32_t body_size,
		    struct lane_reply *ret_reply);

/* The same for what leaves no work behind when it returns; see idle.h. */
CUresult guest_ask(struct guest_thread *t, uint32_t body_size,
		   struct lane_reply *ret_reply);

/* The halves of guest_ask(); between them the caller uses the lane for nothing. */
CUresult guest_send(struct guest_thread *t);
CUresult guest_answer(struct guest_thread *t, uint32_t body_size,
		      struct lane_reply *ret_reply);

/* The same for what goes on after the context was lost: the sticky error is no result. */
CUresult guest_call_even_lost(struct guest_thread *t, uint32_t body_size,
			      struct lane_reply *ret_reply);

/* The next record of a reply that had more; same rules. */
CUresult guest_next(struct guest_thread *t, uint32_t body_size,
		    struct lane_reply *ret_reply);

/* Notes that the session is over (the first time with a message); GUEST_ERROR_LOST. */
CUresult guest_lost(struct guest_thread *t);

/* Likewise when the host broke the protocol. */
CUresult guest_broken(struct guest_thread *t);

/* True for addresses that only devices have; everything else is host memory. */
bool guest_is_device(uint64_t addr);

#define GUEST_PARAMS_MAX 32764u /* bytes of kernel parameters, CUDA's own limit */
#define GUEST_NAME_MAX   32768u /* bytes of a symbol's name with its NUL */

/* ---- handles: numbered here, see transport/handle.h ---- */

/*
 * A new handle of a type, with a shadow object (may be NULL) that guest_object() finds.
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
 * A stream argument as it travels: 1 the legacy default stream, 2 the calling thread's
 * own, else a handle. ptsz says what NULL means: the entry points with the suffix _ptsz
 * or _ptds pass true. CUDA_ERROR_INVALID_HANDLE for a stream that does not exist.
 */
CUresult guest_stream(CUstream stream, bool ptsz, uint64_t *ret_wire);

/* The same for functions that may be called while the stream is being captured; for the
 * others guest_stream() ends the capture, and fails. */
CUresult guest_stream_value(CUstream stream, bool ptsz, uint64_t *ret_wire);

/* For functions that may not be called during a capture: as cuMemAlloc. */
CUresult guest_unsafe(struct guest_thread *t);

/* For functions that wait for all work of a context (a handle, or 0: the current one), or
 * record it: not while a stream of its is being captured, whatever the modes. */
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

/* With a stream: only the default ones are those of the current context. */
static inline enum guest_need guest_need_on(CUstream stream)
{
	return (uintptr_t)stream > GUEST_STREAM_PER_THREAD ? NEED_ANY : NEED_CTX;
}

#endif
