/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of the software GPU: queues of operations that start in order, each when the
 * one before it has finished and the operations of other streams that it depends on have.
 *
 * An operation has a number in its stream (1, 2, ...); the stream counts how many it was
 * given (submitted) and how many have finished (completed). "Stream S at number N" is
 * what events, dependencies and waiting threads refer to, so none of them needs to keep
 * an operation alive.
 *
 * Everything here is under the device's lock unless it says otherwise.
 */
#ifndef WEFT_DEVICE_SOFT_STREAM_H
#define WEFT_DEVICE_SOFT_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/device.h"

/* Entries of a stream's queue; a call that adds one more waits. As on GPUs. */
#define SOFT_QUEUE_MAX 1024

/* Priorities as CUDA counts them: 0 is the lowest, -5 the highest, as on an H200. */
#define SOFT_PRIORITY_GREATEST (-5)

struct dev_stream {
	struct dev_ctx *ctx;
	struct list link; /* dev_ctx.streams; the legacy and the joint one are in none */
	unsigned refs;    /* the user's, one per queued operation, one per event */
	bool blocking;    /* takes part in the legacy stream's implicit order */
	bool dead;        /* destroy() was called */
	int priority;
	uint64_t tpcs[2]; /* its kernels' (keep_to); 0: all */
	uint64_t submitted, completed;
	uint64_t after_legacy; /* number of the legacy stream that it waits for already */
	uint64_t before_legacy; /* ... and own number that the legacy stream waits for */
	struct list queue;      /* struct soft_op, not finished */
	struct list waits;      /* struct soft_wait for a number of this stream */
};

enum soft_op_kind {
	SOFT_OP_MARK,   /* nothing: carries dependencies */
	SOFT_OP_EVENT,  /* takes the time */
	SOFT_OP_CALLER, /* the caller's thread does the work: see soft_run_in_order() */
	SOFT_OP_COPY,   /* anything that a copy engine does */
	SOFT_OP_HOST,   /* host function */
	SOFT_OP_WORDS,  /* waits for, and writes of, words of memory */
	SOFT_OP_KERNEL,
	SOFT_OP_NUM_KINDS
};

/* One who waits until stream->completed >= seq: an operation, or a thread. */
struct soft_wait {
	struct list link; /* dev_stream.waits while it is not satisfied */
	uint64_t seq;
	struct soft_op *op; /* NULL: a thread parked on word */
	uint32_t word;      /* enum soft_word */
};

/* States of a word that a thread waits for; see soft_park_locked(). */
enum soft_word {
	SOFT_WORD_WAIT,
	SOFT_WORD_GO,
	SOFT_WORD_PARKED, /* like WAIT, and the thread must be woken */
};

#define SOFT_OP_OWN_WAITS 3

struct soft_op {
	enum soft_op_kind kind;
	bool started;
	bool for_kernels; /* SOFT_OP_WORDS: these alone let it end */
	struct dev_stream *st;
	uint64_t seq;
	struct list link;    /* dev_stream.queue */
	struct list engine;  /* queue of who does the work */
	unsigned n_blockers; /* unsatisfied waits */
	unsigned n_waits;
	struct soft_wait own_waits[SOFT_OP_OWN_WAITS];
	struct soft_wait *waits;          /* own_waits or allocated */
	void (*free)(struct soft_op *op); /* when finished; NULL: not on the heap */
	/* Payload of the small kinds; the others embed a soft_op. */
	struct dev_event *event;
	uint64_t event_gen;
	uint32_t word; /* SOFT_OP_CALLER, enum soft_word: GO when it may run */
};

struct dev_event {
	struct dev_ctx *ctx;
	struct list link; /* dev_ctx.events */
	unsigned refs;    /* the user's, one per queued record, one per waiting thread */
	bool timing;
	bool recorded;
	struct dev_stream *st; /* of the last record; referenced */
	uint64_t seq;          /* done when st->completed >= seq */
	uint64_t gen;          /* counts records: only the last one sets the time */
	uint64_t time_ns;
};

