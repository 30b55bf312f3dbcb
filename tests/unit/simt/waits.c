/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a block says that it waits: never while one of its warps can run, for whoever
 * drives it may sleep then; and soon when all of them wait for another block.
 */
#include <criterion/criterion.h>

#include "../../ptx/gpu.h"
#include "base/macros.h"

#define HEAD                                                                             \
	".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 8 .b64 "          \
	"bars[2];\n"                                                                     \
	".visible .entry k(.param .u64 p, .param .u32 n) {\n"                            \
	".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f64 %d<4>;\n"        \
	"ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"          \
	"shr.u32 %r3, %r2, 5; mov.u32 %r4, 0; mov.u32 %r5, bars;\n"
#define AGAIN "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r1; @%p1 bra again;\n"

/* Each kernel goes round so often. */
#define ROUNDS 50

struct args {
	void *p;
	uint32_t n;
};

/* Every warp does a little between two barriers. */
static const char tiles[] =
	HEAD "again: mad.lo.u32 %r6, %r2, %r4, 7; bar.sync 0; xor.b32 %r6, %r6, %r2;\n"
	     "bar.sync 0;\n" AGAIN "ret; }\n";

/* Nothing between them. */
static const char barriers[] =
	HEAD "again: bar.sync 0; bar.sync 0; bar.sync 1; bar.sync 0;\n" AGAIN "ret; }\n";

/* Two halves of the block pass the turn to each other, by named barriers. */
static const char named[] =
	HEAD "setp.eq.u32 %p2, %r3, 0; @%p2 bra again;\n"
	     "other: bar.sync 1, 64; bar.arrive 2, 64; add.u32 %r4, %r4, 1;\n"
	     "setp.lt.u32 %p1, %r4, %r1; @%p1 bra other; ret;\n"
	     "again: bar.arrive 1, 64; bar.sync 2, 64;\n" AGAIN "ret; }\n";

/* Two halves that pass the turn by mbarriers, which are polled. */
static const char mbarriers[] = HEAD
	"setp.ne.u32 %p2, %r2, 0; @%p2 bra ready;\n"
	"mbarrier.init.shared.b64 [%r5], 32; mbarrier.init.shared.b64 [%r5+8], 32;\n"
	"ready: bar.sync 0; setp.eq.u32 %p2, %r3, 0; @%p2 bra again;\n"
	"other: and.b32 %r6, %r4, 1;\n"
	"poll1: mbarrier.try_wait.parity.shared.b64 %p3, [%r5], %r6; @!%p3 bra poll1;\n"
	"mbarrier.arrive.shared.b64 _, [%r5+8]; add.u32 %r4, %r4, 1;\n"
	"setp.lt.u32 %p1, %r4, %r1; @%p1 bra other; ret;\n"
	"again: and.b32 %r6, %r4, 1; mbarrier.arrive.shared.b64 _, [%r5];\n"
	"poll2: mbarrier.try_wait.parity.shared.b64 %p3, [%r5+8], %r6; @!%p3 bra "
	"poll2;\n" AGAIN "ret; }\n";

/* All threads add to one number by compare and swap. */
static const char swaps[] = HEAD
	"again: ld.volatile.global.u64 %rd2, [%rd1];\n"
	"retry: add.u64 %rd3, %rd2, 1; atom.global.cas.b64 %rd4, [%rd1], %rd2, %rd3;\n"
	"setp.ne.u64 %p2, %rd4, %rd2; mov.u64 %rd2, %rd4; @%p2 bra retry;\n" AGAIN
	"ret; }\n";

/* Work, then a nap, as loops with a back-off have it when they need not wait. */
static const char naps[] =
	HEAD "again: mov.u32 %r6, 0;\n"
	     "work: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 100; @%p2 bra work;\n"
	     "nanosleep.u32 20;\n" AGAIN "ret; }\n";

/* Two warps pass the turn to each other by words that they read until they change. */
static const char words[] =
	HEAD "and.b32 %r3, %r3, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra ready;\n"
	     "st.volatile.shared.u32 [%r5], 0;\n"
	     "ready: bar.sync 0;\n"
	     "again: shl.b32 %r6, %r4, 1; add.u32 %r6, %r6, %r3;\n"
	     "poll: ld.acquire.cta.shared.u32 %r7, [%r5]; setp.ne.u32 %p3, %r7, %r6;\n"
	     "@%p3 bra poll; bar.warp.sync -1; add.u32 %r6, %r6, 1;\n"
	     "st.release.cta.shared.u32 [%r5], %r6;\n" AGAIN "ret; }\n";

/* Looks at a flag that nobody sets, and works. */
static const char flag[] =
	HEAD "again: ld.volatile.global.u32 %r6, [%rd1+64]; setp.ne.u32 %p2, %r6, 0;\n"
	     "@%p2 bra end;\n" AGAIN "end: ret; }\n";

