/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: what a session does, as fixed-size records in a ring that a worker shares with
 * weftd, behind their page (page.h). A record is written only while page.tracing is set;
 * where that is not, a launch pays one relaxed load of it.
 *
 * Writers are any threads of the worker. Each takes the next number, and the slot with it,
 * and never waits: what weftd has not read in time is written over, and counted there as
 * lost. weftd, the one reader, believes nothing that it reads here.
 *
 * Times are clock_now_ns().
 */
#ifndef WEFT_IPC_TRACE_H
#define WEFT_IPC_TRACE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/macros.h"
#include "ipc/page.h"

enum trace_kind {
	TRACE_SUBMIT,    /* a launch is given to the device; value: its blocks */
	TRACE_KERNEL,    /* it runs, on the device; value: its blocks */
	TRACE_GRAPH,     /* a graph is given to the device; value: its kernels */
	TRACE_TO_DEVICE, /* copies, by who asks; value: bytes */
	TRACE_TO_HOST,   /* likewise */
	TRACE_ON_DEVICE, /* likewise */
	TRACE_FILL,      /* value: bytes */
	TRACE_WAIT,      /* a lane waits for the device */
	TRACE_GATE,      /* a lane waits until the gate opens */
	TRACE_TURN,      /* the gate is shut, so that memory can move */
	TRACE_SWAP_OUT,  /* a piece moves out of the device; value: bytes */
	TRACE_SWAP_IN,   /* a piece moves in */
	/* While memory is traced: addresses, from the track-th TRACE_PAGE of those for device
	 * memory on; value: bytes. */
	TRACE_MAP,   /* memory is there */
	TRACE_UNMAP, /* or is not any more */
	TRACE_REACH, /* a launch, copy or fill reaches these, or, if it is 0 bytes, from there
		      * on; all of one launch begin at the same time */
	TRACE_NUM_KINDS
};

#define TRACE_PAGE      (2ull << 20)
#define TRACE_RECORDS   8192u
#define TRACE_NAMES     511u
#define TRACE_NAME_TEXT 120u

/* Words of a record, all atomic, since weftd may read one that is being written over. */
struct trace_slot {
	_Atomic uint64_t number; /* from 1 on, when it is complete; 0: it is not */
	_Atomic uint64_t begin_ns, end_ns;
	_Atomic uint64_t value;
	_Atomic uint32_t kind;
	_Atomic uint32_t
		track; /* of a kind, what comes one after the other: lane, stream */
	_Atomic uint32_t name; /* index of a kernel's name, from 1 on; 0: none */
	uint32_t pad[5];
};
static_assert(sizeof(struct trace_slot) == 64, "one cache line");

/* Name of a kernel; it stays as it is once it is ready. */
struct trace_name {
	char text[TRACE_NAME_TEXT]; /* cut, and not clean; NUL-terminated */
	_Atomic uint32_t ready;
	uint32_t pad;
};
static_assert(sizeof(struct trace_name) == 128, "a table of them is 64 KiB");

struct trace_area {
	_Atomic uint64_t taken;   /* numbers that were given out */
	_Atomic uint32_t n_names; /* likewise, of names */
	uint32_t pad[29];
	struct trace_name names[TRACE_NAMES];
	/* On pages of its own, which weftd gives back when a trace ends. */
	struct trace_slot ring[TRACE_RECORDS];
};
static_assert(offsetof(struct trace_area, ring) == 65536, "whole pages");

/* Size of page and area, which lie in one file; that of an older worker, or weftd, has the
 * page alone. Nothing is behind it until a trace begins. */
#define TRACE_FILE_SIZE (WORKER_PAGE_SIZE + sizeof(struct trace_area))

struct trace_record {
	uint64_t begin_ns, end_ns, value;
	enum trace_kind kind;
	uint32_t track, name;
};

/* Value of page.tracing. */
#define TRACING_MEMORY 2u

/* True while somebody traces the session. */
static inline bool trace_on(const struct worker_page *page)
{
	/* relaxed: a record more or less is all that follows from it */
	return unlikely(atomic_load_explicit(&page->tracing, memory_order_relaxed) != 0);
}

/* And the memory that it reaches. */
static inline bool trace_memory_on(const struct worker_page *page)
{
	/* relaxed: likewise */
	return unlikely(atomic_load_explicit(&page->tracing, memory_order_relaxed) ==
			TRACING_MEMORY);
}

/* Worker: writes one. area NULL: nothing. Any thread, never waits. */
static inline void trace_write(struct trace_area *area, const struct trace_record *r)
{
	struct trace_slot *s;
	uint64_t n;

	if (!area)
		return;
	n = atomic_fetch_add_explicit(&area->taken, 1, memory_order_relaxed) + 1;
	s = &area->ring[n % TRACE_RECORDS];
	atomic_store_explicit(&s->number, 0, memory_order_relaxed);
	/* Stores below are not seen before: pairs with the reader's second look. */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&s->begin_ns, r->begin_ns, memory_order_relaxed);
	atomic_store_explicit(&s->end_ns, r->end_ns, memory_order_relaxed);
	atomic_store_explicit(&s->value, r->value, memory_order_relaxed);
	atomic_store_explicit(&s->kind, r->kind, memory_order_relaxed);
	atomic_store_explicit(&s->track, r->track, memory_order_relaxed);
	atomic_store_explicit(&s->name, r->name, memory_order_relaxed);
	/* release: pairs with the reader's first look */
	atomic_store_explicit(&s->number, n, memory_order_release);
}

#endif
