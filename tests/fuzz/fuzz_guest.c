/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's library with a worker that lies: its replies have the right form, and any
 * numbers in them. Input: bytes that both take from: the program to choose its next call
 * and its operands, the worker how many words of a reply to change (1 byte), and for each
 * which one (1 byte) and to what (2 bytes: a value and a shift; shift 31: an error, 30: the
 * words of the reply's structure).
 *
 * One process has one session, so the library's tables outlive an input. What ends the
 * session by rights is taken back.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/guest.h"
#include "lane.h"
#include "core/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *lying_begin(struct lane *l, uint16_t flags, uint32_t body_size,
			 uint32_t payload_size, void **ret_payload);
static int lying_reply(struct lane *l);

#define lane_reply_begin lying_begin
#define lane_reply       lying_reply
#include "../unit/guest/fake.c"
#undef lane_reply_begin
#undef lane_reply

#define FEW    4u
#define CALLS  60
#define BUFFER 65536u /* what a kernel's parameter may be said to have, and more */
#define COPY   20000u

static struct {
	pthread_mutex_t lock;
	const uint8_t *p;
	size_t n;
} input = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint8_t take(void)
{
	uint8_t v = 0;

	pthread_mutex_lock(&input.lock);
	if (input.n) {
		v = *input.p++;
		input.n--;
	}
	pthread_mutex_unlock(&input.lock);
	return v;
}

/* ---- the worker ---- */

static _Thread_local uint32_t *reply_body;
static _Thread_local uint32_t reply_words;

static void *lying_begin(struct lane *l, uint16_t flags, uint32_t body_size,
			 uint32_t payload_size, void **ret_payload)
{
	reply_body = lane_reply_begin(l, flags, body_size, payload_size, ret_payload);
	reply_words = body_size / 4;
	return reply_body;
}

static int lying_reply(struct lane *l)
{
	unsigned n = take() % 4;

	for (unsigned i = 0; i < n; i++) {
		uint32_t at = 2 + take() % 64u, value = take(), shift = take() % 32;

		if (shift == 31)
			reply_body[0] = value;
		else if (shift == 30)
			lane_fixed(l, MIN(value * 8, reply_words * 4 & ~7u));
		else if (at < reply_words)
			reply_body[at] =
				shift & 1 ? -(value << shift / 2) : value << shift;
	}
	return lane_reply(l);
}

/* ---- the program ---- */

static CUdeviceptr mem[FEW];
static CUmodule module[FEW];
static CUfunction function[FEW];
static CUstream stream[FEW];
static CUarray array[FEW];

static void begin_program(void)
{
	CUcontext ctx;

	log_set_level(LOG_LVL_NONE);
	fake_start(false);
	if (cuInit(0) || cuCtxCreate_v2(&ctx, 0, 0))
		abort();
}

/* Giving up was right; the next call is to be made all the same. */
static void go_on(void)
{
	if (atomic_load(&guest_process.state) != PROCESS_LOST)
		return;
	atomic_store(&guest_process.state, PROCESS_READY);
	atomic_store(&guest_process.gate, CUDA_SUCCESS);
}

static void copies(unsigned i)
{
	size_t n = take() * 80u % COPY;
	char *buf = calloc(1, n + 1);

	if (take() & 1)
		(void)cuMemcpyHtoD_v2(mem[i], buf, n);
	else
		(void)cuMemcpyDtoH_v2(buf, mem[i], n);
	free(buf);
}

static void code(unsigned i)
{
	static const char text[] = ".version 8.0\n.target sm_80\n";
	static const char *const names[] = {"plain", "odd", "large", "empty"};
	char log[200];
	CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER,
				 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *value[] = {log, (void *)(uintptr_t)sizeof(log)};
	CUdeviceptr at;
	size_t bytes;

	switch (take() % 5) {
	case 0:
		if (!module[i])
			(void)cuModuleLoadDataEx(&module[i], text, 2, option, value);
		break;
	case 1:
		(void)cuModuleGetFunction(&function[i], module[i], names[take() % 4]);
		break;
	case 2:
		(void)cuModuleGetGlobal_v2(&at, &bytes, module[i], "v");
		break;
	case 3: {
		CUfunction all[8];
		unsigned n;

		(void)cuModuleGetFunctionCount(&n, module[i]);
		(void)cuModuleEnumerateFunctions(all, 8, module[i]);
		break;
	}
	default:
		(void)cuModuleUnload(module[i]);
		module[i] = NULL;
		function[i] = NULL;
	}
}

