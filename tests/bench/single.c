/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of single calls that libraries make again and again, whatever libcuda carries
 * them; and its growth with the number of allocations, streams, events in a capture,
 * registered buffers, threads. Every row is measured twice, one after the other: medians,
 * in microseconds a call.
 *
 *	bench_single [TEXT]                natively
 *	weft-run --private -- bench_single [TEXT]
 *
 * TEXT: only rows that have it in their names.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/macros.h"

#define BURST  128u
#define BURSTS 60u
#define MIB    (1u << 20)

static const char ptx[] = ".version 7.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".entry none() { ret; }\n"
			  ".entry spin(.param .u64 n) {\n"
			  "  .reg .u64 %r; .reg .pred %p;\n"
			  "  ld.param.u64 %r, [n];\n"
			  "again:\n"
			  "  sub.u64 %r, %r, 1;\n"
			  "  setp.ne.u64 %p, %r, 0;\n"
			  "  @%p bra again;\n"
			  "  ret;\n"
			  "}\n";

#define CALLS(X)                                                                         \
	X(cuInit, (unsigned))                                                            \
	X(cuDeviceGet, (CUdevice *, int))                                                \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                             \
	X(cuCtxSetCurrent, (CUcontext))                                                  \
	X(cuCtxSynchronize, (void))                                                      \
	X(cuCtxGetLimit, (size_t *, CUlimit))                                            \
	X(cuModuleLoadData, (CUmodule *, const void *))                                  \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                   \
	X(cuLibraryLoadData, (CUlibrary *, const void *, CUjit_option *, void **,        \
			      unsigned, CUlibraryOption *, void **, unsigned))           \
	X(cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *))                     \
	X(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))                   \
	X(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction))                 \
	X(cuKernelSetAttribute, (CUfunction_attribute, int, CUkernel, CUdevice))         \
	X(cuStreamCreate, (CUstream *, unsigned))                                        \
	X(cuStreamDestroy_v2, (CUstream))                                                \
	X(cuStreamSynchronize, (CUstream))                                               \
	X(cuStreamQuery, (CUstream))                                                     \
	X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                              \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                      \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                     \
	X(cuGraphDestroy, (CUgraph))                                                     \
	X(cuEventCreate, (CUevent *, unsigned))                                          \
	X(cuEventDestroy_v2, (CUevent))                                                  \
	X(cuEventRecord, (CUevent, CUstream))                                            \
	X(cuEventQuery, (CUevent))                                                       \
	X(cuEventSynchronize, (CUevent))                                                 \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                        \
	X(cuMemFree_v2, (CUdeviceptr))                                                   \
	X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))               \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                            \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream))                                       \
	X(cuMemAllocHost_v2, (void **, size_t))                                          \
	X(cuMemFreeHost, (void *))                                                       \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned))                              \
	X(cuMemHostUnregister, (void *))                                                 \
	X(cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr))             \
	X(cuPointerGetAttributes,                                                        \
	  (unsigned, CUpointer_attribute *, void **, CUdeviceptr))                       \
	X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, \
			   unsigned, unsigned, CUstream, void **, void **))

#define X(name, args) static CUresult(*p_##name) args;
CALLS(X)
#undef X

static CUdevice device;
static CUcontext context;
static CUfunction none, spin;
static CUkernel kernel;
static CUstream stream;
static CUevent event, old_event;
static CUdeviceptr mem;
static char *host;

static void check(CUresult r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: error %d\n", what, (int)r);
		exit(1);
	}
}

#define CK(call) check(p_##call, #call)

/* ---- the calls ---- */

static void func_set(void)
{
	CK(cuFuncSetAttribute(none, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			      40000));
}

static void func_get(void)
{
	int v;

	CK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, none));
}

static void kernel_set(void)
{
	CK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 40000,
				kernel, device));
}

static void limit(void)
{
	size_t v;

	CK(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE));
}

static void pointer(void)
{
	unsigned type;

	CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mem));
}

static void pointers(void)
{
	CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
				       CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned type, ordinal;
	CUcontext ctx;
	void *to[] = {&ctx, &type, &ordinal};

	CK(cuPointerGetAttributes(ARRAY_SIZE(attrs), attrs, to, mem));
}

