/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the worker has this process run, on one helper thread. Any thread. */
#ifndef WEFT_GUEST_HOSTFUNC_H
#define WEFT_GUEST_HOSTFUNC_H

#include "base/list.h"
#include "core/guest.h"

/* A function or a callback of the program, in a stream. */
struct host_call {
	struct list link; /* pending, in the order of posting */
	uint64_t id;
	CUhostFn fn; /* or else callback */
	CUstreamCallback callback;
	CUstream stream;
	void *arg;
	bool always; /* even after an error */
};

/*
 * Waits for room, and puts a copy of *what into a stream, as it travels; t: the calling
 * thread, entered. OUT_OF_MEMORY, or what the gate says.
 */
CUresult hostfunc_add(struct guest_thread *t, const struct host_call *what,
		      uint64_t wire);

/* fn(arg) on the helper thread when the stream gets there, also after an error of its. */
CUresult hostfunc_post(struct guest_thread *t, CUhostFn fn, void *arg, uint64_t wire);

/*
 * What runs on the helper thread for a number of hostfunc_number(); status: how the work
 * before it went. Returns what the worker is told.
 */
typedef CUresult (*hostfunc_other)(uint64_t id, CUresult status);

/*
 * The helper thread runs from now on, and calls `other` (always the same one) for numbers
 * that hostfunc_number() gave. SUCCESS or OUT_OF_MEMORY.
 */
CUresult hostfunc_start(hostfunc_other other);

/* On the helper thread, a function of the program, which may not call CUDA. */
void hostfunc_run(CUhostFn fn, void *arg);

/* Whether a function that a program put into a stream has yet to run or return. */
bool hostfunc_pending(void);

/* A new number for host_func and graph_host. */
uint64_t hostfunc_number(void);

#endif