static void launches(unsigned i)
{
	static char parameter[BUFFER];
	void *params[4097];
	const char *name;
	size_t offset, bytes;
	int n;

	if (!function[i])
		return;
	for (unsigned k = 0; k < ARRAY_SIZE(params); k++)
		params[k] = parameter;
	switch (take() % 5) {
	case 0:
	case 1:
		(void)cuLaunchKernel(function[i], 1, 1, 1, take(), 1, 1, 0, NULL, params,
				     NULL);
		break;
	case 2:
		(void)cuFuncGetParamInfo(function[i], take(), &offset, &bytes);
		if (cuFuncGetName(&name, function[i]) == CUDA_SUCCESS)
			n = (int)strlen(name);
		break;
	case 3:
		(void)cuFuncSetAttribute(function[i],
					 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					 take());
		(void)cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, function[i]);
		break;
	default:
		(void)cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, function[i], take(),
								  0);
	}
}

static void questions(unsigned i)
{
	CUipcMemHandle handle;
	CUdeviceptr base;
	size_t a, b;
	uint64_t id;

	switch (take() % 7) {
	case 0:
		(void)cuMemGetInfo_v2(&a, &b);
		break;
	case 1:
		(void)cuMemGetAddressRange_v2(&base, &a, mem[i] + take());
		break;
	case 2:
		(void)cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					    mem[i] + take());
		break;
	case 3:
		(void)cuCtxGetLimit(&a, (CUlimit)(take() & 7));
		break;
	case 4:
		(void)cuIpcGetMemHandle(&handle, mem[i]);
		break;
	case 5:
		(void)cuCtxSynchronize();
		break;
	default:
		(void)cuStreamQuery(stream[i]);
	}
}

static void makes(unsigned i)
{
	CUDA_ARRAY_DESCRIPTOR d = {take(), take() & 15, CU_AD_FORMAT_FLOAT, 1};
	void *host;

	switch (take() % 6) {
	case 0:
		if (!stream[i])
			(void)cuStreamCreate(&stream[i], 0);
		break;
	case 1:
		(void)cuStreamDestroy_v2(stream[i]);
		stream[i] = NULL;
		break;
	case 2:
		if (!array[i])
			(void)cuArrayCreate_v2(&array[i], &d);
		break;
	case 3:
		if (array[i])
			(void)cuArrayDestroy(array[i]);
		array[i] = NULL;
		break;
	case 4:
		if (cuMemHostAlloc(&host, 100 + take() * 100u, 0) == CUDA_SUCCESS)
			(void)cuMemFreeHost(host);
		break;
	default:
		(void)cuMemAllocAsync(&mem[i], take() * 100u, NULL);
	}
}

static void links(void)
{
	CUlinkState state;
	size_t bytes;
	void *cubin;
	char text[] = ".version 8.0\n";

	if (cuLinkCreate_v2(0, NULL, NULL, &state))
		return;
	(void)cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, text, sizeof(text), "a", 0, NULL,
			       NULL);
	if (cuLinkComplete(state, &cubin, &bytes) == CUDA_SUCCESS && bytes)
		text[0] = ((char *)cubin)[bytes - 1];
	(void)cuLinkDestroy(state);
}

static void call_something(void)
{
	uint8_t op = take();
	unsigned i = op / 8 % FEW;

	switch (op % 8) {
	case 0:
		(void)cuMemAlloc_v2(&mem[i], 1 + take() * 1000u);
		break;
	case 1:
		(void)cuMemFree_v2(mem[i]);
		break;
	case 2:
		copies(i);
		break;
	case 3:
		code(i);
		break;
	case 4:
		launches(i);
		break;
	case 5:
		questions(i);
		break;
	case 6:
		makes(i);
		break;
	default:
		links();
	}
}

static bool input_left(void)
{
	bool left;

	pthread_mutex_lock(&input.lock);
	left = input.n;
	pthread_mutex_unlock(&input.lock);
	return left;
}

static void end_all(void)
{
	pthread_mutex_lock(&input.lock);
	input.n = 0; /* from here on the worker is honest */
	pthread_mutex_unlock(&input.lock);
	for (unsigned i = 0; i < FEW; i++) {
		if (module[i])
			(void)cuModuleUnload(module[i]);
		if (stream[i])
			(void)cuStreamDestroy_v2(stream[i]);
		if (array[i])
			(void)cuArrayDestroy(array[i]);
		(void)cuMemFree_v2(mem[i]);
		mem[i] = 0;
		module[i] = NULL;
		function[i] = NULL;
		stream[i] = NULL;
		array[i] = NULL;
		go_on();
	}
	pthread_mutex_lock(&lock);
	heap_used = 0;
	pthread_mutex_unlock(&lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;

	if (!begun)
		begin_program();
	begun = true;
	pthread_mutex_lock(&input.lock);
	input.p = data;
	input.n = size;
	pthread_mutex_unlock(&input.lock);
	for (unsigned i = 0; i < CALLS && input_left(); i++) {
		call_something();
		go_on();
	}
	end_all();
	return 0;
}
