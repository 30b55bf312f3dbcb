/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads at once; functions in streams; handles. Clean under TSan. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "core/guest.h"
#include "fake.h"

#define THREADS 8
#define ROUNDS  200

static CUcontext ctx;
static CUmodule module;
static pthread_barrier_t all_done;

static struct fake *start(void)
{
	struct fake *f = fake_start(true);

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	return f;
}

static bool one_round(CUfunction k, unsigned i)
{
	CUstream st = NULL;
	CUevent ev = NULL;
	int attr;

	return cuStreamCreate(&st, 0) == CUDA_SUCCESS &&
	       cuEventCreate(&ev, 0) == CUDA_SUCCESS &&
	       cuLaunchKernel(k, 1 + i, 1, 1, 32, 1, 1, 0, st, NULL, NULL) ==
		       CUDA_SUCCESS &&
	       cuEventRecord(ev, st) == CUDA_SUCCESS &&
	       cuEventSynchronize(ev) == CUDA_SUCCESS &&
	       cuFuncGetAttribute(&attr, CU_FUNC_ATTRIBUTE_NUM_REGS, k) == CUDA_SUCCESS &&
	       cuEventDestroy_v2(ev) == CUDA_SUCCESS &&
	       cuEventQuery(ev) == CUDA_ERROR_INVALID_HANDLE &&
	       cuStreamDestroy_v2(st) == CUDA_SUCCESS;
}

static void *rounds(void *arg)
{
	static const char *const names[] = {"empty", "empty"};
	CUfunction k = NULL;
	unsigned i;

	if (cuInit(0) || cuCtxSetCurrent(ctx) ||
	    cuModuleGetFunction(&k, module, names[(uintptr_t)arg % 2]))
		return (void *)1;
	for (i = 0; i < ROUNDS; i++) {
		if (!one_round(k, i))
			return (void *)2;
	}
	return NULL;
}

/* Nobody leaves before all have a lane: the next one would take over theirs. */
static void *work(void *arg)
{
	void *bad = rounds(arg);

	pthread_barrier_wait(&all_done);
	return bad;
}

Test(guest_threads, all_at_once, .timeout = 120)
{
	struct fake *f = start();
	pthread_t t[THREADS];
	uintptr_t i;
	void *bad;

	cr_assert_eq(cuModuleLoadData(&module, ".version 9.0"), CUDA_SUCCESS);
	pthread_barrier_init(&all_done, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, work, (void *)i), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], &bad);
		cr_expect_eq(bad, NULL, "thread %zu failed at %zu", (size_t)i,
			     (size_t)bad);
	}
	cr_expect_eq(f->launches, THREADS * ROUNDS);
	cr_expect_eq(f->functions_asked, 1);
	cr_expect_geq(f->lanes, THREADS + 1);
}

static void *init(void *ret)
{
	*(CUresult *)ret = cuInit(0);
	return NULL;
}

/* Several embedded runtimes begin at once: one session. */
Test(guest_threads, init_at_once, .timeout = 60)
{
	struct fake *f = fake_start(true);
	CUresult r[THREADS];
	pthread_t t[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, init, &r[i]);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		cr_expect_eq(r[i], CUDA_SUCCESS);
	}
	cr_expect_eq(f->lanes, 1);
}

