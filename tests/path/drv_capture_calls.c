/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are allowed while a stream is being captured, and calls that end the
 * capture: by the capture's mode, from its own thread, from another one, and from one
 * that has made itself relaxed. Checks what CUDA documents or what was seen on an H200;
 * with the argument --table it prints all of it instead, to be compared with a real
 * driver's:
 *
 *	./drv_capture_calls --table > native
 *	weft-run -- ./drv_capture_calls --table | diff native -
 */
#include <pthread.h>
#include <stdbool.h>

#include "driver.h"

static CUcontext ctx;
static CUstream captured, other;
static CUevent of_capture, elsewhere;
static CUdeviceptr mem, spare;
static void *spare_pinned;
static CUgraphExec exec;
static CUarray array;
static char page[4096] __attribute__((aligned(4096)));

/* ---- calls ---- */

#define CALL(name, expr)                                                                 \
	static CUresult name(void)                                                       \
	{                                                                                \
		return expr;                                                             \
	}

static void host_fn(void *arg)
{
	(void)arg;
}

static CUresult mem_alloc(void)
{
	CUdeviceptr p;
	CUresult r = cuMemAlloc(&p, 256);

	if (!r) { /* freeing it is a call of its own; nothing more is captured here */
		CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_RELAXED;

		cuThreadExchangeStreamCaptureMode(&m);
		cuMemFree(p);
		cuThreadExchangeStreamCaptureMode(&m);
	}
	return r;
}

static CUresult mem_free(void)
{
	CUresult r = cuMemFree(spare);

	if (!r)
		spare = 0;
	return r;
}

static CUresult free_host(void)
{
	CUresult r = cuMemFreeHost(spare_pinned);

	if (!r)
		spare_pinned = NULL;
	return r;
}

static CUresult alloc_host(void)
{
	void *p;

	return cuMemHostAlloc(&p, 4096, 0);
}

static CUresult host_register(void)
{
	return cuMemHostRegister(page, sizeof(page), 0);
}

static CUresult get_info(void)
{
	size_t a, b;

	return cuMemGetInfo(&a, &b);
}

static CUresult htod(void)
{
	return cuMemcpyHtoD(mem, page, 4);
}

static CUresult dtoh(void)
{
	return cuMemcpyDtoH(page, mem, 4);
}

static CUresult stream_create(void)
{
	CUstream s;

	return cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
}

static CUresult event_create(void)
{
	CUevent e;

	return cuEventCreate(&e, 0);
}

static CUresult pool_alloc(void)
{
	CUdeviceptr p;
	CUresult r = cuMemAllocAsync(&p, 256, other);

	return r ? r : cuMemFreeAsync(p, other);
}

static CUresult array_create(void)
{
	CUDA_ARRAY_DESCRIPTOR d = {.Width = 8,
				   .Height = 8,
				   .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				   .NumChannels = 1};

	return cuArrayCreate(&array, &d);
}

static CUresult array_destroy(void)
{
	CUresult r = cuArrayDestroy(array);

	if (!r)
		array = NULL;
	return r;
}

static CUresult instantiate(void)
{
	CUgraphExec x;
	CUgraph g;

	cuGraphCreate(&g, 0);
	return cuGraphInstantiate(&x, g, 0);
}

static CUresult module_load(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry k() { ret; }\n";
	CUmodule m;

	return cuModuleLoadData(&m, ptx);
}

static CUresult elapsed(void)
{
	float ms;

	return cuEventElapsedTime(&ms, of_capture, elsewhere);
}

static CUresult reserve(void)
{
	CUdeviceptr p;

	return cuMemAddressReserve(&p, 2 << 20, 0, 0, 0);
}

static CUresult get_attribute(void)
{
	CUmemorytype t;

	return cuPointerGetAttribute(&t, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mem);
}

CALL(ctx_synchronize, cuCtxSynchronize())
CALL(ctx_record, cuCtxRecordEvent(ctx, elsewhere))
CALL(ctx_wait, cuCtxWaitEvent(ctx, elsewhere))
CALL(ctx_set_limit, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048))
CALL(memset_8, cuMemsetD8(mem, 0, 4))
CALL(memset_legacy, cuMemsetD8Async(mem, 0, 4, CU_STREAM_LEGACY))
CALL(memset_other, cuMemsetD8Async(mem, 0, 4, other))
CALL(sync_captured, cuStreamSynchronize(captured))
CALL(query_captured, cuStreamQuery(captured))
CALL(sync_other, cuStreamSynchronize(other))
CALL(query_other, cuStreamQuery(other))
CALL(sync_legacy, cuStreamSynchronize(CU_STREAM_LEGACY))
CALL(query_legacy, cuStreamQuery(CU_STREAM_LEGACY))
CALL(event_sync_captured, cuEventSynchronize(of_capture))
CALL(event_query_captured, cuEventQuery(of_capture))
CALL(event_sync, cuEventSynchronize(elsewhere))
CALL(event_query, cuEventQuery(elsewhere))
CALL(event_record_other, cuEventRecord(elsewhere, other))
CALL(launch_other, cuGraphLaunch(exec, other))
CALL(upload_other, cuGraphUpload(exec, other))
CALL(trim, cuDeviceGraphMemTrim(0))
CALL(host_func, cuLaunchHostFunc(captured, host_fn, NULL))

