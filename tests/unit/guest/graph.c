/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and captures in the guest: what is sent for them, and threads that do not meet.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "graph/mem.h"
#include "core/guest.h"
#include "fake.h"

#define THREADS 4
#define ROUNDS  20

static CUcontext ctx;
static CUfunction func;

static struct fake *start(void)
{
	struct fake *f = fake_start(true);
	CUmodule module;

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	cr_assert_eq(cuModuleLoadData(&module, ".version 9.0"), CUDA_SUCCESS);
	cr_assert_eq(cuModuleGetFunction(&func, module, "empty"), CUDA_SUCCESS);
	return f;
}

static CUstream new_stream(void)
{
	CUstream st = NULL;

	cr_assert_eq(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	return st;
}

static CUresult launch(CUstream st)
{
	return cuLaunchKernel(func, 1, 1, 1, 32, 1, 1, 0, st, NULL, NULL);
}

Test(guest_graph, a_launch_is_one_command, .timeout = 60)
{
	struct fake *f = start();
	CUstream st = new_stream();
	unsigned posts, calls, i;
	CUgraphExec x;
	CUgraph g;

	cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	posts = f->posts;
	calls = f->calls;
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	for (i = 0; i < 10; i++)
		cr_assert_eq(launch(st), CUDA_SUCCESS);
	cr_assert_eq(cuStreamEndCapture(st, &g), CUDA_SUCCESS);
	cr_expect_eq(f->posts, posts, "a capture sends nothing");
	cr_expect_eq(f->calls, calls);
	cr_assert_eq(cuGraphInstantiateWithFlags(&x, g, 0), CUDA_SUCCESS);
	cr_expect_eq(f->calls, calls + 1, "one answer is waited for");
	cr_expect_eq(f->posts, posts + 1 + 10 + 9, "nodes, and edges of all but one");
	posts = f->posts;
	for (i = 0; i < 7; i++)
		cr_assert_eq(cuGraphLaunch(x, st), CUDA_SUCCESS);
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_expect_eq(f->posts, posts + 7);
	cr_expect_eq(f->launches, 0);
	cr_assert_eq(cuGraphExecDestroy(x), CUDA_SUCCESS);
	cr_assert_eq(cuGraphDestroy(g), CUDA_SUCCESS);
}

Test(guest_graph, a_refused_graph_is_gone, .timeout = 60)
{
	struct fake *f = start();
	CUgraphExec x = (CUgraphExec)&f;
	CUgraphNode n;
	CUgraph g;

	cr_assert_eq(cuGraphCreate(&g, 0), CUDA_SUCCESS);
	cr_assert_eq(cuGraphAddEmptyNode(&n, g, NULL, 0), CUDA_SUCCESS);
	f->fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	cr_expect_eq(cuGraphInstantiateWithFlags(&x, g, 0), CUDA_ERROR_OUT_OF_MEMORY);
	cr_expect_eq(x, (CUgraphExec)&f, "outputs are written on success only");
	cr_expect_eq(cuGraphInstantiateWithFlags(&x, g, 0), CUDA_SUCCESS);
	cr_expect_eq(cuGraphExecDestroy(x), CUDA_SUCCESS);
	cr_expect_eq(cuGraphExecDestroy(x), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuGraphDestroy(g), CUDA_SUCCESS);
	cr_expect_eq(cuGraphDestroyNode(n), CUDA_ERROR_INVALID_VALUE);
}

/* A hundred thousand nodes in a row: no recursion, no quadratic time. */
Test(guest_graph, long_chain, .timeout = 60)
{
	CUstream st;
	CUgraphExec x;
	CUgraph g, clone;
	size_t n = 0;
	unsigned i;

	start();
	st = new_stream();
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	for (i = 0; i < 100000; i++)
		cr_assert_eq(launch(st), CUDA_SUCCESS);
	cr_assert_eq(cuStreamEndCapture(st, &g), CUDA_SUCCESS);
	cr_assert_eq(cuGraphClone(&clone, g), CUDA_SUCCESS);
	cr_assert_eq(cuGraphDestroy(g), CUDA_SUCCESS);
	cr_assert_eq(cuGraphGetNodes(clone, NULL, &n), CUDA_SUCCESS);
	cr_expect_eq(n, 100000);
	cr_assert_eq(cuGraphInstantiateWithFlags(&x, clone, 0), CUDA_SUCCESS);
	cr_assert_eq(cuGraphExecDestroy(x), CUDA_SUCCESS);
	cr_assert_eq(cuGraphDestroy(clone), CUDA_SUCCESS);
}

Test(guest_graph, capture_belongs_to_its_thread_and_mode, .timeout = 60)
{
	CUstreamCaptureStatus status;
	CUstream st, other;
	CUdeviceptr p;
	CUgraph g;

	start();
	st = new_stream();
	other = new_stream();
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	cr_expect_eq(cuMemAlloc_v2(&p, 64), CUDA_SUCCESS);
	cr_expect_eq(launch(NULL), CUDA_SUCCESS, "the stream does not block");
	cr_expect_eq(launch(other), CUDA_SUCCESS);
	cr_expect_eq(cuStreamSynchronize(other), CUDA_SUCCESS);
	cr_expect_eq(cuStreamIsCapturing(other, &status), CUDA_SUCCESS);
	cr_expect_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
	cr_expect_eq(cuStreamEndCapture(st, &g), CUDA_SUCCESS);
	cr_expect_eq(cuGraphDestroy(g), CUDA_SUCCESS);
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	cr_expect_eq(cuMemAlloc_v2(&p, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	cr_expect_eq(launch(st), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	cr_expect_eq(cuStreamEndCapture(st, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	cr_expect_eq(g, NULL);
	cr_expect_eq(launch(st), CUDA_SUCCESS);
}

static bool one_round(CUstream st, CUstream side, CUevent ev)
{
	CUgraphExec x;
	CUgraph g;
	CUdeviceptr p;

	return cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0 &&
	       launch(st) == 0 && cuEventRecord(ev, st) == 0 &&
	       cuStreamWaitEvent(side, ev, 0) == 0 && launch(side) == 0 &&
	       cuEventRecord(ev, side) == 0 && cuStreamWaitEvent(st, ev, 0) == 0 &&
	       cuStreamEndCapture(st, &g) == 0 && cuMemAlloc_v2(&p, 64) == 0 &&
	       cuGraphInstantiateWithFlags(&x, g, 0) == 0 && cuGraphLaunch(x, st) == 0 &&
	       cuGraphExecDestroy(x) == 0 && cuGraphDestroy(g) == 0;
}

static void *work(void *unused)
{
	CUstream st = NULL, side = NULL;
	CUevent ev = NULL;
	unsigned i;

	if (cuCtxSetCurrent(ctx) || cuStreamCreate(&st, CU_STREAM_NON_BLOCKING) ||
	    cuStreamCreate(&side, CU_STREAM_NON_BLOCKING) || cuEventCreate(&ev, 0))
		return (void *)1;
	for (i = 0; i < ROUNDS; i++) {
		if (!one_round(st, side, ev))
			return (void *)2;
	}
	return NULL;
}

Test(guest_graph, threads_capture_and_launch_graphs_of_their_own, .timeout = 60)
{
	pthread_t t[THREADS];
	unsigned i;
	void *r;

	start();
	for (i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, work, NULL), 0);
	for (i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_join(t[i], &r), 0);
		cr_expect_eq(r, NULL);
	}
}

static CUevent new_event(void)
{
	CUevent ev = NULL;

	cr_assert_eq(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	return ev;
}

static void follow(CUstream st, CUevent ev, CUstream of)
{
	cr_assert_eq(cuEventRecord(ev, of), CUDA_SUCCESS);
	cr_assert_eq(cuStreamWaitEvent(st, ev, 0), CUDA_SUCCESS);
}

/* Nodes looked at for an allocation behind n forks and joins, beside memory that is free
 * but not before it. */
static uint64_t behind_diamonds(unsigned n)
{
	CUstream a = new_stream(), b = new_stream(), aside = new_stream();
	CUevent ev = new_event();
	CUdeviceptr p, q;
	uint64_t steps;
	unsigned i;
	CUgraph g;

	cr_assert_eq(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	cr_assert_eq(launch(a), CUDA_SUCCESS);
	follow(aside, ev, a);
	cr_assert_eq(cuMemAllocAsync(&p, 10000, aside), CUDA_SUCCESS);
	cr_assert_eq(cuMemFreeAsync(p, aside), CUDA_SUCCESS);
	for (i = 0; i < n; i++) {
		follow(b, ev, a);
		cr_assert_eq(launch(b), CUDA_SUCCESS);
		cr_assert_eq(launch(a), CUDA_SUCCESS);
		follow(a, ev, b);
		cr_assert_eq(launch(a), CUDA_SUCCESS);
	}
	steps = graph_mem_steps;
	cr_assert_eq(cuMemAllocAsync(&q, 10000, a), CUDA_SUCCESS);
	cr_expect_neq(p, q, "nothing says that the other is free by then");
	steps = graph_mem_steps - steps;
	cr_assert_eq(cuMemFreeAsync(q, a), CUDA_SUCCESS);
	follow(a, ev, aside);
	cr_assert_eq(cuStreamEndCapture(a, &g), CUDA_SUCCESS);
	cr_assert_eq(cuGraphDestroy(g), CUDA_SUCCESS);
	return steps;
}

Test(guest_graph, each_node_is_looked_at_once_for_an_allocation, .timeout = 60)
{
	start();
	cr_expect_leq(behind_diamonds(16), 3 * 16 + 2);
	cr_expect_leq(behind_diamonds(1000), 3 * 1000 + 2);
}

Test(guest_graph, memory_that_was_just_freed_is_found_at_once, .timeout = 60)
{
	CUdeviceptr p, first = 0;
	uint64_t steps;
	CUstream st;
	CUgraph g;
	unsigned i;

	start();
	st = new_stream();
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	steps = graph_mem_steps;
	for (i = 0; i < 1000; i++) {
		cr_assert_eq(launch(st), CUDA_SUCCESS);
		cr_assert_eq(cuMemAllocAsync(&p, 10000, st), CUDA_SUCCESS);
		if (i)
			cr_assert_eq(p, first, "one block serves all");
		first = p;
		cr_assert_eq(cuMemFreeAsync(p, st), CUDA_SUCCESS);
	}
	cr_expect_leq(graph_mem_steps - steps, 4 * 1000);
	cr_assert_eq(cuStreamEndCapture(st, &g), CUDA_SUCCESS);
	cr_assert_eq(cuGraphDestroy(g), CUDA_SUCCESS);
}
