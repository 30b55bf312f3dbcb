/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the PTX executor on one core, in thread-instructions per second: loops of
 * arithmetic by type, of memory traffic, and of what threads do with one another.
 * "simt [seconds]".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "../ptx/gpu.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

/* A loop of %r1 rounds around body, which is repeated eight times. */
#define LOOP(name, regs, before, body, after)                                            \
	HEAD ".visible .entry " name "(.param .u64 p, .param .u32 n) {\n"                \
	     ".reg .pred %p1; .reg .b32 %r<16>; .reg .b64 %rd<16>;\n"                    \
	     ".reg .f32 %f<16>; .reg .f64 %d<16>; .reg .b16 %h<16>;\n" regs              \
	     "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n"                          \
	     "mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;\n"       \
	     "mad.lo.u32 %r5, %r3, %r4, %r2; mul.wide.u32 %rd2, %r5, 8;\n"               \
	     "add.u64 %rd3, %rd1, %rd2;\n" before                                        \
	     "L: \n" body body body body body body body body                             \
	     "add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 0;\n"                          \
	     "@%p1 bra L;\n" after "ret; }\n"

struct bench {
	const char *name;
	const char *ptx;
	uint32_t rounds;
};

static const struct bench benches[] = {
	{"s32 mad",
	 LOOP("k", "", "mov.u32 %r6, %r5; mov.u32 %r7, 7;",
	      "mad.lo.s32 %r6, %r6, %r7, %r5; xor.b32 %r7, %r7, %r6;\n"
	      "shr.u32 %r8, %r6, 3; add.s32 %r6, %r6, %r8;\n",
	      "st.global.u32 [%rd3], %r6;"),
	 2000},
	{"s64 add",
	 LOOP("k", "", "mov.u64 %rd6, %rd3; mov.u64 %rd7, 7;",
	      "add.s64 %rd6, %rd6, %rd7; xor.b64 %rd7, %rd7, %rd6;\n"
	      "shr.u64 %rd8, %rd6, 3; sub.s64 %rd6, %rd6, %rd8;\n",
	      "st.global.u64 [%rd3], %rd6;"),
	 2000},
	{"f32 fma",
	 LOOP("k", "",
	      "cvt.rn.f32.u32 %f1, %r5; mov.f32 %f2, 0f3F7FF000; mov.f32 %f3, %f1;",
	      "fma.rn.f32 %f1, %f1, %f2, %f3; mul.f32 %f3, %f3, %f2;\n"
	      "add.f32 %f1, %f1, %f3; fma.rn.f32 %f3, %f1, %f2, %f2;\n",
	      "st.global.f32 [%rd3], %f1;"),
	 2000},
	{"f64 fma",
	 LOOP("k", "",
	      "cvt.rn.f64.u32 %d1, %r5; mov.f64 %d2, 0d3FEFFFFF00000000; mov.f64 %d3, "
	      "%d1;",
	      "fma.rn.f64 %d1, %d1, %d2, %d3; mul.f64 %d3, %d3, %d2;\n"
	      "add.f64 %d1, %d1, %d3; fma.rn.f64 %d3, %d1, %d2, %d2;\n",
	      "st.global.f64 [%rd3], %d1;"),
	 2000},
	{"f32 branchy",
	 LOOP("k", ".reg .pred %q;", "mov.u32 %r6, %r5;",
	      "and.b32 %r8, %r6, 1; setp.eq.u32 %q, %r8, 0;\n"
	      "@%q add.u32 %r6, %r6, 3; @!%q mul.lo.u32 %r6, %r6, 5;\n",
	      "st.global.u32 [%rd3], %r6;"),
	 2000},
	{"global u32 rw",
	 LOOP("k", "", "",
	      "ld.global.u32 %r6, [%rd3]; add.u32 %r6, %r6, 1;\n"
	      "st.global.u32 [%rd3], %r6;\n",
	      ""),
	 2000},
	{"global f64 rw",
	 LOOP("k", "", "",
	      "ld.global.f64 %d1, [%rd3]; add.f64 %d1, %d1, %d1;\n"
	      "st.global.f64 [%rd3], %d1;\n",
	      ""),
	 2000},
	{"global v4 f32 rw",
	 LOOP("k", "", "add.u64 %rd3, %rd3, %rd2;",
	      "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3]; add.f32 %f1, %f1, %f2;\n"
	      "st.global.v4.f32 [%rd3], {%f1, %f2, %f3, %f4};\n",
	      ""),
	 2000},
	{"global v2 u32 rw",
	 LOOP("k", "", "",
	      "ld.global.v2.u32 {%r6, %r7}, [%rd3]; add.u32 %r6, %r6, %r7;\n"
	      "st.global.v2.u32 [%rd3], {%r6, %r7};\n",
	      ""),
	 2000},
	{"global gather",
	 LOOP("k", "", "and.b32 %r7, %r5, 1023; mov.u32 %r6, %r7;",
	      "mad.lo.u32 %r6, %r6, 1664525, 1013904223; and.b32 %r8, %r6, 4095;\n"
	      "mul.wide.u32 %rd4, %r8, 8; add.u64 %rd5, %rd1, %rd4;\n"
	      "ld.global.u32 %r9, [%rd5]; xor.b32 %r6, %r6, %r9;\n",
	      "st.global.u32 [%rd3], %r6;"),
	 1000},
	{"shared u32 rw",
	 LOOP("k", ".shared .b32 s[1024];",
	      "shl.b32 %r7, %r2, 2; mov.u32 %r8, s; add.u32 %r7, %r7, %r8;",
	      "ld.shared.u32 %r6, [%r7]; add.u32 %r6, %r6, 1;\n"
	      "st.shared.u32 [%r7], %r6;\n",
	      ""),
	 2000},
	{"global atomic", LOOP("k", "", "", "atom.global.add.u32 %r6, [%rd3], 1;\n", ""),
	 500},
	{"shared atomic",
	 LOOP("k", ".shared .b32 s[1024];",
	      "and.b32 %r7, %r2, 63; shl.b32 %r7, %r7, 2; mov.u32 %r8, s;\n"
	      "add.u32 %r7, %r7, %r8;",
	      "atom.shared.add.u32 %r6, [%r7], 1;\n", ""),
	 500},
	{"global cas loop",
	 LOOP("k", ".reg .pred %q;", "and.b64 %rd4, %rd3, -256;",
	      "{ again: ld.volatile.global.u32 %r6, [%rd4]; add.u32 %r7, %r6, 1;\n"
	      "atom.global.cas.b32 %r8, [%rd4], %r6, %r7; setp.ne.u32 %q, %r8, %r6;\n"
	      "@%q bra again; }\n",
	      ""),
	 10},
	{"barrier", LOOP("k", "", "", "bar.sync 0;\n", ""), 1000},
	{"tile in shared",
	 LOOP("k", ".shared .f32 s[1024];",
	      "shl.b32 %r7, %r2, 2; mov.u32 %r8, s; add.u32 %r7, %r7, %r8;\n"
	      "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f00000000;",
	      "st.shared.f32 [%r7], %f1; bar.sync 0;\n"
	      "ld.shared.f32 %f3, [%r8]; fma.rn.f32 %f2, %f3, %f1, %f2;\n"
	      "ld.shared.f32 %f3, [%r8+4]; fma.rn.f32 %f2, %f3, %f1, %f2;\n"
	      "ld.shared.f32 %f3, [%r8+8]; fma.rn.f32 %f2, %f3, %f1, %f2;\n"
	      "ld.shared.f32 %f3, [%r8+12]; fma.rn.f32 %f2, %f3, %f1, %f2;\n"
	      "bar.sync 0;\n",
	      "st.global.f32 [%rd3], %f2;"),
	 500},
	{"shuffle",
	 LOOP("k", "", "mov.u32 %r6, %r2;",
	      "shfl.sync.bfly.b32 %r7, %r6, 4, 31, -1; add.u32 %r6, %r6, %r7;\n",
	      "st.global.u32 [%rd3], %r6;"),
	 1000},
	{"vote",
	 LOOP("k", ".reg .pred %q;", "mov.u32 %r6, %r2;",
	      "and.b32 %r7, %r6, 1; setp.eq.u32 %q, %r7, 0;\n"
	      "vote.sync.ballot.b32 %r8, %q, -1; add.u32 %r6, %r6, %r8;\n",
	      "st.global.u32 [%rd3], %r6;"),
	 1000},
	{"if and else",
	 LOOP("k", ".reg .pred %q;", "mov.u32 %r6, %r5;",
	      "{ and.b32 %r8, %r6, 1; setp.eq.u32 %q, %r8, 0; @%q bra even;\n"
	      "mad.lo.u32 %r6, %r6, 3, 1; bra both; even: shr.u32 %r6, %r6, 1;\n"
	      "both: add.u32 %r6, %r6, %r2; }\n",
	      "st.global.u32 [%rd3], %r6;"),
	 500},
	{"loops of 1 to 32",
	 LOOP("k", ".reg .pred %q;", "and.b32 %r7, %r2, 31;",
	      "{ mov.u32 %r6, %r7;\n"
	      "again: mad.lo.u32 %r8, %r8, %r7, %r6; add.s32 %r6, %r6, -1;\n"
	      "setp.ge.s32 %q, %r6, 0; @%q bra again; }\n",
	      "st.global.u32 [%rd3], %r8;"),
	 50},
};

/* Time that the processor spent here: others may run on the machine. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void run(struct gpu *g, const struct bench *b, double seconds)
{
	struct {
		void *p;
		uint32_t n;
	} params = {NULL, b->rounds};
	uint64_t start, ns, instr = 0;
	int r;

	gpu_reset(g);
	r = gpu_load(g, b->ptx);
	if (r < 0) {
		printf("%-16s does not load: %s\n", b->name, g->log);
		exit(1);
	}
	params.p = gpu_alloc(g, 64 << 10);
	start = cpu_ns();
	do {
		if (gpu_launch(g, "k", 4, 256, &params) != SIMT_DONE) {
			printf("%-16s fault: %s\n", b->name,
			       simt_fault_name(g->fault.code));
			exit(1);
		}
		instr += g->stats.thread_instr;
		ns = cpu_ns() - start;
	} while ((double)ns < seconds * 1e9);
	printf("%-16s %8.0f million thread-instructions/s\n", b->name,
	       (double)instr / (double)ns * 1e3);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;
	struct gpu g;

	if (gpu_init(&g) < 0)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(benches); i++)
		run(&g, &benches[i], seconds);
	gpu_fini(&g);
	return 0;
}
