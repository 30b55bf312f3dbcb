/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events that are known to be done: of them the worker is not asked. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "core/guest.h"
#include "fake.h"
#include "object/hostmem.h"
#include "core/idle.h"

static struct fake *fake;
static CUcontext ctx;
static CUfunction func;

static void start(bool window)
{
	CUmodule module;

	fake = fake_start(window);
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	cr_assert_eq(cuModuleLoadData(&module, ".version 9.0"), CUDA_SUCCESS);
	cr_assert_eq(cuModuleGetFunction(&func, module, "empty"), CUDA_SUCCESS);
}

static CUstream new_stream(void)
{
	CUstream st = NULL;

	cr_assert_eq(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	return st;
}

static CUevent new_event(unsigned flags)
{
	CUevent ev = NULL;

	cr_assert_eq(cuEventCreate(&ev, flags), CUDA_SUCCESS);
	return ev;
}

static void launch(CUstream st)
{
	cr_assert_eq(cuLaunchKernel(func, 1, 1, 1, 32, 1, 1, 0, st, NULL, NULL),
		     CUDA_SUCCESS);
}

/* Whether the worker was asked. */
#define ASKS(call)                                                                       \
	({                                                                               \
		unsigned _before = fake->calls;                                          \
		cr_expect_eq(call, CUDA_SUCCESS);                                        \
		fake->calls != _before;                                                  \
	})

static void streams(CUstream st, CUstream other)
{
	launch(st);
	cr_expect(ASKS(cuStreamSynchronize(st)), "it has work");
	cr_expect(!ASKS(cuStreamSynchronize(st)));
	cr_expect(!ASKS(cuStreamQuery(st)));
	cr_expect(ASKS(cuStreamQuery(other)), "nothing was said of that one");
	cr_expect(!ASKS(cuStreamQuery(st)), "a question leaves no work");
	launch(other);
	cr_expect(ASKS(cuStreamQuery(st)), "what was sent may have been for it");
	launch(st);
	fake->fail_next = CUDA_ERROR_NOT_READY;
	cr_expect_eq(cuStreamQuery(st), CUDA_ERROR_NOT_READY);
	fake->fail_next = CUDA_ERROR_NOT_READY;
	cr_expect_eq(cuStreamQuery(st), CUDA_ERROR_NOT_READY, "asked each time");
	cr_expect(ASKS(cuStreamQuery(st)));
	cr_expect_eq(ASKS(cuStreamSynchronize(st)), !st,
		     "the legacy stream waits for others, too");
	cr_expect(!ASKS(cuStreamQuery(st)));
}

Test(guest_idle, streams_window, .timeout = 60)
{
	start(true);
	streams(new_stream(), new_stream());
	streams(NULL, new_stream());
	streams(CU_STREAM_PER_THREAD, NULL);
}

Test(guest_idle, streams_stream, .timeout = 60)
{
	start(false);
	streams(new_stream(), new_stream());
}

Test(guest_idle, some_questions_are_asked_all_the_same, .timeout = 60)
{
	CUstream st;
	unsigned calls, i;

	start(true);
	st = new_stream();
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	calls = fake->calls;
	for (i = 0; i < 10 * IDLE_ANSWERS; i++)
		cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_expect_eq(fake->calls, calls + 10, "an error elsewhere shows soon");
}

Test(guest_idle, an_error_is_not_hidden, .timeout = 60)
{
	CUstream st;
	CUevent ev;

	start(true);
	st = new_stream();
	ev = new_event(0);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_assert_eq(cuEventSynchronize(ev), CUDA_SUCCESS);
	launch(st);
	fake->fail_next = CUDA_ERROR_INVALID_VALUE;
	cr_expect_eq(cuStreamSynchronize(st), CUDA_ERROR_INVALID_VALUE);
	cr_expect(ASKS(cuStreamSynchronize(st)), "an error says nothing of the work");
	fake->sticky = CUDA_ERROR_LAUNCH_FAILED;
	cr_expect_eq(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	cr_expect_eq(cuStreamSynchronize(st), CUDA_ERROR_LAUNCH_FAILED);
}

Test(guest_idle, a_call_may_leave_work, .timeout = 60)
{
	CUstream st;
	CUevent ev;

	start(true);
	st = new_stream();
	ev = new_event(0);
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_assert_eq(cuCtxRecordEvent(ctx, ev), CUDA_SUCCESS);
	cr_expect(ASKS(cuStreamSynchronize(st)));
	cr_expect(ASKS(cuEventSynchronize(ev)));
}

Test(guest_idle, a_copy_that_has_arrived_was_the_last_of_its_stream, .timeout = 60)
{
	CUdeviceptr p;
	CUstream st;
	char to[64];

	start(true);
	st = new_stream();
	cr_assert_eq(cuMemAlloc_v2(&p, sizeof(to)), CUDA_SUCCESS);
	launch(st);
	cr_assert_eq(cuMemcpyDtoHAsync_v2(to, p, sizeof(to), st), CUDA_SUCCESS);
	cr_expect(!ASKS(cuStreamSynchronize(st)));
}

Test(guest_idle, memory_that_no_work_can_use_any_more, .timeout = 60)
{
	CUstream st;

	start(true);
	st = new_stream();
	launch(st);
	cr_expect(ASKS(hostmem_wait_device(guest_self)));
	cr_expect(!ASKS(hostmem_wait_device(guest_self)));
	cr_expect(ASKS(cuStreamSynchronize(st)));
	cr_expect(!ASKS(hostmem_wait_device(guest_self)), "a question leaves no work");
	launch(st);
	fake->fail_next = CUDA_ERROR_INVALID_VALUE;
	cr_expect_eq(hostmem_wait_device(guest_self), CUDA_ERROR_INVALID_VALUE);
	cr_expect(ASKS(hostmem_wait_device(guest_self)));
}

Test(guest_idle, an_event_known_to_have_happened_is_not_asked_for, .timeout = 60)
{
	CUstream st, other;
	CUevent ev;

	start(true);
	st = new_stream();
	other = new_stream();
	ev = new_event(0);
	cr_expect(ASKS(cuEventQuery(ev)), "whether it could be made is not known");
	launch(st);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	fake->fail_next = CUDA_ERROR_NOT_READY;
	cr_expect_eq(cuEventQuery(ev), CUDA_ERROR_NOT_READY);
	cr_expect(ASKS(cuEventQuery(ev)));
	launch(other);
	cr_expect(!ASKS(cuEventQuery(ev)), "whatever is sent, it has happened");
	cr_expect(!ASKS(cuEventSynchronize(ev)));
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect(ASKS(cuEventSynchronize(ev)), "it has been recorded again");
}

Test(guest_idle, an_event_that_was_last_leaves_its_stream_idle, .timeout = 60)
{
	CUstream st, other;
	CUevent ev;

	start(true);
	st = new_stream();
	other = new_stream();
	ev = new_event(0);
	launch(st);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect(ASKS(cuEventSynchronize(ev)));
	cr_expect(!ASKS(cuStreamSynchronize(st)));
	cr_expect(ASKS(cuStreamSynchronize(other)));
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect(!ASKS(cuEventSynchronize(ev)));
	launch(st);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	launch(st);
	cr_expect(ASKS(cuEventSynchronize(ev)));
	cr_expect(ASKS(cuStreamSynchronize(st)), "there is more behind it");
}

Test(guest_idle, events_of_idle_streams, .timeout = 60)
{
	CUstream st;
	CUevent ev, foreign;
	CUcontext other;

	start(true);
	ev = new_event(0);
	st = new_stream();
	cr_assert_eq(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	foreign = new_event(0);
	cr_assert_eq(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect(!ASKS(cuEventSynchronize(ev)), "there was nothing before it");
	cr_expect(!ASKS(cuStreamSynchronize(st)), "nor is there anything now");
	launch(st);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect(ASKS(cuEventSynchronize(ev)));
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_assert_eq(cuEventRecord(foreign, st), CUDA_SUCCESS);
	cr_expect(ASKS(cuEventSynchronize(foreign)), "the worker says what is wrong");
}

Test(guest_idle, events_that_others_record, .timeout = 60)
{
	CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
	CUlaunchConfig cfg = {.gridDimX = 1,
			      .gridDimY = 1,
			      .gridDimZ = 1,
			      .blockDimX = 1,
			      .blockDimY = 1,
			      .blockDimZ = 1,
			      .attrs = &a,
			      .numAttrs = 1};
	CUevent ev, in_graph, shared;
	CUgraphNode node;
	CUgraph g;

	start(true);
	ev = new_event(CU_EVENT_DISABLE_TIMING);
	in_graph = new_event(0);
	shared = new_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
	cr_assert_eq(cuGraphCreate(&g, 0), CUDA_SUCCESS);
	cr_assert_eq(cuGraphAddEventRecordNode(&node, g, NULL, 0, in_graph), 0);
	a.value.launchCompletionEvent.event = ev;
	cr_assert_eq(cuLaunchKernelEx(&cfg, func, NULL, NULL), CUDA_SUCCESS);
	for (unsigned i = 0; i < 2; i++) {
		cr_expect(ASKS(cuEventSynchronize(ev)), "a kernel records it");
		cr_expect(ASKS(cuEventSynchronize(in_graph)));
		cr_expect(ASKS(cuEventSynchronize(shared)));
	}
}

Test(guest_idle, events_of_contexts_that_end, .timeout = 60)
{
	CUevent ev;

	start(true);
	ev = new_event(0);
	cr_assert_eq(cuEventSynchronize(ev), CUDA_SUCCESS);
	cr_expect(!ASKS(cuEventSynchronize(ev)));
	cr_assert_eq(cuCtxDestroy_v2(ctx), CUDA_SUCCESS);
	cr_expect_eq(cuEventSynchronize(ev), CUDA_ERROR_INVALID_HANDLE, "it went along");
	cr_expect_eq(cuEventDestroy_v2(ev), CUDA_ERROR_INVALID_HANDLE);
}

static void *launch_there(void *stream)
{
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	launch(stream);
	return NULL;
}

Test(guest_idle, other_threads, .timeout = 60)
{
	CUstream st;
	pthread_t t;

	start(true);
	st = new_stream();
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_expect(!ASKS(cuStreamSynchronize(st)));
	cr_assert_eq(pthread_create(&t, NULL, launch_there, st), 0);
	pthread_join(t, NULL);
	cr_expect(ASKS(cuStreamSynchronize(st)));
}

/* A capture is told of questions, whatever is known. */
Test(guest_idle, a_capture_refuses_what_is_known_already, .timeout = 60)
{
	CUstream st;
	CUevent ev;
	CUgraph g;

	start(true);
	st = new_stream();
	ev = new_event(0);
	cr_assert_eq(cuEventSynchronize(ev), CUDA_SUCCESS);
	cr_assert_eq(cuStreamSynchronize(st), CUDA_SUCCESS);
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	cr_expect_eq(cuStreamQuery(st), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	cr_expect_eq(cuStreamEndCapture(st, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect_eq(cuEventQuery(ev), CUDA_ERROR_CAPTURED_EVENT);
	cr_expect_eq(cuEventDestroy_v2(ev), CUDA_SUCCESS, "it takes its nodes along");
	cr_expect_eq(cuStreamEndCapture(st, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ev = new_event(0);
	cr_assert_eq(cuStreamBeginCapture_v2(st, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_assert_eq(cuEventRecord(ev, st), CUDA_SUCCESS);
	cr_expect_eq(cuStreamEndCapture(st, &g), CUDA_SUCCESS);
	cr_expect_eq(cuEventQuery(ev), CUDA_SUCCESS, "it stands for no node any more");
	cr_expect_eq(cuEventDestroy_v2(ev), CUDA_SUCCESS);
}
