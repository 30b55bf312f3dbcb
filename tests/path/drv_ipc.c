/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events shared by two processes: what one writes the other sees, in order;
 * wrong handles; opening again and closing; the one who made it frees it, or ends, first.
 */
#include <semaphore.h>

#include "peer.h"

#define SMALL 1000u
#define LARGE (5u << 20)

static size_t free_bytes(void)
{
	size_t left, total;

	CK(cuMemGetInfo(&left, &total));
	return left;
}

/* ---- events ---- */

#define SHARED (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)
#define WORDS  1024u

static sem_t gate;

static void CUDA_CB hold(void *arg)
{
	sem_wait(&gate);
}

static void wrong_events(const CUipcEventHandle *h)
{
	CUipcEventHandle bad;
	CUipcMemHandle mem;
	CUdeviceptr p;
	CUevent e;

	for (unsigned i = 0; i < 24; i++) {
		bad = *h;
		bad.reserved[i] = (char)(bad.reserved[i] ^ 1);
		EXPECT(cuIpcOpenEventHandle(&e, bad), CUDA_ERROR_INVALID_VALUE);
	}
	EXPECT(cuIpcOpenEventHandle(NULL, *h), CUDA_ERROR_INVALID_VALUE);
	memcpy(&mem, h, sizeof(mem)); /* one for the other */
	EXPECT(cuIpcOpenMemHandle(&p, mem, 1), CUDA_ERROR_INVALID_VALUE);
}

