/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a call on a device, and speed of the software GPU. Usage:
 *
 *	bench_device [soft|cuda] [threads]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/device.h"

#define MIB    (1u << 20)
#define ROUNDS 5

static const char image[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .entry empty() { ret; }\n"
	/* 64 independent multiply-adds, n rounds: integer arithmetic */
	".visible .entry arith(.param .u64 p, .param .u32 n) {\n"
	" .reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .pred %p<2>;\n"
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
	" mov.u32 %r3, 1; mov.u32 %r4, 2; mov.u32 %r5, 3;\n"
	"again:\n"
	" mad.lo.s32 %r2, %r2, %r2, %r3; mad.lo.s32 %r3, %r3, %r3, %r4;\n"
	" mad.lo.s32 %r4, %r4, %r4, %r5; mad.lo.s32 %r5, %r5, %r5, %r2;\n"
	" xor.b32 %r2, %r2, %r4; add.s32 %r3, %r3, %r5; add.s32 %r4, %r4, %r2;\n"
	" and.b32 %r5, %r5, %r3;\n"
	" sub.s32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;\n"
	" add.s32 %r2, %r2, %r5; setp.eq.u32 %p1, %r2, 12345;\n"
	" @%p1 st.global.u32 [%rd1], %r2; ret; }\n"
	/* the same in f32 */
	".visible .entry farith(.param .u64 p, .param .u32 n) {\n"
	" .reg .b32 %r<3>; .reg .f32 %f<8>; .reg .b64 %rd<2>; .reg .pred %p<2>;\n"
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
	" cvt.rn.f32.u32 %f2, %r2; mov.f32 %f3, 0f3F000000; mov.f32 %f4, 0f3E800000;\n"
	" mov.f32 %f5, 0f3F400000;\n"
	"again:\n"
	" fma.rn.f32 %f2, %f2, %f3, %f4; fma.rn.f32 %f4, %f4, %f3, %f5;\n"
	" fma.rn.f32 %f5, %f5, %f3, %f2; mul.f32 %f2, %f2, %f3;\n"
	" add.f32 %f4, %f4, %f2; fma.rn.f32 %f2, %f4, %f3, %f5;\n"
	" mul.f32 %f4, %f4, %f3; add.f32 %f5, %f5, %f4;\n"
	" sub.s32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;\n"
	" setp.eq.f32 %p1, %f5, 0f42280000; @%p1 st.global.f32 [%rd1], %f5; ret; }\n"
	/* p[i] += 1 over n words, threads side by side */
	".visible .entry traffic(.param .u64 p, .param .u32 n) {\n"
	" .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<2>;\n"
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n"
	" mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	" mad.lo.s32 %r5, %r2, %r3, %r4; mov.u32 %r6, %nctaid.x;\n"
	" mul.lo.s32 %r6, %r6, %r3;\n"
	"again: mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;\n"
	" ld.global.u32 %r7, [%rd3]; add.s32 %r7, %r7, 1; st.global.u32 [%rd3], %r7;\n"
	" add.s32 %r5, %r5, %r6; setp.lt.u32 %p1, %r5, %r1; @%p1 bra again; ret; }\n";

static const struct device_ops *ops;
static struct device *dev;
static struct dev_ctx *ctx;
static struct dev_module *mod;
static struct dev_stream *stream;
static CUdeviceptr mem;
static char host_buf[64 * MIB];

#define OK(call)                                                                         \
	do {                                                                             \
		CUresult _r = (call);                                                    \
		if (_r) {                                                                \
			fprintf(stderr, "%s: error %d\n", #call, (int)_r);               \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

static struct dev_func *func(const char *name)
{
	struct dev_func *f;

	OK(ops->module.function(mod, name, &f));
	return f;
}

static void launch(struct dev_func *f, unsigned grid, unsigned block, uint32_t n)
{
	struct {
		CUdeviceptr p;
		uint32_t n;
	} args = {mem, n};
	struct dev_launch l = {.func = f,
			       .grid = {grid, 1, 1},
			       .block = {block, 1, 1},
			       .params = &args,
			       .params_size = n ? 12 : 0};

	OK(ops->func.launch(ctx, stream, &l));
}

static void sync_stream(void)
{
	OK(ops->stream.synchronize(ctx, stream));
}

/* ---- what is measured: each returns seconds for n operations ---- */

static struct dev_func *empty;

static void launch_sync(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		launch(empty, 1, 32, 0);
		sync_stream();
	}
}

static void launch_only(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		launch(empty, 1, 32, 0);
	sync_stream();
}

static void write_4(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(ops->copy.write(ctx, stream, mem, host_buf, 4));
}

static void launch_read(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		launch(empty, 1, 32, 0);
		OK(ops->copy.read(ctx, stream, host_buf, mem, 4));
	}
}

static void event_pair(unsigned n)
{
	struct dev_event *a;

	OK(ops->event.create(ctx, 0, &a));
	for (unsigned i = 0; i < n; i++) {
		OK(ops->event.record(ctx, a, stream));
		OK(ops->event.synchronize(a));
	}
	ops->event.destroy(a);
}

static void write_big(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(ops->copy.write(ctx, stream, mem, host_buf, sizeof(host_buf)));
}

static void read_big(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(ops->copy.read(ctx, stream, host_buf, mem, sizeof(host_buf)));
}

static void mem_cycle(unsigned n)
{
	CUdeviceptr at;

	OK(ops->memory.reserve(dev, 2 * MIB, 0, 0, &at));
	for (unsigned i = 0; i < n; i++) {
		struct dev_mem *c;

		OK(ops->memory.create(dev, 2 * MIB, DEV_MEMORY_DEVICE, &c));
		OK(ops->memory.map(dev, at, c));
		OK(ops->memory.set_access(dev, at, 2 * MIB,
					  CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
		OK(ops->memory.unmap(dev, at, 2 * MIB));
		ops->memory.release(dev, c);
	}
	OK(ops->memory.unreserve(dev, at, 2 * MIB));
}

#define ARITH_GRID    64
#define ARITH_BLOCK   256
#define ARITH_LOOP    2000
#define ARITH_INSTR   11 /* a round of the loop */
#define TRAFFIC_WORDS (16 * MIB)

static void arith(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		launch(func("arith"), ARITH_GRID, ARITH_BLOCK, ARITH_LOOP);
	sync_stream();
}

static void farith(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		launch(func("farith"), ARITH_GRID, ARITH_BLOCK, ARITH_LOOP);
	sync_stream();
}

static void traffic(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		launch(func("traffic"), 64, 256, TRAFFIC_WORDS);
	sync_stream();
}

static const struct bench {
	const char *name;
	void (*run)(unsigned n);
	unsigned n;
	double unit;      /* what one operation counts */
	const char *text; /* what is printed: seconds (x 1e6) or units per second */
	double scale;     /* 0: microseconds an operation */
} benches[] = {
	{"launch + synchronise, empty kernel", launch_sync, 5000, 1, "us", 0},
	{"launch, back to back", launch_only, 5000, 1, "us", 0},
	{"launch + read 4 bytes", launch_read, 5000, 1, "us", 0},
	{"write 4 bytes", write_4, 20000, 1, "us", 0},
	{"event record + synchronise", event_pair, 20000, 1, "us", 0},
	{"create, map, unmap, release 2 MiB", mem_cycle, 2000, 1, "us", 0},
	{"write 64 MiB", write_big, 10, sizeof(host_buf), "GB/s", 1e9},
	{"read 64 MiB", read_big, 10, sizeof(host_buf), "GB/s", 1e9},
	{"integer arithmetic", arith, 4,
	 (double)ARITH_GRID *ARITH_BLOCK *ARITH_LOOP *ARITH_INSTR, "M instr/s", 1e6},
	{"f32 arithmetic", farith, 4,
	 (double)ARITH_GRID *ARITH_BLOCK *ARITH_LOOP *ARITH_INSTR, "M instr/s", 1e6},
	{"global loads and stores", traffic, 2, 2.0 * TRAFFIC_WORDS, "M access/s", 1e6},
};

static void measure(const struct bench *b)
{
	double v[ROUNDS], mean = 0, var = 0;

	b->run(b->n / 4 + 1);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_now_ns();
		double s;

		b->run(b->n);
		s = (double)(clock_now_ns() - start) / 1e9;
		v[i] = b->scale ? b->n * b->unit / s / b->scale : s * 1e6 / b->n;
		mean += v[i] / ROUNDS;
	}
	for (int i = 0; i < ROUNDS; i++)
		var += (v[i] - mean) * (v[i] - mean) / (ROUNDS - 1);
	printf("| %-36s | %10.2f | %8.2f | %-10s |\n", b->name, mean, sqrt(var), b->text);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct device_config cfg = {.threads = argc > 2 ? (unsigned)atoi(argv[2]) : 0};
	struct dev_mem *piece;
	int r;

	ops = device_ops_by_name(argc > 1 ? argv[1] : "soft");
	if (!ops) {
		fprintf(stderr, "usage: %s [soft|cuda] [threads]\n", argv[0]);
		return 2;
	}
	r = ops->open(&cfg, &dev);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", ops->name, strerror(-r));
		return 1;
	}
	OK(ops->ctx.create(dev, 0, &ctx));
	OK(ops->module.load(ctx, image, sizeof(image), NULL, &mod));
	OK(ops->stream.create(ctx, DEV_STREAM_NON_BLOCKING, 0, &stream));
	OK(ops->memory.reserve(dev, sizeof(host_buf), 0, 0, &mem));
	OK(ops->memory.create(dev, sizeof(host_buf), DEV_MEMORY_DEVICE, &piece));
	OK(ops->memory.map(dev, mem, piece));
	OK(ops->memory.set_access(dev, mem, sizeof(host_buf),
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	memset(host_buf, 1, sizeof(host_buf));
	empty = func("empty");
	printf("| %-36s | %10s | %8s | %-10s |\n", ops->name, "mean", "sd", "unit");
	printf("|%.38s|%.12s|%.10s|%.12s|\n", "--------------------------------------",
	       "-----------:", "---------:", "------------");
	for (size_t i = 0; i < ARRAY_SIZE(benches); i++)
		measure(&benches[i]);
	ops->ctx.destroy(ctx);
	ops->close(dev);
	return 0;
}
