/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches as fast as a program can make them are launched in order, each with its own
 * function and parameters: in one stream, in several, from threads that take turns,
 * before and after whatever else lies between them.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"

#define LAUNCHES 3000
#define BIG      3000 /* bytes of parameters */
#define SHARED   (96u << 10)

/* x = x * a + b, by one thread; the kernels differ in how they are told. */
static const char *const ptx =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry mul(.param .u64 x, .param .u32 a)\n{\n"
	".reg .u64 %p;\n.reg .u32 %v, %a;\n"
	"ld.param.u64 %p, [x];\nld.param.u32 %a, [a];\ncvta.to.global.u64 %p, %p;\n"
	"ld.global.u32 %v, [%p];\nmul.lo.u32 %v, %v, %a;\nst.global.u32 [%p], "
	"%v;\nret;\n}\n"
	".visible .entry add(.param .u64 x, .param .u32 b)\n{\n"
	".reg .u64 %p;\n.reg .u32 %v, %b;\n"
	"ld.param.u64 %p, [x];\nld.param.u32 %b, [b];\ncvta.to.global.u64 %p, %p;\n"
	"ld.global.u32 %v, [%p];\nadd.u32 %v, %v, %b;\nst.global.u32 [%p], %v;\nret;\n}\n"
	/* b is the last word of many */
	".visible .entry far(.param .u64 x, .param .align 4 .b8 w[3000])\n{\n"
	".reg .u64 %p;\n.reg .u32 %v, %b;\n"
	"ld.param.u64 %p, [x];\nld.param.u32 %b, [w+2996];\ncvta.to.global.u64 %p, %p;\n"
	"ld.global.u32 %v, [%p];\nadd.u32 %v, %v, %b;\nst.global.u32 [%p], %v;\nret;\n}\n"
	/* one block of a cluster of two */
	".visible .entry pair(.param .u64 x, .param .u32 b)\n.reqnctapercluster 2, 1, "
	"1\n{\n"
	".reg .u64 %p;\n.reg .u32 %v, %b;\n.reg .pred %q;\n"
	"mov.u32 %v, %ctaid.x;\nsetp.ne.u32 %q, %v, 0;\n@%q ret;\n"
	"ld.param.u64 %p, [x];\nld.param.u32 %b, [b];\ncvta.to.global.u64 %p, %p;\n"
	"ld.global.u32 %v, [%p];\nadd.u32 %v, %v, %b;\nst.global.u32 [%p], %v;\nret;\n}\n"
	/* by way of the end of its dynamic shared memory */
	".extern .shared .align 4 .b8 room[];\n"
	".visible .entry via(.param .u64 x, .param .u32 b)\n{\n"
	".reg .u64 %p;\n.reg .u32 %v, %b, %s, %n;\n"
	"ld.param.u64 %p, [x];\nld.param.u32 %b, [b];\ncvta.to.global.u64 %p, %p;\n"
	"mov.u32 %s, room;\nmov.u32 %n, %dynamic_smem_size;\nadd.u32 %s, %s, %n;\n"
	"st.shared.u32 [%s+-4], %b;\nld.shared.u32 %b, [%s+-4];\n"
	"ld.global.u32 %v, [%p];\nadd.u32 %v, %v, %b;\nst.global.u32 [%p], %v;\nret;\n}\n"
	/* by way of local memory, more than other kernels have */
	".visible .entry deep(.param .u64 x, .param .u32 b)\n{\n"
	".local .align 4 .b8 l[20000];\n"
	".reg .u64 %p, %l, %q;\n.reg .u32 %v, %b, %i;\n"
	"ld.param.u64 %p, [x];\nld.param.u32 %b, [b];\ncvta.to.global.u64 %p, %p;\n"
	"rem.u32 %i, %b, 5000;\nmul.wide.u32 %l, %i, 4;\n"
	"mov.u64 %q, l;\nadd.u64 %l, %l, %q;\n"
	"st.local.u32 [%l], %b;\nmembar.cta;\nld.local.u32 %b, [%l];\n"
	"ld.global.u32 %v, [%p];\nadd.u32 %v, %v, %b;\nst.global.u32 [%p], "
	"%v;\nret;\n}\n";

enum {
	MUL,
	ADD,
	FAR,
	PAIR,
	VIA,
	DEEP,
	KERNELS
};
static const char *const names[KERNELS] = {"mul", "add", "far", "pair", "via", "deep"};

struct code {
	CUmodule mod;
	CUfunction fn[KERNELS];
};

static CUcontext ctx;
static struct code code;

static void load(struct code *c)
{
	CK(cuModuleLoadData(&c->mod, ptx));
	for (int i = 0; i < KERNELS; i++)
		CK(cuModuleGetFunction(&c->fn[i], c->mod, names[i]));
	CK(cuFuncSetAttribute(c->fn[VIA], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			      SHARED));
}

/* A number on the device, and what it has to be. */
struct number {
	CUdeviceptr at;
	uint32_t is;
	unsigned seed;
};

static void number_new(struct number *x, unsigned seed)
{
	*x = (struct number){.is = seed, .seed = seed};
	CK(cuMemAlloc(&x->at, 4));
	CK(cuMemcpyHtoD(x->at, &x->is, 4));
}

static void number_check(struct number *x, const char *what)
{
	uint32_t v = ~x->is;

	CK(cuMemcpyDtoH(&v, x->at, 4));
	if (v != x->is)
		fail("%s: %u instead of %u", what, v, x->is);
}

static void number_free(struct number *x, const char *what)
{
	number_check(x, what);
	CK(cuMemFree(x->at));
}

static void step(const struct code *c, struct number *x, CUstream st)
{
	static __thread uint32_t words[BIG / 4];
	unsigned kernel = (unsigned)rand_r(&x->seed) % (KERNELS * 4);
	uint32_t v = (uint32_t)rand_r(&x->seed) | 1;
	void *params[] = {&x->at, &v};
	unsigned shared = 0;

	if (kernel >= KERNELS)
		kernel %= 2; /* most of them */
	if (kernel == FAR) {
		words[BIG / 4 - 1] = v;
		params[1] = words;
	}
	if (kernel == VIA)
		shared = v % 8 ? 1024 + v % 16 * 4 : SHARED;
	CK(cuLaunchKernel(c->fn[kernel], kernel == PAIR ? 2 : 1, 1, 1, 1, 1, 1, shared,
			  st, params, NULL));
	x->is = kernel == MUL ? x->is * v : x->is + v;
}

static void in_order(CUstream st, const char *what)
{
	struct number x;

	number_new(&x, 1);
	for (int i = 0; i < LAUNCHES; i++)
		step(&code, &x, st);
	CK(cuStreamSynchronize(st));
	number_free(&x, what);
}

/* In runs of any length, some of which fill a batch. */
static void streams(void)
{
	enum {
		N = 3
	};
	struct number x[N];
	CUstream st[N];
	unsigned seed = 5;

	for (int i = 0; i < N; i++) {
		number_new(&x[i], 10u + (unsigned)i);
		CK(cuStreamCreate(&st[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0));
	}
	for (int i = 0; i < LAUNCHES;) {
		int which = rand_r(&seed) % N, run = rand_r(&seed) % 40 + 1;

		while (run-- && i++ < LAUNCHES)
			step(&code, &x[which], st[which]);
	}
	CK(cuCtxSynchronize());
	for (int i = 0; i < N; i++) {
		number_free(&x[i], "streams");
		CK(cuStreamDestroy(st[i]));
	}
}

struct relay {
	struct number x;
	CUstream st;
	_Atomic int turn; /* odd and even: whose */
	_Atomic int failed;
};

#define TURNS 400

static void run_turns(struct relay *r, int mine)
{
	for (int turn = mine; turn < TURNS; turn += 2) {
		while (atomic_load(&r->turn) != turn)
			sched_yield();
		for (int i = 0; i < turn % 23; i++)
			step(&code, &r->x, r->st);
		atomic_store(&r->turn, turn + 1);
	}
}

static void *other_turns(void *arg)
{
	CK(cuCtxSetCurrent(ctx));
	run_turns(arg, 1);
	return NULL;
}

/* A thread that is told that launches were made makes its own after them. */
static void threads(void)
{
	struct relay r = {.turn = 0};
	pthread_t t;

	number_new(&r.x, 7);
	CK(cuStreamCreate(&r.st, CU_STREAM_NON_BLOCKING));
	REQUIRE(!pthread_create(&t, NULL, other_turns, &r));
	run_turns(&r, 0);
	pthread_join(t, NULL);
	CK(cuStreamSynchronize(r.st));
	number_free(&r.x, "threads");
	CK(cuStreamDestroy(r.st));
}

/* Events, copies, fills and other functions' attributes come between. */
static void between(void)
{
	struct number x;
	CUstream st;
	CUevent e;
	uint32_t seen[2];
	unsigned seed = 3;

	number_new(&x, 9);
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	for (int round = 0; round < 200; round++) {
		int run = rand_r(&seed) % 40;

		for (int i = 0; i < run; i++)
			step(&code, &x, st);
		switch (round % 4) {
		case 0:
			CK(cuEventRecord(e, st));
			CK(cuEventSynchronize(e));
			number_check(&x, "after an event");
			break;
		case 1:
			CK(cuMemcpyDtoHAsync(seen, x.at, 4, st));
			CK(cuStreamSynchronize(st));
			REQUIRE(seen[0] == x.is);
			break;
		case 2:
			x.is = (uint32_t)round;
			CK(cuMemsetD32Async(x.at, x.is, 1, st));
			break;
		default:
			CK(cuFuncSetAttribute(
				code.fn[VIA],
				CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				(int)SHARED + round * 64));
		}
	}
	CK(cuStreamSynchronize(st));
	number_free(&x, "between");
	CK(cuEventDestroy(e));
	CK(cuStreamDestroy(st));
}

/* Code comes and goes; that of the launches before is not there any more. Stacks grow. */
static void unloaded(void)
{
	struct number x;
	struct code c;

	number_new(&x, 11);
	for (int round = 0; round < 8; round++) {
		load(&c);
		for (int i = 0; i < 400; i++)
			step(i % 3 ? &c : &code, &x, NULL);
		CK(cuCtxSynchronize());
		CK(cuModuleUnload(c.mod));
		CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048 + 1024 * (size_t)round));
		for (int i = 0; i < 100; i++)
			step(&code, &x, NULL);
	}
	number_free(&x, "unloaded");
}

/* More than is ever launched at once, while the stream stands still. */
static void behind(void)
{
	struct number x;
	CUdeviceptr go;
	CUstream st;

	number_new(&x, 13);
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&go, 4));
	CK(cuMemsetD32(go, 0, 1));
	CK(cuStreamWaitValue32(st, go, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (int i = 0; i < 600; i++)
		step(&code, &x, st);
	REQUIRE(cuStreamQuery(st) == CUDA_ERROR_NOT_READY);
	CK(cuMemcpyHtoD(go, &(uint32_t){1}, 4));
	CK(cuStreamSynchronize(st));
	number_free(&x, "behind");
	CK(cuMemFree(go));
	CK(cuStreamDestroy(st));
}

int main(void)
{
	CUdevice dev;
	CUstream st;

	check_name = "drv_many_launches";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	load(&code);
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	in_order(st, "a stream");
	in_order(CU_STREAM_LEGACY, "the legacy stream");
	in_order(CU_STREAM_PER_THREAD, "the thread's stream");
	CK(cuStreamDestroy(st));
	streams();
	threads();
	between();
	unloaded();
	behind();
	CK(cuModuleUnload(code.mod));
	return pass();
}