/* ---- what is known ---- */

/* Where a call is refused: in which captures. */
enum refused {
	NEVER,
	ALWAYS,   /* whatever the modes */
	UNSAFE,   /* as the modes have it */
	BLOCKING, /* if the legacy stream waits for the captured one */
	WAITS,    /* likewise, and else as the modes have it, as UNSAFE */
	UNKNOWN,  /* only printed */
};

static const struct call {
	const char *name;
	CUresult (*fn)(void);
	enum refused refused;
	CUresult code;
} calls[] = {
	{"cuMemAlloc", mem_alloc, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuMemFree", mem_free, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuMemHostAlloc", alloc_host, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuMemFreeHost", free_host, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuMemHostRegister", host_register, UNSAFE,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuMemGetInfo", get_info, NEVER, 0},
	{"cuMemcpyHtoD", htod, BLOCKING, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
	{"cuMemcpyDtoH", dtoh, BLOCKING, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
	{"cuMemsetD8", memset_8, BLOCKING, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
	{"cuMemsetD8Async legacy", memset_legacy, BLOCKING,
	 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
	{"cuMemsetD8Async other", memset_other, NEVER, 0},
	{"cuMemAllocAsync other", pool_alloc, UNSAFE,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuMemAddressReserve", reserve, NEVER, 0},
	{"cuPointerGetAttribute", get_attribute, NEVER, 0},
	{"cuArrayCreate", array_create, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuArrayDestroy", array_destroy, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuModuleLoadData", module_load, NEVER, 0},
	{"cuStreamCreate", stream_create, NEVER, 0},
	{"cuStreamSynchronize captured", sync_captured, ALWAYS,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuStreamQuery captured", query_captured, ALWAYS,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuStreamSynchronize other", sync_other, UNSAFE,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuStreamQuery other", query_other, UNSAFE,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuStreamSynchronize legacy", sync_legacy, WAITS,
	 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
	{"cuStreamQuery legacy", query_legacy, WAITS, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
	{"cuEventCreate", event_create, NEVER, 0},
	{"cuEventRecord other", event_record_other, NEVER, 0},
	{"cuEventSynchronize captured", event_sync_captured, ALWAYS,
	 CUDA_ERROR_CAPTURED_EVENT},
	{"cuEventQuery captured", event_query_captured, ALWAYS,
	 CUDA_ERROR_CAPTURED_EVENT},
	{"cuEventSynchronize", event_sync, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuEventQuery", event_query, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuEventElapsedTime captured", elapsed, UNKNOWN, 0},
	{"cuCtxSynchronize", ctx_synchronize, ALWAYS,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuCtxRecordEvent", ctx_record, ALWAYS, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuCtxWaitEvent", ctx_wait, ALWAYS, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuCtxSetLimit", ctx_set_limit, UNSAFE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuGraphInstantiate", instantiate, UNSAFE,
	 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
	{"cuGraphLaunch other", launch_other, NEVER, 0},
	{"cuGraphUpload other", upload_other, NEVER, 0},
	{"cuDeviceGraphMemTrim", trim, NEVER, 0},
	{"cuLaunchHostFunc captured", host_func, NEVER, 0},
};

/* ---- trying ---- */

enum from {
	OWN,
	OTHER,
	RELAXED, /* the own thread, made relaxed */
	FROMS,
};

static const char *const from_names[] = {"own thread", "other thread", "relaxed thread"};
static const char *const mode_names[] = {"global", "thread-local", "relaxed"};

struct trial {
	const struct call *call;
	enum from from;
	CUstreamCaptureMode mode;
	bool blocking;
	CUresult got;
	CUstreamCaptureStatus left;
};

static void *make_call(void *arg)
{
	struct trial *t = arg;

	CK(cuCtxSetCurrent(ctx));
	t->got = t->call->fn();
	return NULL;
}

static void prepare(bool blocking)
{
	CK(cuStreamCreate(&captured,
			  blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	if (!spare)
		CK(cuMemAlloc(&spare, 256));
	if (!spare_pinned)
		CK(cuMemHostAlloc(&spare_pinned, 4096, 0));
	if (!array)
		CK(array_create());
	cuMemHostUnregister(page);
	CK(cuEventRecord(elsewhere, other));
	CK(cuCtxSynchronize());
}

static void try(struct trial *t)
{
	CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraph g = NULL;
	pthread_t thread;

	prepare(t->blocking);
	CK(cuStreamBeginCapture(captured, t->mode));
	CK(cuMemsetD8Async(mem, 0, 4, captured));
	CK(cuEventRecord(of_capture, captured));
	if (t->from == RELAXED)
		CK(cuThreadExchangeStreamCaptureMode(&m));
	if (t->from != OTHER)
		make_call(t);
	else
		REQUIRE(!pthread_create(&thread, NULL, make_call, t) &&
			!pthread_join(thread, NULL));
	if (t->from == RELAXED)
		CK(cuThreadExchangeStreamCaptureMode(&m));
	CK(cuStreamIsCapturing(captured, &t->left));
	if (!cuStreamEndCapture(captured, &g))
		CK(cuGraphDestroy(g));
	CK(cuStreamDestroy(captured));
	CK(cuCtxSynchronize());
}

/* The mode of the thread and that of the capture together. */
static bool unsafe(const struct trial *t)
{
	if (t->from == RELAXED)
		return false;
	return t->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
	       (t->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && t->from == OWN);
}

static void check(const struct trial *t)
{
	enum refused where = t->call->refused;
	bool implicit = (where == BLOCKING || where == WAITS) && t->blocking;
	bool refused = where == ALWAYS || implicit ||
		       ((where == UNSAFE || where == WAITS) && unsafe(t));
	CUresult want = !refused ? CUDA_SUCCESS
			: where == WAITS && !implicit
				? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
				: t->call->code;
	CUstreamCaptureStatus left = refused ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					     : CU_STREAM_CAPTURE_STATUS_ACTIVE;

	if (where == UNKNOWN || (t->got == want && t->left == left))
		return;
	fail("%s, %s capture of a%s stream, %s: %s instead of %s, status %d",
	     t->call->name, mode_names[t->mode], t->blocking ? "" : " non-blocking",
	     from_names[t->from], err(t->got), err(want), t->left);
}

static void all_of(const struct call *c, bool print)
{
	struct trial t = {.call = c};

	for (unsigned b = 0; b < 2; b++) {
		t.blocking = b;
		for (unsigned m = 0; m < 3; m++) {
			t.mode = m;
			for (t.from = 0; t.from < FROMS; t.from++) {
				try(&t);
				if (print)
					printf("%-30s %-12s %-12s %-14s %s, %s\n",
					       c->name, b ? "blocking" : "non-blocking",
					       mode_names[m], from_names[t.from],
					       err(t.got),
					       t.left == CU_STREAM_CAPTURE_STATUS_ACTIVE
						       ? "goes on"
						       : "invalid");
				else
					check(&t);
			}
		}
	}
}

/* Another context's captures are no concern of this one. */
static void contexts_apart(void)
{
	CUcontext second;
	CUstream s;
	CUgraph g;

	CK(cuCtxCreate(&second, NULL, 0, 0));
	CK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	CK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	CK(cuCtxSetCurrent(ctx));
	CK(cuCtxSynchronize());
	CK(cuStreamSynchronize(CU_STREAM_LEGACY));
	CK(cuStreamEndCapture(s, &g));
	CK(cuGraphDestroy(g));
	CK(cuCtxDestroy(second));
	CK(cuCtxSetCurrent(ctx));
}

/* Work of a stream that has gone is to be joined all the same. */
static void work_that_stays(CUstream s, bool join)
{
	CUstream joined;
	CUgraph g;

	CK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
	CK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CK(cuEventRecord(of_capture, s));
	CK(cuStreamWaitEvent(joined, of_capture, 0));
	CK(cuMemsetD8Async(mem, 0, 16, joined));
	CK(cuEventRecord(of_capture, joined));
	CK(cuStreamDestroy(joined));
	if (join)
		CK(cuStreamWaitEvent(s, of_capture, 0));
	EXPECT(cuStreamEndCapture(s, &g),
	       join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	if (join)
		CK(cuGraphDestroy(g));
}

/* The stream in which it began takes a capture along, and so does a context. */
static void gone(void)
{
	CUstream s, joined;
	CUcontext second;
	CUgraph g;

	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CK(cuStreamDestroy(s));
	CK(cuCtxSynchronize());
	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
	CK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CK(cuEventRecord(of_capture, s));
	CK(cuStreamWaitEvent(joined, of_capture, 0));
	CK(cuStreamDestroy(joined));
	CK(cuStreamEndCapture(s, &g));
	CK(cuGraphDestroy(g));
	work_that_stays(s, false);
	work_that_stays(s, true);
	CK(cuStreamDestroy(s));
	CK(cuCtxSynchronize());
	CK(cuCtxCreate(&second, NULL, 0, 0));
	CK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CK(cuCtxDestroy(second));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	bool print = argc > 1 && !strcmp(argv[1], "--table");
	CUgraph g;

	check_name = "drv_capture_calls";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&of_capture, 0));
	CK(cuEventCreate(&elsewhere, 0));
	CK(cuMemAlloc(&mem, 4096));
	CK(cuGraphCreate(&g, 0));
	CK(cuGraphInstantiate(&exec, g, 0));
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		all_of(&calls[i], print);
	contexts_apart();
	gone();
	return print ? 0 : pass();
}
