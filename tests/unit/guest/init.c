/* SPDX-License-Identifier: Apache-2.0 */
/* The process as a whole: before cuInit, without a host, forks, exit, a host that dies.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/guest.h"
#include "fake.h"
#include "core/process.h"
#include "refusal.h"

static CUcontext retain(void)
{
	CUcontext ctx;

	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	return ctx;
}

/* Calls of every kind: answered here, one message, by hand; what they return. */
static void expect_all(CUresult want)
{
	CUmemoryPool pool;
	CUcontext ctx;
	CUstream st;
	CUdeviceptr p;
	size_t size;
	int n;

	cr_expect_eq(cuDeviceGetCount(&n), want);
	cr_expect_eq(cuDeviceGet(&n, 0), want);
	cr_expect_eq(cuDeviceTotalMem_v2(&size, 0), want);
	cr_expect_eq(cuCtxGetCurrent(&ctx), want);
	cr_expect_eq(cuCtxCreate_v2(&ctx, 0, 0), want);
	cr_expect_eq(cuDevicePrimaryCtxRetain(&ctx, 0), want);
	cr_expect_eq(cuDevicePrimaryCtxReset_v2(0), want);
	cr_expect_eq(cuCtxSynchronize(), want);
	cr_expect_eq(cuMemAlloc_v2(&p, 16), want);
	cr_expect_eq(cuMemcpyHtoD_v2(FAKE_BAND_BASE, &n, 4), want);
	cr_expect_eq(cuMemcpyDtoH_v2(&n, FAKE_BAND_BASE, 4), want);
	cr_expect_eq(cuStreamCreate(&st, 0), want);
	cr_expect_eq(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), want);
	cr_expect_eq(cuDeviceGetDefaultMemPool(&pool, 0), want);
	cr_expect_eq(cuMemFreeHost(&n), want);
}