static const char *const gets_on[] = {tiles, barriers, named, mbarriers,
				      swaps, naps,     words, flag};

static bool two_warps(const char *ptx)
{
	return ptx == named || ptx == mbarriers || ptx == words;
}

Test(simt_waits, never_while_a_warp_can_run, .timeout = 60)
{
	static const uint64_t slices[] = {1, 7, 64, 1000, 8192, UINT64_MAX};
	struct gpu g;

	cr_assert(gpu_init(&g) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(gets_on); i++) {
		cr_assert(gpu_load(&g, gets_on[i]) == 0, "%zu: %s", i, g.log);
		for (size_t k = 0; k < ARRAY_SIZE(slices); k++) {
			uint64_t *p = gpu_alloc(&g, 128);
			unsigned warps = two_warps(gets_on[i]) ? 2 : 8;

			g.slice = slices[k];
			g.waits = 0;
			cr_assert(gpu_launch(&g, "k", 2, 32 * warps,
					     &(struct args){p, ROUNDS}) == SIMT_DONE);
			cr_expect(g.waits == 0, "kernel %zu, slices of %llu: %llu waits",
				  i, (unsigned long long)slices[k],
				  (unsigned long long)g.waits);
			if (gets_on[i] == swaps)
				cr_expect(*p == 2ull * 256 * ROUNDS);
		}
	}
	gpu_fini(&g);
}

/* A thread waits for somebody else, with the rest of the block at a barrier. */
static const char polls_swap[] =
	HEAD "setp.ne.u32 %p2, %r2, 0; @%p2 bra sync;\n"
	     "again: atom.global.cas.b64 %rd2, [%rd1], 1, 0; setp.ne.u64 %p1, %rd2, 1;\n"
	     "@%p1 bra again;\n"
	     "sync: bar.sync 0; ret; }\n";

static const char polls_mbarrier[] = HEAD
	"setp.ne.u32 %p2, %r2, 0; @%p2 bra sync; mbarrier.init.shared.b64 [%r5], 2;\n"
	"sync: bar.sync 0; ld.global.u64 %rd2, [%rd1]; setp.eq.u64 %p2, %rd2, 1;\n"
	"@%p2 bra end;\n"
	"again: mbarrier.try_wait.parity.shared.b64 %p3, [%r5], 0; @!%p3 bra again;\n"
	"end: ret; }\n";

static const char sleeps[] =
	HEAD "again: ld.volatile.global.u64 %rd2, [%rd1]; setp.eq.u64 %p1, %rd2, 1;\n"
	     "@%p1 bra end; nanosleep.u32 20; bra again;\n"
	     "end: ret; }\n";

static const char polls_word[] =
	HEAD "setp.ne.u32 %p2, %r2, 0; @%p2 bra sync;\n"
	     "again: ld.volatile.global.u64 %rd2, [%rd1]; setp.eq.u64 %p1, %rd2, 0;\n"
	     "@%p1 bra again;\n"
	     "sync: bar.sync 0; ret; }\n";

static const char polls_exchange[] =
	HEAD "mov.u64 %rd3, 0;\n"
	     "again: atom.global.exch.b64 %rd2, [%rd1], %rd3; setp.eq.u64 %p1, %rd2, 0;\n"
	     "@%p1 bra again; ret; }\n";

static const char *const stuck[] = {polls_swap, polls_mbarrier, sleeps, polls_word,
				    polls_exchange};

Test(simt_waits, soon_when_all_wait_for_another, .timeout = 60)
{
	struct gpu g;

	cr_assert(gpu_init(&g) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(stuck); i++) {
		bool stop = false;
		struct simt_launch l;
		struct simt_stats before, after;
		struct args a;

		cr_assert(gpu_load(&g, stuck[i]) == 0, "%zu: %s", i, g.log);
		a = (struct args){gpu_alloc(&g, 8), 0};
		l = (struct simt_launch){
			.func = simt_program_find(g.prog, "k"),
			.mem = &g.mem,
			.grid = {1, 1, 1},
			.block = {128, 1, 1},
			.params = &a,
			.stop = &stop,
		};
		cr_assert(simt_launch_prepare(&l) == 0);
		cr_assert(simt_cta_start(g.cta, &l, (uint32_t[3]){0}, 0) == 0);
		for (int k = 0; k < 2; k++) /* the way there */
			cr_expect(simt_cta_run(g.cta, 8192) != SIMT_DONE);
		simt_cta_stats(g.cta, &before);
		for (int k = 0; k < 10; k++)
			cr_expect(simt_cta_run(g.cta, 8192) == SIMT_WAIT, "kernel %zu",
				  i);
		simt_cta_stats(g.cta, &after);
		cr_expect(after.warp_instr - before.warp_instr < 10 * 4 * 32 * 4);
		stop = true;
		cr_expect(simt_cta_run(g.cta, 8192) == SIMT_FAULT);
	}
	gpu_fini(&g);
}
