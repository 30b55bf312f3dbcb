/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A synchronous copy of few pageable bytes returns when they have been taken. So the
 * program may write there again at once; what was in the stream before is over; a kernel
 * that comes next finds the bytes; a wrong address is said at once.
 */
#include <pthread.h>

#include "driver.h"

#define ROUNDS  300
#define THREADS 8
#define BYTES   (256u << 10)

/* w[n] = r[n] + 1 for n threads. */
static const char *const ptx =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry next(.param .u64 r, .param .u64 w)\n{\n"
	".reg .u64 %a, %b, %o;\n.reg .u32 %x, %t, %c, %n;\n"
	"ld.param.u64 %a, [r];\nld.param.u64 %b, [w];\n"
	"cvta.to.global.u64 %a, %a;\ncvta.to.global.u64 %b, %b;\n"
	"mov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\nmov.u32 %n, %ntid.x;\n"
	"mad.lo.u32 %t, %c, %n, %t;\n"
	"mul.wide.u32 %o, %t, 4;\nadd.u64 %a, %a, %o;\nadd.u64 %b, %b, %o;\n"
	"ld.global.u32 %x, [%a];\nadd.u32 %x, %x, 1;\nst.global.u32 [%b], %x;\n"
	"ret;\n}\n"
	/* Waits for the host. */
	".visible .entry hold(.param .u64 go)\n{\n"
	".reg .u64 %a;\n.reg .u32 %x;\n.reg .pred %p;\n"
	"ld.param.u64 %a, [go];\n"
	"again:\nld.volatile.global.u32 %x, [%a];\nsetp.eq.u32 %p, %x, 0;\n"
	"@%p bra again;\nret;\n}\n";

static CUcontext ctx;
static CUfunction next, hold;
static const size_t sizes[] = {4, 1000, 4096, 65536, BYTES};

static void fill(uint32_t *p, size_t size, uint32_t value)
{
	for (size_t i = 0; i < size / 4; i++)
		p[i] = value + (uint32_t)i;
}

static void compare(const uint32_t *p, size_t size, uint32_t value, const char *what)
{
	for (size_t i = 0; i < size / 4; i++) {
		if (p[i] != value + i)
			fail("%s of %zu: word %zu is %u instead of %u", what, size, i,
			     p[i], (unsigned)(value + i));
	}
}

static void run_next(CUdeviceptr from, CUdeviceptr to, size_t size, CUstream st)
{
	void *params[] = {&from, &to};
	unsigned n = (unsigned)(size / 4), block = n < 64 ? n : 64;

	/* The rest of an odd size stays as it was. */
	CK(cuLaunchKernel(next, n / block, 1, 1, block, 1, 1, 0, st, params, NULL));
}

/* The source changes as soon as the copy returns. */
static void in_turn(size_t size, CUstream st)
{
	size_t whole = size >= 256 ? size / 256 * 256 : size;
	uint32_t *host = malloc(size), *back = malloc(size);
	CUdeviceptr from, to;

	REQUIRE(host && back);
	CK(cuMemAlloc(&from, size));
	CK(cuMemAlloc(&to, size));
	for (uint32_t k = 0; k < ROUNDS; k++) {
		fill(host, size, k * 1000);
		CK(cuMemcpyHtoD(from, host, size));
		fill(host, size, 0xdead);
		if (k % 3 == 0) {
			run_next(from, to, size, st);
			CK(cuStreamSynchronize(st));
			CK(cuMemcpyDtoH(back, to, whole));
			compare(back, whole, k * 1000 + 1, "kernel");
		} else if (k % 3 == 1) {
			CK(cuMemcpyDtoH(back, from, size));
			compare(back, size, k * 1000, "copy");
		}
	}
	CK(cuMemFree(from));
	CK(cuMemFree(to));
	free(host);
	free(back);
}

static void *in_thread(void *arg)
{
	CUstream st;

	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&st, CU_STREAM_DEFAULT));
	in_turn(*(const size_t *)arg, st);
	CK(cuStreamDestroy(st));
	return NULL;
}

/* Threads come and go: what one has used another uses next. */
static void threads(unsigned at_a_time)
{
	for (unsigned i = 0; i < THREADS / at_a_time; i++) {
		pthread_t t[THREADS];

		for (unsigned k = 0; k < at_a_time; k++)
			REQUIRE(!pthread_create(&t[k], NULL, in_thread,
						(void *)&sizes[(i + k) % 5]));
		for (unsigned k = 0; k < at_a_time; k++)
			REQUIRE(!pthread_join(t[k], NULL));
	}
}

/* A small copy comes behind the legacy stream's work: a kernel that writes where the host
 * reads. */