/*
 * Queues op, of which kind, started, free and the payload are set, in st. On success op
 * belongs to the queue and is started at once if nothing is before it. On failure
 * (CUDA_ERROR_OUT_OF_MEMORY, or what the context was lost with) it is still the caller's.
 * May wait for room, with the lock dropped.
 */
CUresult soft_op_submit_locked(struct dev_stream *st, struct soft_op *op);

/* As above, after st_after, which the caller holds, has reached seq_after as well. */
CUresult soft_op_submit_after_locked(struct dev_stream *st, struct soft_op *op,
				     struct dev_stream *st_after, uint64_t seq_after);

/* op has done its work: lets everything that waited for it go on. Frees op. */
void soft_op_finish_locked(struct soft_op *op);

/* True if an operation submitted to st now would start at once. */
bool soft_stream_idle_locked(struct dev_stream *st);

/*
 * Runs work(arg) in the calling thread when st gets there, and waits for that. The lock
 * is not held. work's result is returned unless the context is lost first.
 */
CUresult soft_run_in_order(struct dev_ctx *ctx, struct dev_stream *st,
			   CUresult (*work)(struct dev_ctx *ctx, void *arg), void *arg);

/* Waits, with the lock dropped, until st->completed >= seq. Helps to run kernels. */
void soft_stream_wait_locked(struct dev_stream *st, uint64_t seq);

/*
 * Waits until another thread calls soft_unpark() on word; meanwhile helps to run kernels
 * of the stream (any of the context if st is the legacy stream). Drops the lock.
 */
void soft_park_locked(struct dev_stream *st, uint32_t *word);
void soft_unpark(uint32_t *word);

/* Waits for all that was submitted to the context so far. */
void soft_ctx_wait_locked(struct dev_ctx *ctx);

void soft_stream_init(struct dev_stream *st, struct dev_ctx *ctx);
void soft_stream_put_locked(struct dev_stream *st);
void soft_event_put_locked(struct dev_event *ev);

/* The stream that an argument of device_ops means. */
struct dev_stream *soft_stream_of(struct dev_ctx *ctx, struct dev_stream *st);

/* The nearest priority that there is. */
static inline int soft_priority(int priority)
{
	return MAX(MIN(priority, 0), SOFT_PRIORITY_GREATEST);
}

/* device_ops */
CUresult soft_stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
			    struct dev_stream **ret_stream);
CUresult soft_stream_set_attribute(struct dev_ctx *ctx, struct dev_stream *st,
				   CUstreamAttrID attr, const CUstreamAttrValue *value);
void soft_stream_destroy(struct dev_stream *st);
CUresult soft_stream_query(struct dev_ctx *ctx, struct dev_stream *st);
CUresult soft_stream_synchronize(struct dev_ctx *ctx, struct dev_stream *st);
CUresult soft_stream_synchronize_to(struct dev_ctx *ctx, struct dev_stream *st,
				    _Atomic uint64_t *word, uint64_t value);
CUresult soft_stream_wait_event(struct dev_ctx *ctx, struct dev_stream *st,
				struct dev_event *ev);
CUresult soft_host_func(struct dev_ctx *ctx, struct dev_stream *st,
			void (*fn)(void *arg, uint64_t token), void *arg);
void soft_host_func_done(struct device *dev, uint64_t token);
CUresult soft_event_create(struct dev_ctx *ctx, unsigned flags,
			   struct dev_event **ret_event);
void soft_event_destroy(struct dev_event *ev);
CUresult soft_event_record(struct dev_ctx *ctx, struct dev_event *ev,
			   struct dev_stream *st);
CUresult soft_ctx_record_event(struct dev_ctx *ctx, struct dev_event *ev);
CUresult soft_ctx_wait_event(struct dev_ctx *ctx, struct dev_event *ev);
CUresult soft_event_query(struct dev_event *ev);
CUresult soft_event_synchronize(struct dev_event *ev);
CUresult soft_event_elapsed(struct dev_event *start, struct dev_event *end,
			    float *ret_ms);

#endif