static void stream_wait(void)
{
	CK(cuStreamSynchronize(stream));
}

static void stream_query(void)
{
	CK(cuStreamQuery(stream));
}

static void event_query(void)
{
	CK(cuEventQuery(old_event));
}

static void event_wait(void)
{
	CK(cuEventSynchronize(old_event));
}

static void record_and_wait(void)
{
	CK(cuEventRecord(event, stream));
	CK(cuEventSynchronize(event));
}

static void launch(void)
{
	CK(cuLaunchKernel(none, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void launch_and_wait(void)
{
	launch();
	CK(cuStreamSynchronize(stream));
}

static void copy_and_wait(void)
{
	CK(cuMemcpyDtoH_v2(host, mem, 8));
	CK(cuStreamSynchronize(NULL));
}

static void register_host(void)
{
	CK(cuMemHostRegister_v2(host, MIB, 0));
	CK(cuMemHostUnregister(host));
}

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *us, unsigned n)
{
	qsort(us, n, sizeof(*us), compare);
	return us[n / 2];
}

static double bursts(void (*call)(void), unsigned burst)
{
	double us[BURSTS];

	for (unsigned i = 0; i < BURSTS; i++) {
		uint64_t t = clock_now_ns();

		for (unsigned k = 0; k < burst; k++)
			call();
		us[i] = (double)(clock_now_ns() - t) / 1e3 / burst;
		CK(cuCtxSynchronize());
	}
	return median(us, BURSTS);
}

static const char *only = "";

static void row(const char *what, void (*call)(void), unsigned burst)
{
	double first;

	if (!strstr(what, only))
		return;
	first = bursts(call, burst);
	printf("%-44s %10.3f %10.3f\n", what, first, bursts(call, burst));
	fflush(stdout);
}

/* Times a query of a stream that has work: whatever says NOT_READY. */
static double busy(CUresult (*query)(void *), void *arg)
{
	static double us[2000];
	uint64_t rounds = 200000;
	void *params[] = {&rounds};
	unsigned n = 0;

	while (n < ARRAY_SIZE(us)) {
		CK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		CK(cuEventRecord(event, stream));
		for (unsigned i = 0; i < 50 && n < ARRAY_SIZE(us); i++) {
			uint64_t t = clock_now_ns();
			CUresult r = query(arg);

			if (r != CUDA_ERROR_NOT_READY)
				break;
			us[n++] = (double)(clock_now_ns() - t) / 1e3;
		}
		CK(cuStreamSynchronize(stream));
	}
	return median(us, n);
}

static CUresult ask_stream(void *st)
{
	return p_cuStreamQuery(st);
}

static CUresult ask_event(void *ev)
{
	return p_cuEventQuery(ev);
}

static void busy_row(const char *what, CUresult (*query)(void *), void *arg)
{
	double first = busy(query, arg);

	printf("%-44s %10.3f %10.3f\n", what, first, busy(query, arg));
	fflush(stdout);
}

/* ---- what grows ---- */

/* Bytes set in n buffers in turn. */
static double buffers(unsigned n)
{
	CUdeviceptr *p = calloc(n, sizeof(*p));
	unsigned at = 0;
	double us[BURSTS];

	if (!p)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuMemAlloc_v2(&p[i], 4096));
	for (unsigned i = 0; i < n; i++)
		CK(cuMemsetD8Async(p[i], 1, 16, stream));
	CK(cuStreamSynchronize(stream));
	for (unsigned i = 0; i < BURSTS; i++) {
		uint64_t t = clock_now_ns();

		for (unsigned k = 0; k < BURST; k++)
			CK(cuMemsetD8Async(p[at++ % n], 1, 16, stream));
		us[i] = (double)(clock_now_ns() - t) / 1e3 / BURST;
		CK(cuStreamSynchronize(stream));
	}
	for (unsigned i = 0; i < n; i++)
		CK(cuMemFree_v2(p[i]));
	free(p);
	return median(us, BURSTS);
}

/* A captured fork: two streams, an event of its own for each step. */
static double captured(unsigned n)
{
	CUevent *ev = calloc(n, sizeof(*ev));
	CUstream a, b;
	CUgraph g;
	uint64_t t;
	double us;

	if (!ev)
		exit(1);
	CK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	CK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < n; i++)
		CK(cuEventCreate(&ev[i], CU_EVENT_DISABLE_TIMING));
	CK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	CK(cuMemsetD8Async(mem, 1, 16, a));
	t = clock_now_ns();
	for (unsigned i = 0; i < n; i++) {
		CK(cuEventRecord(ev[i], a));
		CK(cuStreamWaitEvent(b, ev[i], 0));
		CK(cuMemsetD8Async(mem, 1, 16, b));
		CK(cuMemsetD8Async(mem + 1024, 1, 16, a));
	}
	us = (double)(clock_now_ns() - t) / 1e3 / n;
	CK(cuEventRecord(ev[0], b));
	CK(cuStreamWaitEvent(a, ev[0], 0));
	CK(cuStreamEndCapture(a, &g));
	CK(cuGraphDestroy(g));
	for (unsigned i = 0; i < n; i++)
		CK(cuEventDestroy_v2(ev[i]));
	free(ev);
	return us;
}

