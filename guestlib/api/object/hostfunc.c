/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the program in a stream; object/hostfunc.c runs them. */
#include "core/process.h"
#include "graph/capture.h"
#include "graph/op.h"
#include "object/hostfunc.h"

static CUresult post(const struct host_call *what, CUstream stream, bool ptsz)
{
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, &wire);
	if (r)
		return r;
	if (!what->fn && !what->callback)
		return CUDA_ERROR_INVALID_VALUE;
	return hostfunc_add(t, what, wire);
}

static CUresult capture(CUstream stream, CUhostFn fn, void *arg, bool ptsz)
{
	const CUDA_HOST_NODE_PARAMS p = {fn, arg};
	struct graph_op op;
	CUresult r = graph_op_host(&p, &op);

	return r ? r : capture_add(stream, ptsz, &op);
}

static CUresult launch_host_func(CUstream stream, CUhostFn fn, void *arg, bool ptsz)
{
	struct host_call c = {.fn = fn, .stream = stream, .arg = arg};

	if (unlikely(capture_wants(stream, ptsz)))
		return capture(stream, fn, arg, ptsz);
	return post(&c, stream, ptsz);
}

static CUresult add_callback(CUstream stream, CUstreamCallback callback, void *arg,
			     unsigned flags, bool ptsz)
{
	struct host_call c = {.callback = callback, .stream = stream, .arg = arg};
	CUresult r = guest_status();

	if (r)
		return r;
	return flags ? CUDA_ERROR_INVALID_VALUE : post(&c, stream, ptsz);
}

GUEST_PAIR(cuLaunchHostFunc, ptsz, (CUstream stream, CUhostFn fn, void *arg),
	   launch_host_func, stream, fn, arg)
GUEST_PAIR(cuStreamAddCallback, ptsz,
	   (CUstream stream, CUstreamCallback callback, void *arg, unsigned int flags),
	   add_callback, stream, callback, arg, flags)
