/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of each calling thread: its lane, its stack of contexts and the one that the
 * worker was last told of. Made on the thread's first call, ended by a
 * thread-specific-data destructor. Only its own thread touches it.
 */
#ifndef WEFT_GUEST_THREAD_H
#define WEFT_GUEST_THREAD_H

#include "core/guest.h"

struct guest_ctx;
struct guest_green;
struct shared_lane;
struct stage;

#define EXTENTS 8

/* Memory of the device that is known to be there; object/extent.h. */
struct extents {
	uint64_t generation;
	unsigned next; /* to be replaced */
	struct extent {
		uint64_t base, size;
	} of[EXTENTS];
};

struct guest_thread {
	struct lane *lane;          /* NULL until a call needs it */
	struct shared_lane *shared; /* lane's owner; NULL: this thread */
	struct guest_ctx
		*top; /* current context, or the one that it is part of; or NULL */
	struct guest_green *green; /* the green context that is current; or NULL */
	uint64_t default_stream;   /* its own; 0: the legacy stream */
	uint64_t wire_id; /* guest_ctx.wire_id of the lane's context at the worker */
	unsigned depth, stack_room;
	struct guest_ctx **stack; /* a reference each */
	CUstreamCaptureMode capture_mode;
	struct stage *stage; /* of small copies, or NULL */
	/* Function to call in the thread when it ends, while its lane is open; or
	 * NULL. */
	void (*at_end)(struct guest_thread *t);
	struct extents extents;
	uint16_t op;       /* of the command begun last */
	char *answer;      /* with a shared lane: the last one */
	bool holds_shared; /* a command on it or its answer is under way */
	bool in_host_func; /* runs a function of a stream, and has no lane meanwhile */
	unsigned answered; /* questions answered without the worker */
	/* When the thread's own default stream was idle, in one context; see idle.h. */
	uint64_t own_idle_in; /* guest_ctx.wire_id */
	_Atomic uint64_t own_idle;
};

/* Makes a guest_ctx.wire_id: the part of a context's handle that differs between
 * contexts, and above it the number of the context's life. */
static inline uint64_t wire_id_make(uint64_t handle, uint32_t life)
{
	return (uint64_t)life << 32 | (uint32_t)(handle >> 4);
}

static inline uint64_t wire_id_next(uint64_t id)
{
	return id + (1ull << 32);
}

/* Handle of the context that has that wire_id. */
static inline uint64_t wire_id_ctx(uint64_t id)
{
	return handle_make(HANDLE_CONTEXT, 0, 0) | (uint64_t)(uint32_t)id << 4;
}

/* Handle of the context that the thread's commands are for: its own, or the one lent to
 * it. */
static inline uint64_t thread_ctx(const struct guest_thread *t)
{
	return wire_id_ctx(t->wire_id);
}

extern __thread struct guest_thread *guest_self
	__attribute__((tls_model("initial-exec")));

/* Opens the thread's lane, or shares one. CUDA_SUCCESS, OUT_OF_MEMORY or
 * GUEST_ERROR_LOST. */
CUresult thread_open_lane(struct guest_thread *t);

/* Opens a lane that no other thread shares, on behalf of a thread that is yet to start
 * and will have t. */
CUresult thread_open_own_lane(struct guest_thread *t);

/* Keeps the lane of a thread that ends, if it has one, for a thread to come. */
void channel_park(struct guest_thread *t);

#endif