/* The maker: what it writes is held back until the other waits for it. */
static void events_make(CUdeviceptr p)
{
	CUipcEventHandle h, again;
	CUipcMemHandle mem;
	CUevent e, opened, plain;
	CUstream st;

	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	EXPECT(cuIpcGetEventHandle(&h, plain), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	CK(cuEventCreate(&e, SHARED));
	CK(cuEventQuery(e));
	CK(cuLaunchHostFunc(st, hold, NULL));
	CK(cuMemsetD32Async(p, 0xabcdef01, WORDS, st));
	CK(cuEventRecord(e, st));
	CK(cuIpcGetEventHandle(&h, e)); /* a record from before counts */
	CK(cuIpcGetEventHandle(&again, e));
	REQUIRE(!memcmp(&h, &again, sizeof(h)));
	EXPECT(cuIpcOpenEventHandle(&opened, h), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	CK(cuIpcGetMemHandle(&mem, p));
	say(&mem, sizeof(mem));
	say(&h, sizeof(h));
	expect_step('h');
	usleep(50000);
	sem_post(&gate);
	CK(cuEventSynchronize(e));
	CK(cuEventQuery(e));
	step('s');
	expect_step('r'); /* recorded by the other, whose stream is held */
	EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	CK(cuStreamWaitEvent(st, e, 0));
	CK(cuMemsetD32Async(p, 2, 1, st));
	EXPECT(cuStreamQuery(st), CUDA_ERROR_NOT_READY);
	step('g');
	CK(cuStreamSynchronize(st));
	REQUIRE(word_at(p) == 2 && word_at(p + 4) == 0x77);
	CK(cuEventSynchronize(e));
	expect_step('e');
	CK(cuEventDestroy(e));
	CK(cuCtxSynchronize());
	step('d');
	hear(&h, sizeof(h)); /* never done: the other ends before */
	CK(cuIpcOpenEventHandle(&e, h));
	CK(cuStreamWaitEvent(st, e, 0));
	EXPECT(cuStreamQuery(st), CUDA_ERROR_NOT_READY);
	EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	step('x');
	CK(cuStreamSynchronize(st));
	CK(cuEventSynchronize(e));
	CK(cuEventDestroy(e));
	CK(cuEventDestroy(plain));
	CK(cuStreamDestroy(st));
}

static void events_open(void)
{
	CUipcEventHandle h, mine;
	CUevent e, second, never;
	CUipcMemHandle mem;
	CUdeviceptr p, copy;
	CUstream st;
	float ms;

	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&copy, 4 * WORDS));
	hear(&mem, sizeof(mem));
	hear(&h, sizeof(h));
	wrong_events(&h);
	CK(cuIpcOpenMemHandle(&p, mem, 1));
	CK(cuIpcOpenEventHandle(&e, h));
	CK(cuIpcOpenEventHandle(&second, h));
	EXPECT(cuIpcGetEventHandle(&mine, e), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventElapsedTime(&ms, e, second), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	CK(cuStreamWaitEvent(st, e, 0));
	CK(cuMemcpyDtoDAsync(copy, p, 4 * WORDS, st));
	EXPECT(cuStreamQuery(st), CUDA_ERROR_NOT_READY);
	step('h');
	CK(cuStreamSynchronize(st));
	REQUIRE(word_at(copy) == 0xabcdef01 &&
		word_at(copy + 4 * WORDS - 4) == 0xabcdef01);
	CK(cuEventQuery(second));
	CK(cuEventDestroy(second));
	expect_step('s');
	CK(cuLaunchHostFunc(st, hold, NULL));
	CK(cuMemsetD32Async(p, 0x77, WORDS, st));
	CK(cuEventRecord(e, st));
	step('r');
	expect_step('g');
	sem_post(&gate);
	CK(cuEventSynchronize(e));
	step('e');
	expect_step('d');
	CK(cuEventQuery(e)); /* what is open stays */
	EXPECT(cuIpcOpenEventHandle(&second, h), CUDA_ERROR_INVALID_VALUE);
	CK(cuEventDestroy(e));
	CK(cuEventCreate(&never, SHARED));
	CK(cuLaunchHostFunc(st, hold, NULL));
	CK(cuEventRecord(never, st));
	CK(cuIpcGetEventHandle(&mine, never));
	say(&mine, sizeof(mine));
	expect_step('x');
	usleep(50000);
	_exit(0);
}

/* ---- the one who opens ---- */

static void wrong_handles(const CUipcMemHandle *h)
{
	CUipcMemHandle bad;
	CUdeviceptr p;

	for (unsigned i = 0; i < 40; i++) {
		bad = *h;
		bad.reserved[i] = (char)(bad.reserved[i] ^ 0x40);
		/* sizes and places are bounded by what is there, and are not secret */
		if (i < 24 || i % 8 >= 4)
			EXPECT(cuIpcOpenMemHandle(&p, bad, 1), CUDA_ERROR_INVALID_VALUE);
	}
	memset(&bad, 0, sizeof(bad));
	EXPECT(cuIpcOpenMemHandle(&p, bad, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcOpenMemHandle(&p, *h, 2), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcOpenMemHandle(NULL, *h, 1), CUDA_ERROR_INVALID_VALUE);
}

static void what_it_is(CUdeviceptr p, size_t bytes)
{
	CUipcMemHandle h;
	CUdeviceptr base;
	size_t size;

	CK(cuMemGetAddressRange(&base, &size, p + bytes / 2));
	REQUIRE(base == p && size == bytes);
	EXPECT(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcGetMemHandle(&h, p), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcCloseMemHandle(p + 256), CUDA_ERROR_INVALID_VALUE);
}

static int consumer(void)
{
	CUipcMemHandle small, large, mine;
	CUdeviceptr s, l, again, own;
	size_t before, with;

	start();
	hear(&small, sizeof(small));
	hear(&large, sizeof(large));
	wrong_handles(&small);
	wrong_handles(&large);
	before = free_bytes();
	CK(cuIpcOpenMemHandle(&s, small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CK(cuIpcOpenMemHandle(&l, large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	with = free_bytes();
	REQUIRE(with == before); /* it is paid for */
	REQUIRE(s != l);
	what_it_is(s, SMALL);
	what_it_is(l, LARGE);
	REQUIRE(word_at(s) == 0x11111111 && word_at(s + SMALL - 4) == 0x11111111);
	REQUIRE(word_at(l) == 0x22222222 && word_at(l + LARGE - 4) == 0x22222222);
	CK(cuIpcOpenMemHandle(&again, large, 1));
	REQUIRE(again == l);
	CK(cuMemsetD32(s, 0x33333333, SMALL / 4));
	CK(cuMemsetD32(l + LARGE / 2, 0x44444444, LARGE / 8));
	CK(cuCtxSynchronize());
	step('a');
	expect_step('b'); /* freed by the other */
	REQUIRE(word_at(l + LARGE - 4) == 0x44444444 && word_at(l) == 0x22222222);
	EXPECT(cuIpcOpenMemHandle(&own, small, 3), CUDA_ERROR_INVALID_VALUE);
	CK(cuIpcCloseMemHandle(l));
	REQUIRE(word_at(l) == 0x22222222); /* opened twice */
	before = free_bytes();
	CK(cuIpcCloseMemHandle(l));
	for (int i = 0; i < 200 && free_bytes() == before; i++)
		usleep(10000);
	REQUIRE(free_bytes() > before);
	EXPECT(cuIpcCloseMemHandle(l), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcOpenMemHandle(&l, large, 1), CUDA_ERROR_INVALID_VALUE);
	CK(cuIpcCloseMemHandle(s));
	/* the other way round, and this process ends first */
	CK(cuMemAlloc(&own, LARGE));
	CK(cuMemsetD32(own, 0x55555555, LARGE / 4));
	CK(cuCtxSynchronize());
	CK(cuIpcGetMemHandle(&mine, own));
	say(&mine, sizeof(mine));
	expect_step('c');
	events_open();
	return 1;
}

/* ---- the one who makes ---- */

static void refused(CUdeviceptr p)
{
	CUipcMemHandle h;
	CUdeviceptr pool, own;
	int capable = -1;

	CK(cuIpcGetMemHandle(&h, p));
	EXPECT(cuIpcOpenMemHandle(&own, h, 1), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuIpcGetMemHandle(&h, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcGetMemHandle(NULL, p), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcGetMemHandle(&h, (CUdeviceptr)(uintptr_t)&h),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemAllocAsync(&pool, 4096, NULL));
	EXPECT(cuIpcGetMemHandle(&h, pool), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFree(pool));
	CK(cuPointerGetAttribute(&capable,
				 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	REQUIRE(capable == 1);
}

int main(int argc, char **argv)
{
	CUipcMemHandle small, large, theirs;
	CUdeviceptr neighbour, s, l, t;
	pid_t pid;

	check_name = "drv_ipc";
	alarm(60);
	sem_init(&gate, 0, 0);
	if (is_consumer(argc, argv))
		return consumer();
	pid = run_consumer();
	start();
	CK(cuMemAlloc(&neighbour, SMALL));
	CK(cuMemAlloc(&s, SMALL));
	CK(cuMemAlloc(&l, LARGE));
	CK(cuMemsetD32(neighbour, 0x99999999, SMALL / 4));
	CK(cuMemsetD32(s, 0x11111111, SMALL / 4));
	CK(cuMemsetD32(l, 0x22222222, LARGE / 4));
	CK(cuCtxSynchronize());
	refused(s);
	CK(cuIpcGetMemHandle(&small, s + 8)); /* stands for all of the allocation */
	CK(cuIpcGetMemHandle(&large, l));
	CK(cuIpcGetMemHandle(&theirs, l));
	REQUIRE(!memcmp(&theirs, &large, sizeof(large)));
	REQUIRE(word_at(s) == 0x11111111 && word_at(l + LARGE - 4) == 0x22222222);
	say(&small, sizeof(small));
	say(&large, sizeof(large));
	expect_step('a');
	REQUIRE(word_at(s) == 0x33333333 && word_at(s + SMALL - 4) == 0x33333333);
	REQUIRE(word_at(neighbour) == 0x99999999);
	REQUIRE(word_at(l) == 0x22222222 && word_at(l + LARGE / 2) == 0x44444444);
	CK(cuMemFree(l));
	CK(cuMemAlloc(&t, LARGE)); /* is other memory */
	CK(cuMemsetD32(t, 0x77777777, LARGE / 4));
	CK(cuCtxSynchronize());
	step('b');
	hear(&theirs, sizeof(theirs));
	CK(cuIpcOpenMemHandle(&l, theirs, 1));
	step('c');
	events_make(t);
	consumer_ended(pid);
	usleep(100000); /* its maker's worker ends meanwhile */
	REQUIRE(word_at(l) == 0x55555555 && word_at(l + LARGE - 4) == 0x55555555);
	CK(cuIpcCloseMemHandle(l));
	/* The end of its maker may not be known everywhere yet. */
	for (unsigned i = 0; i < 1000; i++) {
		if (cuIpcOpenMemHandle(&l, theirs, 1) != CUDA_SUCCESS)
			break;
		CK(cuIpcCloseMemHandle(l));
		usleep(10000);
	}
	EXPECT(cuIpcOpenMemHandle(&l, theirs, 1), CUDA_ERROR_INVALID_VALUE);
	REQUIRE(word_at(t + LARGE - 4) == 0x77777777);
	CK(cuMemFree(t));
	CK(cuMemFree(s));
	CK(cuMemFree(neighbour));
	return pass();
}