static void behind(void)
{
	uint32_t *shared, word = 7;
	CUdeviceptr dev, seen;

	CK(cuMemHostAlloc((void **)&shared, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	CK(cuMemHostGetDevicePointer(&seen, shared, 0));
	CK(cuMemAlloc(&dev, BYTES));
	for (uint32_t k = 0; k < ROUNDS; k++) {
		CK(cuMemsetD32Async(dev, k, BYTES / 4, NULL));
		run_next(dev, seen, BYTES, NULL);
		CK(cuMemcpyHtoD(dev, &word, sizeof(word)));
		REQUIRE(shared[0] == k + 1 && shared[BYTES / 4 - 1] == k + 1);
	}
	CK(cuMemFree(dev));
	CK(cuMemFreeHost(shared));
}

static void wrong(void)
{
	CUdeviceptr dev;
	char byte = 1;

	CK(cuMemAlloc(&dev, 4096));
	CK(cuMemFree(dev));
	CK(cuMemAlloc(&dev, 4096));
	EXPECT(cuMemcpyHtoD(dev + (1ull << 38), &byte, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpyHtoD(8, &byte, 1), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemcpyHtoD(dev, &byte, 1));
	CK(cuMemFree(dev));
}

static unsigned shared_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], perms[8];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%*s %7s", perms) == 1 && perms[3] == 's';
	if (f)
		fclose(f);
	return n;
}

static CUstream passing;

static void *destroy_it(void *arg)
{
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamDestroy(passing));
	return NULL;
}

/* Copies in turn in two contexts, or in streams that others destroy, keep nothing. */
static void one_after_the_other(void)
{
	uint32_t bytes[1024];
	CUdeviceptr p[2];
	CUcontext both[2] = {ctx, NULL};
	unsigned before = 0;
	pthread_t t;

	fill(bytes, sizeof(bytes), 3);
	CK(cuCtxCreate(&both[1], NULL, 0, 0));
	for (unsigned i = 0; i < 2; i++) {
		CK(cuCtxSetCurrent(both[i]));
		CK(cuMemAlloc(&p[i], sizeof(bytes)));
	}
	for (unsigned i = 0; i < 200; i++) {
		CK(cuCtxSetCurrent(both[i % 2]));
		CK(cuMemcpyHtoD(p[i % 2], bytes, sizeof(bytes)));
		if (i == 20)
			before = shared_mappings();
	}
	CK(cuCtxDestroy(both[1]));
	CK(cuCtxSetCurrent(ctx));
	for (unsigned i = 0; i < 40; i++) {
		CK(cuStreamCreate(&passing, CU_STREAM_NON_BLOCKING));
		CK(cuMemcpyHtoDAsync(p[0], bytes, sizeof(bytes), passing));
		REQUIRE(!pthread_create(&t, NULL, destroy_it, NULL));
		pthread_join(t, NULL);
		CK(cuMemcpyHtoD(p[0], bytes, sizeof(bytes)));
	}
	memset(bytes, 0, sizeof(bytes));
	CK(cuMemcpyDtoH(bytes, p[0], sizeof(bytes)));
	compare(bytes, sizeof(bytes), 3, "after many copies");
	CK(cuMemFree(p[0]));
	REQUIRE(shared_mappings() <= before + 4);
}

/* A copy does not wait for the work of a stream that another thread has ended. */
static void not_waited_for(void)
{
	static uint32_t bytes[1024];
	volatile uint32_t *go;
	CUdeviceptr p, dev_go;
	CUstream st;
	void *params[] = {&dev_go};
	pthread_t t;

	CK(cuMemHostAlloc((void **)&go, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	CK(cuMemHostGetDevicePointer(&dev_go, (void *)go, 0));
	CK(cuMemAlloc(&p, 2 * sizeof(bytes)));
	CK(cuStreamCreate(&passing, CU_STREAM_NON_BLOCKING));
	CK(cuStreamCreate(&st, CU_STREAM_NON_BLOCKING));
	*go = 0;
	fill(bytes, sizeof(bytes), 5);
	CK(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, passing, params, NULL));
	CK(cuMemcpyHtoDAsync(p, bytes, sizeof(bytes), passing));
	REQUIRE(!pthread_create(&t, NULL, destroy_it, NULL));
	pthread_join(t, NULL);
	CK(cuMemcpyHtoDAsync(p + sizeof(bytes), bytes, sizeof(bytes), st));
	*go = 1;
	CK(cuCtxSynchronize());
	for (unsigned i = 0; i < 2; i++) {
		CK(cuMemcpyDtoH(bytes, p + i * sizeof(bytes), sizeof(bytes)));
		compare(bytes, sizeof(bytes), 5, "behind a kernel");
	}
	CK(cuStreamDestroy(st));
	CK(cuMemFree(p));
	CK(cuMemFreeHost((void *)go));
}

/* Last: what was in hand belongs to a primary context that is no more. */
static void released(void)
{
	uint32_t word = 1;
	CUcontext other;
	CUdeviceptr p;

	CK(cuMemAlloc(&p, 4096));
	CK(cuMemcpyHtoD(p, &word, sizeof(word)));
	CK(cuCtxCreate(&other, NULL, 0, 0));
	CK(cuDevicePrimaryCtxRelease(0));
	CK(cuMemAlloc(&p, 4096));
	CK(cuMemcpyHtoD(p, &word, sizeof(word)));
	CK(cuCtxSynchronize());
	CK(cuCtxDestroy(other));
}

int main(void)
{
	CUmodule mod;
	CUstream st;

	check_name = "drv_small_copies";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuModuleLoadData(&mod, ptx));
	CK(cuModuleGetFunction(&next, mod, "next"));
	CK(cuModuleGetFunction(&hold, mod, "hold"));
	CK(cuStreamCreate(&st, CU_STREAM_DEFAULT));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		in_turn(sizes[i], st);
	threads(1);
	threads(4);
	behind();
	one_after_the_other();
	not_waited_for();
	wrong();
	released();
	return pass();
}
