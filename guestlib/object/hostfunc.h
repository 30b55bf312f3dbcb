/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that this process runs when the worker asks, on one helper thread. Any
 * thread. */
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
 * Puts a copy of *what into a stream, as it travels; waits while too many functions have
 * not returned yet. t: the calling thread, entered. OUT_OF_MEMORY, or the gate's error.
 */
CUresult hostfunc_add(struct guest_thread *t, const struct host_call *what,
		      uint64_t wire);

/* Has fn(arg) called on the helper thread when the stream gets there, also after an error
 * in the stream. Results as hostfunc_add(). */
CUresult hostfunc_post(struct guest_thread *t, CUhostFn fn, void *arg, uint64_t wire);

/*
 * Function for the numbers that hostfunc_number() gave, called on the helper thread.
 * status: result of the work before it in the stream. Returns the result that the worker
 * is told.
 */
typedef CUresult (*hostfunc_other)(uint64_t id, CUresult status);

/*
 * Starts the helper thread, if it does not run yet; it calls `other`, the same function
 * each time, for numbers that hostfunc_number() gave. CUDA_SUCCESS or OUT_OF_MEMORY.
 */
CUresult hostfunc_start(hostfunc_other other);

/* Calls a function of the program on the helper thread; calls of CUDA in it are
 * refused. */
void hostfunc_run(CUhostFn fn, void *arg);

/* True if a function that a program put into a stream has yet to run or return. */
bool hostfunc_pending(void);

/* A new number for host_func and graph_host. */
uint64_t hostfunc_number(void);

#endif