#define RECORDS 20000u

/* Threads that each have called before: what a first call costs is a row of its own. */
static pthread_barrier_t all_there;

static CUstream own_stream(void)
{
	CUstream st;

	CK(cuCtxSetCurrent(context));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	pthread_barrier_wait(&all_there);
	return st;
}

static void *record(void *arg)
{
	CUstream st = own_stream();
	CUevent ev;

	CK(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < RECORDS / *(const unsigned *)arg; i++)
		CK(cuEventRecord(ev, st));
	CK(cuStreamSynchronize(st));
	return NULL;
}

static void *launches(void *arg)
{
	CUstream st = own_stream();

	for (unsigned i = 0; i < RECORDS / *(const unsigned *)arg; i++)
		CK(cuLaunchKernel(none, 1, 1, 1, 32, 1, 1, 0, st, NULL, NULL));
	CK(cuStreamSynchronize(st));
	return NULL;
}

struct times {
	double first, all; /* us: until all have called once, and from there on */
};

/* Threads at the same time, each with its stream. */
static struct times threads(unsigned n, void *(*work)(void *))
{
	pthread_t *id = calloc(n, sizeof(*id));
	uint64_t t[3] = {clock_now_ns()};

	if (!id || pthread_barrier_init(&all_there, NULL, n + 1))
		exit(1);
	for (unsigned i = 0; i < n; i++)
		check(pthread_create(&id[i], NULL, work, &n) ? 1 : 0, "a thread");
	pthread_barrier_wait(&all_there);
	t[1] = clock_now_ns();
	for (unsigned i = 0; i < n; i++)
		pthread_join(id[i], NULL);
	t[2] = clock_now_ns();
	free(id);
	pthread_barrier_destroy(&all_there);
	return (struct times){(double)(t[1] - t[0]) / 1e3, (double)(t[2] - t[1]) / 1e3};
}

/* For each command of any of them. */
static double recording(unsigned n)
{
	return threads(n, record).all / RECORDS;
}

static double launching(unsigned n)
{
	return threads(n, launches).all / RECORDS;
}

/* For each thread. */
static double beginning(unsigned n)
{
	return threads(n, launches).first / n;
}

/* ---- what grows with the memory that is there ---- */

/* Medians of calls in a row: where one of them takes long, only that one shows. */
#define SOME 500u

struct some {
	double us[SOME];
	unsigned n;
	uint64_t t;
};

static void some_begin(struct some *s)
{
	s->t = clock_now_ns();
}

static void some_end(struct some *s)
{
	s->us[s->n++ % SOME] = (double)(clock_now_ns() - s->t) / 1e3;
}

/* n allocations, or as many as there is memory for. */
static CUdeviceptr *fill(size_t bytes, unsigned *n)
{
	CUdeviceptr *p = calloc(*n, sizeof(*p));

	if (!p)
		exit(1);
	for (unsigned i = 0; i < *n; i++) {
		if (p_cuMemAlloc_v2(&p[i], bytes))
			*n = i;
	}
	return p;
}