struct note {
	int runs;
	pthread_t thread;
	CUstream stream;
	CUresult status;
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

static void note_run(struct note *n)
{
	pthread_mutex_lock(&n->lock);
	n->runs++;
	n->thread = pthread_self();
	pthread_cond_signal(&n->cond);
	pthread_mutex_unlock(&n->lock);
}

static void host_fn(void *arg)
{
	note_run(arg);
}

static void callback(CUstream st, CUresult status, void *arg)
{
	struct note *n = arg;

	n->stream = st;
	n->status = status;
	note_run(n);
}

static void wait_runs(struct note *n, int runs)
{
	pthread_mutex_lock(&n->lock);
	while (n->runs < runs)
		pthread_cond_wait(&n->cond, &n->lock);
	pthread_mutex_unlock(&n->lock);
}

Test(guest_threads, host_functions, .timeout = 60)
{
	struct note n = {.lock = PTHREAD_MUTEX_INITIALIZER,
			 .cond = PTHREAD_COND_INITIALIZER,
			 .status = CUDA_ERROR_UNKNOWN};
	CUstream st;
	int i;

	start();
	cr_assert_eq(cuStreamCreate(&st, 0), CUDA_SUCCESS);
	for (i = 0; i < 5; i++)
		cr_assert_eq(cuLaunchHostFunc(st, host_fn, &n), CUDA_SUCCESS);
	wait_runs(&n, 5);
	cr_expect(!pthread_equal(n.thread, pthread_self()));
	cr_assert_eq(cuStreamAddCallback(st, callback, &n, 0), CUDA_SUCCESS);
	wait_runs(&n, 6);
	cr_expect_eq(n.stream, st);
	cr_expect_eq(n.status, CUDA_SUCCESS);
	cr_expect_eq(cuStreamAddCallback(st, callback, &n, 1), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuLaunchHostFunc(st, NULL, &n), CUDA_ERROR_INVALID_VALUE);
}

Test(guest_threads, a_freed_handle_is_never_valid_again)
{
	uint64_t first = guest_handle_new(HANDLE_EVENT, &first), h[300];
	int i, objects[300];

	cr_expect(guest_handle_valid(first, HANDLE_EVENT));
	cr_expect(!guest_handle_valid(first, HANDLE_STREAM));
	cr_expect_eq(guest_object(first, HANDLE_EVENT), &first);
	guest_handle_free(first);
	guest_handle_free(first);
	cr_expect(!guest_handle_valid(first, HANDLE_EVENT));
	cr_expect_eq(guest_object(first, HANDLE_EVENT), NULL);
	for (i = 0; i < 300; i++) { /* numbers are used again, handles are not */
		h[i] = guest_handle_new(HANDLE_EVENT, &objects[i]);
		cr_assert_neq(h[i], first);
		cr_assert_eq(guest_object(h[i], HANDLE_EVENT), &objects[i]);
		if (i >= 100)
			guest_handle_free(h[i - 100]);
	}
	cr_expect(!guest_handle_valid(0, HANDLE_EVENT));
	cr_expect(!guest_handle_valid(~0ull, HANDLE_EVENT));
	cr_expect(
		!guest_handle_valid(handle_make(HANDLE_EVENT, 0, 999999), HANDLE_EVENT));
}

Test(guest_threads, proc_address)
{
	CUdriverProcAddressQueryResult st;
	void *p = NULL;

	cr_expect_eq(cuGetProcAddress_v2("cuMemAlloc", &p, 13000, 0, &st), CUDA_SUCCESS);
	cr_expect_eq(p, (void *)cuMemAlloc_v2);
	cr_expect_eq(st, CU_GET_PROC_ADDRESS_SUCCESS);
	cr_expect_eq(cuGetProcAddress_v2("cuLaunchKernel", &p, 13000,
					 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
					 NULL),
		     CUDA_SUCCESS);
	cr_expect_eq(p, (void *)cuLaunchKernel_ptsz);
	/* As the driver: the status tells, and only the old entry point returns an error.
	 */
	cr_expect_eq(cuGetProcAddress_v2("cuLaunchKernelEx", &p, 11050, 0, &st),
		     CUDA_SUCCESS);
	cr_expect_eq(p, NULL);
	cr_expect_eq(st, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	p = &p;
	cr_expect_eq(cuGetProcAddress_v2("cuNoSuchThing", &p, 13000, 0, &st),
		     CUDA_SUCCESS);
	cr_expect_eq(p, NULL);
	cr_expect_eq(st, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	cr_expect_eq(cuGetProcAddress_v2("cuMulticastCreate", &p, 13000, 0, &st),
		     CUDA_SUCCESS);
	cr_expect_eq(st, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, "not supported");
	cr_expect_eq(cuGetProcAddress("cuNoSuchThing", &p, 11030, 0),
		     CUDA_ERROR_NOT_FOUND);
	cr_expect_eq(cuGetProcAddress_v2("cuGetProcAddress", &p, 13000, 0, NULL), 0);
	cr_expect_eq(p, (void *)cuGetProcAddress_v2);
	cr_expect_eq(cuGetProcAddress_v2("cuInit", &p, 13010, 0, &st),
		     CUDA_ERROR_INVALID_VALUE, "newer than the driver");
	cr_expect_eq(cuGetProcAddress_v2(NULL, &p, 13000, 0, NULL),
		     CUDA_ERROR_INVALID_VALUE);
}