Test(guest_init, before_init)
{
	const char *text;
	int version = 0;

	expect_all(CUDA_ERROR_NOT_INITIALIZED);
	cr_expect_eq(cuDriverGetVersion(&version), CUDA_SUCCESS);
	cr_expect_eq(version, 13000);
	cr_expect_eq(cuGetErrorName(CUDA_ERROR_ASSERT, &text), CUDA_SUCCESS);
	cr_expect_str_eq(text, "CUDA_ERROR_ASSERT");
	cr_expect_eq(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

Test(guest_init, no_host)
{
	setenv("WEFT_HOST", "unix:/nonexistent/weft.sock", 1);
	cr_expect_eq(cuInit(0), CUDA_ERROR_NO_DEVICE);
	cr_expect_eq(cuInit(0), CUDA_ERROR_NO_DEVICE, "and again");
	expect_all(CUDA_ERROR_NOT_INITIALIZED);
}

/* ---- a host of another age ---- */

static struct fake *other_host(const char *release)
{
	struct fake *f = fake_start(true);

	f->api_hash ^= 1;
	strcpy(f->release, release);
	return f;
}

static void expect_told(const char *what)
{
	struct refused_cmd r = fake_last_refusal();

	cr_expect_eq(r.kind, REFUSAL_VERSION);
	cr_expect_str_eq((const char *)r.what, what);
}

/* Calls that it knows work; the others are refused, which is said once and harms nothing. */
Test(guest_init, an_older_host_is_used_as_far_as_it_goes)
{
	struct fake *f = other_host("0.0.9");
	CUcontext ctx;
	CUstream st;
	CUdeviceptr p;

	f->known[WIRE_OP_cuMemAlloc_v2] = 0;
	log_set_level(LOG_LVL_NONE);
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	cr_expect_eq(cuMemAlloc_v2(&p, 100), CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(cuMemAlloc_v2(&p, 100), CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(f->mallocs, 0);
	cr_expect_eq(f->refusals, 1);
	expect_told("cuMemAlloc_v2: library " WEFT_VERSION ", host 0.0.9");
	cr_expect_eq(cuStreamCreate(&st, 0), CUDA_SUCCESS);
	cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

/* A field that is zero means "as before", so it may be sent. */
Test(guest_init, fields_that_an_older_host_lacks_are_not_used)
{
	struct fake *f = other_host("0.0.9");
	CUcontext ctx;
	CUstream st;

	f->known[WIRE_OP_stream_create] = 1 + offsetof(struct stream_create_cmd, flags);
	log_set_level(LOG_LVL_NONE);
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	cr_expect_eq(cuStreamCreate(&st, CU_STREAM_DEFAULT), CUDA_SUCCESS);
	cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	cr_expect_eq(f->stream_creates, 1);
	cr_expect_eq(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING),
		     CUDA_ERROR_NOT_SUPPORTED);
	cr_expect_eq(f->stream_creates, 1);
	expect_told("stream_create: library " WEFT_VERSION ", host 0.0.9");
	cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

/* Shorter replies end in zeros, longer ones in what is not known here. */
Test(guest_init, replies_of_another_length_are_read_as_far_as_they_are_known)
{
	struct fake *f = other_host("9.0.0");
	char name[32];
	CUcontext ctx;
	size_t free_now, all;

	f->fixed[WIRE_OP_session_open] = offsetof(struct session_open_rep, driver);
	f->fixed[WIRE_OP_primary_retain] = 256;
	f->fixed[WIRE_OP_cuMemGetInfo_v2] = 8;
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_expect_eq(cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
	cr_expect_str_eq(name, "Fake GPU");
	cr_expect_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	cr_expect_eq(cuMemGetInfo_v2(&free_now, &all), CUDA_SUCCESS);
	cr_expect_eq(f->refusals, 0, "it knows everything");
}

Test(guest_init, the_one_device_has_its_name_and_attributes)
{
	char name[32], bus[32];
	CUuuid uuid;
	size_t size;
	int value = -1;

	fake_start(true);
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_expect_eq(cuDeviceGetCount(&value), CUDA_SUCCESS);
	cr_expect_eq(value, 1);
	cr_expect_eq(cuDeviceGet(&value, 1), CUDA_ERROR_INVALID_DEVICE);
	cr_expect_eq(cuDeviceGet(&value, -1), CUDA_ERROR_INVALID_DEVICE);
	cr_expect_eq(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
	cr_expect_str_eq(name, "Fake GPU");
	cr_expect_eq(cuDeviceGetUuid_v2(&uuid, 0), CUDA_SUCCESS);
	cr_expect_eq(uuid.bytes[15], 0x1f);
	cr_expect_eq(cuDeviceTotalMem_v2(&size, 0), CUDA_SUCCESS);
	cr_expect_eq(size, FAKE_HEAP_SIZE);
	cr_expect_eq(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), 0);
	cr_expect_eq(value, 32);
	cr_expect_eq(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0),
		     CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuDeviceGetPCIBusId(bus, sizeof(bus), 0), CUDA_SUCCESS);
	cr_expect_str_eq(bus, "0000:07:00.0");
	cr_expect_eq(cuDeviceGetByPCIBusId(&value, bus), CUDA_SUCCESS);
	cr_expect_eq(cuDeviceGetByPCIBusId(&value, "07:00.0"), CUDA_SUCCESS);
	cr_expect_eq(cuDeviceGetByPCIBusId(&value, "0000:08:00.0"),
		     CUDA_ERROR_INVALID_DEVICE);
	cr_expect_eq(cuDeviceGetByPCIBusId(&value, "nonsense"), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuDeviceGetP2PAttribute(
			     &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
		     CUDA_ERROR_INVALID_DEVICE);
}

/* In a child: runs check(), exits with 0 if it returned true. */
static int in_child(bool (*check)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(10);
		_exit(check() ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool child_is_refused(void)
{
	CUdeviceptr p;
	CUcontext ctx;
	int n;

	return cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuMemAlloc_v2(&p, 16) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuCtxGetCurrent(&ctx) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ==
		       CUDA_ERROR_NOT_INITIALIZED &&
	       cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
}

Test(guest_init, fork_after_init, .timeout = 60)
{
	struct fake *f = fake_start(true);
	CUdeviceptr p;
	unsigned seen;

	retain();
	cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	seen = f->calls + f->posts;
	cr_expect_eq(in_child(child_is_refused), 0);
	cr_expect_eq(f->calls + f->posts, seen, "the child said something");
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_SUCCESS, "the parent goes on");
}

static bool child_works(void)
{
	CUcontext ctx;
	CUdeviceptr p;

	return cuInit(0) == CUDA_SUCCESS &&
	       cuDevicePrimaryCtxRetain(&ctx, 0) == CUDA_SUCCESS &&
	       cuCtxSetCurrent(ctx) == CUDA_SUCCESS &&
	       cuMemAlloc_v2(&p, 16) == CUDA_SUCCESS;
}

Test(guest_init, fork_before_init, .timeout = 60)
{
	fake_start(true);
	cr_expect_eq(in_child(child_works), 0);
}

static bool child_sees_it(void)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
	return child_works();
}

/* Nothing is left of it then: not for children, nor for another try. */
Test(guest_init, none_visible, .timeout = 60)
{
	fake_start(true);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	cr_expect_eq(cuInit(0), CUDA_ERROR_NO_DEVICE);
	cr_expect(!guest_process.link, "its worker is kept for nothing");
	cr_expect_eq(in_child(child_sees_it), 0);
	cr_expect_eq(in_child(child_sees_it), 0);
	cr_expect(child_sees_it());
}

Test(guest_init, a_closed_gate_is_not_opened_by_a_late_init)
{
	cr_assert(process_set_state(PROCESS_EXITING));
	cr_expect(!process_set_state(PROCESS_READY), "cuInit() in another thread");
	cr_expect_eq(process_get_state(), PROCESS_EXITING);
	cr_expect_eq(guest_status(), CUDA_ERROR_DEINITIALIZED);
	cr_assert(process_set_state(PROCESS_FORKED), "a child of exit handlers");
	cr_expect(!process_set_state(PROCESS_LOST));
	cr_expect_eq(guest_status(), CUDA_ERROR_NOT_INITIALIZED);
}

/* In exit(): a failure changes the status that the parent looks at. */
static void before_cuinit(void)
{
	CUdeviceptr p;
	int n;

	if (cuDeviceGetCount(&n) != CUDA_ERROR_DEINITIALIZED ||
	    cuMemAlloc_v2(&p, 16) != CUDA_ERROR_DEINITIALIZED ||
	    cuInit(0) != CUDA_ERROR_DEINITIALIZED)
		_exit(3);
}

static void after_cuinit(void)
{
	int n;

	if (cuDeviceGetCount(&n) != CUDA_SUCCESS)
		_exit(4);
}

static void *stuck(void *ctx)
{
	cuCtxSetCurrent(ctx);
	cuCtxSynchronize();
	return NULL;
}

/* exit() while a thread waits for a reply that never comes. */
static void exit_while_stuck(void)
{
	struct fake *f = fake_start(true);
	CUcontext ctx;
	pthread_t t;

	alarm(20);
	atexit(before_cuinit);
	ctx = retain();
	atexit(after_cuinit);
	cuCtxSynchronize();
	f->deaf = true;
	pthread_create(&t, NULL, stuck, ctx);
	usleep(50000);
	exit(7);
}

Test(guest_init, exit_does_not_wait_for_a_stuck_thread, .timeout = 60, .exit_code = 7)
{
	exit_while_stuck();
}

static void expect_dead(void)
{
	CUdeviceptr p;
	int n;

	cr_expect_eq(cuMemAlloc_v2(&p, 16), GUEST_ERROR_LOST);
	cr_expect_eq(cuCtxSynchronize(), GUEST_ERROR_LOST);
	cr_expect_eq(cuMemcpyDtoH_v2(&n, FAKE_BAND_BASE, 4), GUEST_ERROR_LOST);
	cr_expect_eq(cuDeviceGetCount(&n), GUEST_ERROR_LOST);
	cr_expect_eq(cuInit(0), GUEST_ERROR_LOST);
}

Test(guest_init, host_dies, .timeout = 60)
{
	struct fake *f = fake_start(true);
	uint64_t start;
	CUstream st;

	retain();
	fake_kill(f);
	cr_expect_eq(cuCtxSynchronize(), GUEST_ERROR_LOST);
	start = clock_now_ns();
	expect_dead();
	cr_expect_neq(cuStreamCreate(&st, 0), CUDA_SUCCESS);
	cr_expect_lt(clock_now_ns() - start, NSEC_PER_SEC, "no call may hang");
}

static void *blocked_call(void *ctx)
{
	CUresult r = cuCtxSetCurrent(ctx);

	if (r == CUDA_SUCCESS)
		r = cuCtxSynchronize();
	return (void *)(uintptr_t)r;
}

/* A thread that waits for a reply is woken, and a new thread's first call fails. */
Test(guest_init, host_dies_meanwhile, .timeout = 60)
{
	struct fake *f = fake_start(true);
	CUcontext ctx = retain();
	pthread_t a, b;
	void *r;

	f->deaf = true;
	pthread_create(&a, NULL, blocked_call, ctx);
	usleep(100000);
	fake_kill(f);
	pthread_join(a, &r);
	cr_expect_eq((uintptr_t)r, GUEST_ERROR_LOST);
	pthread_create(&b, NULL, blocked_call, ctx);
	pthread_join(b, &r);
	cr_expect_eq((uintptr_t)r, GUEST_ERROR_LOST);
}

Test(guest_init, only_a_sticky_error_stays)
{
	struct fake *f = fake_start(true);
	CUdeviceptr p;
	int n;

	retain();
	f->fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_ERROR_OUT_OF_MEMORY);
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_SUCCESS, "not every error stays");
	f->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
	cr_expect_eq(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	cr_expect_eq(cuMemAlloc_v2(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
	cr_expect_eq(cuMemcpyDtoH_v2(&n, FAKE_BAND_BASE, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
	cr_expect_eq(cuDeviceGetCount(&n), CUDA_SUCCESS, "the device is still there");
}

/* A function that is only there by name. */
static int refused_by_name(void)
{
	return cuCheckpointProcessLock(0, NULL);
}

Test(guest_init, refusals_are_told)
{
	struct fake *f = fake_start(true);
	CUuuid id;
	const void *table;

	memset(&id, 0xcd, sizeof(id));
	cr_expect_eq(refused_by_name(), CUDA_ERROR_NOT_SUPPORTED, "before cuInit");
	cr_expect_eq(refused_by_name(), CUDA_ERROR_NOT_SUPPORTED);
	retain();
	cr_expect_eq(f->refusals, 1);
	cr_expect_eq(fake_last_refusal().kind, REFUSAL_FUNCTION);
	cr_expect_eq(fake_last_refusal().count, 2);
	cr_expect_str_eq((const char *)fake_last_refusal().what,
			 "cuCheckpointProcessLock");
	for (unsigned i = 2; i < 1000; i++)
		refused_by_name();
	cr_expect_eq(cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
	cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	cr_expect_eq(f->refusals, 1 + 8 + 1, "4 to 512, and the table");
	cr_expect_eq(fake_last_refusal().kind, REFUSAL_TABLE);
	cr_expect_str_eq((const char *)fake_last_refusal().what,
			 "cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd");
}

Test(guest_init, refusals_in_a_child)
{
	int status = -1;
	pid_t pid;

	fake_start(true);
	retain();
	pid = fork();
	if (pid == 0)
		_exit(refused_by_name() == CUDA_ERROR_NOT_SUPPORTED ? 0 : 1);
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