/* In no order: of neighbours none is freed after the other. */
static void shuffle(CUdeviceptr *p, unsigned n)
{
	unsigned short seed[3] = {1, 2, 3};

	for (unsigned i = n; i > 1; i--) {
		unsigned j = (unsigned)nrand48(seed) % i;
		CUdeviceptr was = p[j];

		p[j] = p[i - 1];
		p[i - 1] = was;
	}
}

static double freed(CUdeviceptr *p, unsigned n)
{
	struct some s = {0};

	shuffle(p, n);
	for (unsigned i = 0; i < n; i++) {
		if (i < SOME)
			some_begin(&s);
		CK(cuMemFree_v2(p[i]));
		if (i < SOME)
			some_end(&s);
	}
	free(p);
	return median(s.us, MIN(s.n, SOME));
}

/* One more among n of them. */
static double one_more(unsigned n, size_t bytes)
{
	struct some s = {0};
	unsigned have = n;
	CUdeviceptr *p = fill(bytes, &have), more[SOME];

	if (have < n)
		printf("(%u: no memory for more) ", have);
	for (unsigned i = 0; i < SOME; i++) {
		some_begin(&s);
		if (p_cuMemAlloc_v2(&more[s.n], bytes))
			break;
		some_end(&s);
	}
	for (unsigned i = 0; i < s.n; i++)
		CK(cuMemFree_v2(more[i]));
	freed(p, have);
	return s.n ? median(s.us, s.n) : 0;
}

static double one_more_small(unsigned n)
{
	return one_more(n, 256);
}

static double one_more_600k(unsigned n)
{
	return one_more(n, 600 << 10);
}

static double one_more_2m(unsigned n)
{
	return one_more(n, 2 << 20);
}

static double free_2m(unsigned n)
{
	unsigned have = n;
	CUdeviceptr *p = fill(2 << 20, &have);

	if (have < n)
		printf("(%u: no memory for more) ", have);
	return freed(p, have);
}

/* In stream order: 9.5 KiB beside n holes of 8. */
static double beside_holes(unsigned n)
{
	CUdeviceptr *p = calloc(2 * n, sizeof(*p)), more[SOME];
	struct some s = {0};

	if (!p)
		exit(1);
	for (unsigned i = 0; i < 2 * n; i++)
		CK(cuMemAllocAsync(&p[i], i % 2 ? 512 : 8192, stream));
	for (unsigned i = 0; i < 2 * n; i += 2)
		CK(cuMemFreeAsync(p[i], stream));
	CK(cuStreamSynchronize(stream));
	for (unsigned i = 0; i < SOME; i++) {
		some_begin(&s);
		CK(cuMemAllocAsync(&more[i], 9728, stream));
		some_end(&s);
	}
	for (unsigned i = 0; i < SOME; i++)
		CK(cuMemFreeAsync(more[i], stream));
	for (unsigned i = 1; i < 2 * n; i += 2)
		CK(cuMemFreeAsync(p[i], stream));
	CK(cuStreamSynchronize(stream));
	free(p);
	return median(s.us, SOME);
}

/* Finds the allocation of an address within one of n, made in stream order. */
static double within(unsigned n)
{
	CUdeviceptr *p = calloc(n, sizeof(*p));
	struct some s = {0};
	unsigned type;

	if (!p)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuMemAllocAsync(&p[i], 2048, stream));
	for (unsigned i = 0; i < SOME; i++) {
		some_begin(&s);
		CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					 p[(uint64_t)i * (n - 1) / SOME] + 600));
		some_end(&s);
	}
	for (unsigned i = 0; i < n; i++)
		CK(cuMemFreeAsync(p[i], stream));
	CK(cuStreamSynchronize(stream));
	free(p);
	return median(s.us, SOME);
}

/* An allocation and its freeing in each of n streams in turn. */
static double pool_streams(unsigned n)
{
	CUstream *st = calloc(n, sizeof(*st));
	CUdeviceptr p;
	uint64_t t;
	double us;

	if (!st)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuStreamCreate(&st[i], CU_STREAM_NON_BLOCKING));
	for (unsigned round = 0; round < 2; round++) {
		t = clock_now_ns();
		for (unsigned i = 0; i < n; i++) {
			CK(cuMemAllocAsync(&p, 4096, st[i]));
			CK(cuMemFreeAsync(p, st[i]));
		}
		us = (double)(clock_now_ns() - t) / 1e3 / n;
	}
	CK(cuCtxSynchronize());
	for (unsigned i = 0; i < n; i++)
		CK(cuStreamDestroy_v2(st[i]));
	free(st);
	return us;
}

/* ---- and with other things ---- */

static double streams_made(unsigned n)
{
	CUstream *st = calloc(n, sizeof(*st));
	uint64_t t = clock_now_ns();
	double us;

	if (!st)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuStreamCreate(&st[i], CU_STREAM_NON_BLOCKING));
	CK(cuCtxSynchronize());
	us = (double)(clock_now_ns() - t) / 1e3 / n;
	for (unsigned i = 0; i < n; i++)
		CK(cuStreamDestroy_v2(st[i]));
	CK(cuCtxSynchronize());
	free(st);
	return us;
}

static double events_made(unsigned n)
{
	CUevent *ev = calloc(n, sizeof(*ev));
	uint64_t t = clock_now_ns();
	double us;

	if (!ev)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuEventCreate(&ev[i], CU_EVENT_DISABLE_TIMING));
	CK(cuCtxSynchronize());
	us = (double)(clock_now_ns() - t) / 1e3 / n;
	for (unsigned i = 0; i < n; i++)
		CK(cuEventDestroy_v2(ev[i]));
	CK(cuCtxSynchronize());
	free(ev);
	return us;
}

static double pinned(unsigned n)
{
	void **p = calloc(n, sizeof(*p));
	uint64_t t = clock_now_ns();
	double us;

	if (!p)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuMemAllocHost_v2(&p[i], 1000));
	us = (double)(clock_now_ns() - t) / 1e3 / n;
	for (unsigned i = 0; i < n; i++)
		CK(cuMemFreeHost(p[i]));
	free(p);
	return us;
}

/* One more beside n of 64 KiB that are registered, each a mapping of its own. */
static double registered(unsigned n)
{
	const size_t size = 64 << 10;
	char *at = mmap(NULL, 2 * size * (n + 1), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct some s = {0};

	if (at == MAP_FAILED)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		CK(cuMemHostRegister_v2(at + 2 * size * i, size, 0));
	for (unsigned i = 0; i < SOME; i++) {
		some_begin(&s);
		CK(cuMemHostRegister_v2(at + 2 * size * n, size, 0));
		CK(cuMemHostUnregister(at + 2 * size * n));
		some_end(&s);
	}
	for (unsigned i = 0; i < n; i++)
		CK(cuMemHostUnregister(at + 2 * size * i));
	munmap(at, 2 * size * (n + 1));
	return median(s.us, SOME);
}

static void grow(const char *what, double (*measure)(unsigned), const unsigned *n,
		 unsigned rows)
{
	for (unsigned i = 0; i < rows && strstr(what, only); i++) {
		double first = measure(n[i]);
		char text[64];

		snprintf(text, sizeof(text), "%u %s", n[i], what);
		printf("%-44s %10.3f %10.3f\n", text, first, measure(n[i]));
		fflush(stdout);
	}
}

/* ---- */

static void begin(void *lib)
{
	CUlibrary library;
	CUmodule mod;

#define X(name, args)                                                                    \
	p_##name = (CUresult(*) args)dlsym(lib, #name);                                  \
	if (!p_##name) {                                                                 \
		fprintf(stderr, "no %s\n", #name);                                       \
		exit(1);                                                                 \
	}
	CALLS(X)
#undef X
	CK(cuInit(0));
	CK(cuDeviceGet(&device, 0));
	CK(cuDevicePrimaryCtxRetain(&context, device));
	CK(cuCtxSetCurrent(context));
	CK(cuModuleLoadData(&mod, ptx));
	CK(cuModuleGetFunction(&none, mod, "none"));
	CK(cuModuleGetFunction(&spin, mod, "spin"));
	CK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	CK(cuLibraryGetKernel(&kernel, library, "none"));
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CK(cuEventCreate(&old_event, CU_EVENT_DISABLE_TIMING));
	CK(cuMemAlloc_v2(&mem, MIB));
	CK(cuEventRecord(old_event, stream));
	CK(cuCtxSynchronize());
	host = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (host == MAP_FAILED)
		exit(1);
	memset(host, 1, MIB);
}

int main(int argc, char **argv)
{
	static const unsigned n_buffers[] = {4, 16, 64, 1024, 20000};
	static const unsigned n_events[] = {1000, 5000, 20000};
	static const unsigned n_threads[] = {1, 4, 16, 64, 128};
	static const unsigned n_large[] = {100, 1000, 10000};
	static const unsigned n_small[] = {1000, 10000, 100000};
	static const unsigned n_streams[] = {100, 1000, 10000};
	static const unsigned n_registered[] = {10, 100, 1000};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	begin(lib);
	if (argc > 1)
		only = argv[1];
	printf("%-44s %10s %10s\n", "us", "first", "again");
	row("cuFuncSetAttribute, the value it has", func_set, BURST);
	row("cuKernelSetAttribute, likewise", kernel_set, BURST);
	row("cuFuncGetAttribute", func_get, BURST);
	row("cuPointerGetAttribute", pointer, BURST);
	row("cuPointerGetAttributes, three", pointers, BURST);
	row("cuCtxGetLimit", limit, BURST);
	row("cuStreamSynchronize, idle", stream_wait, BURST);
	row("cuStreamQuery, idle", stream_query, BURST);
	row("cuEventQuery, done", event_query, BURST);
	row("cuEventSynchronize, done", event_wait, BURST);
	row("cuEventRecord and cuEventSynchronize", record_and_wait, BURST);
	busy_row("cuStreamQuery, busy", ask_stream, stream);
	busy_row("cuEventQuery, busy", ask_event, event);
	row("cuLaunchKernel", launch, BURST);
	row("cuLaunchKernel and cuStreamSynchronize", launch_and_wait, BURST);
	row("cuMemcpyDtoH, 8 B, and cuStreamSynchronize", copy_and_wait, BURST);
	row("cuMemHostRegister and Unregister, 1 MiB", register_host, 4);
	grow("buffers: cuMemsetD8Async", buffers, n_buffers, ARRAY_SIZE(n_buffers));
	grow("events in a capture: a step", captured, n_events, ARRAY_SIZE(n_events));
	grow("allocations: cuMemAlloc, 256 B", one_more_small, n_small,
	     ARRAY_SIZE(n_small));
	grow("allocations: cuMemAlloc, 600 KiB", one_more_600k, n_large,
	     ARRAY_SIZE(n_large));
	grow("allocations: cuMemAlloc, 2 MiB", one_more_2m, n_large, ARRAY_SIZE(n_large));
	grow("allocations: cuMemFree, 2 MiB, any order", free_2m, n_large,
	     ARRAY_SIZE(n_large));
	grow("holes of 8 KiB: cuMemAllocAsync, 9.5 KiB", beside_holes, n_small,
	     ARRAY_SIZE(n_small));
	grow("allocations: cuPointerGetAttribute within", within, n_small,
	     ARRAY_SIZE(n_small));
	grow("streams: cuMemAllocAsync and FreeAsync", pool_streams, n_streams,
	     ARRAY_SIZE(n_streams));
	grow("streams: cuStreamCreate", streams_made, n_streams, ARRAY_SIZE(n_streams));
	grow("events: cuEventCreate", events_made, n_small, ARRAY_SIZE(n_small));
	grow("buffers: cuMemAllocHost, 1000 B", pinned, n_streams, ARRAY_SIZE(n_streams));
	grow("registered: cuMemHostRegister and Unregister", registered, n_registered,
	     ARRAY_SIZE(n_registered));
	grow("threads: cuEventRecord", recording, n_threads, ARRAY_SIZE(n_threads));
	grow("threads: a stream as their first call", beginning, n_threads,
	     ARRAY_SIZE(n_threads));
	grow("threads: cuLaunchKernel", launching, n_threads, ARRAY_SIZE(n_threads));
	return 0;
}
