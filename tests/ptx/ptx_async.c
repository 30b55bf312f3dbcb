/* SPDX-License-Identifier: Apache-2.0 */
/* mbarriers and bulk copies. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/macros.h"
#include "gpu.h"

#define HEAD                                                                             \
	".version 8.6\n.target sm_90\n.address_size 64\n"                                \
	".visible .entry k(.param .u64 in, .param .u64 out) {\n"                         \
	".reg .b64 %i, %o, %x, %s<4>; .reg .b32 %t, %m, %d, %r<8>; .reg .pred %p, %q;\n" \
	".shared .align 16 .b8 buf[1024]; .shared .align 8 .b64 bar;\n"                  \
	"ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;\n"           \
	"mov.u32 %m, bar; mov.u32 %d, buf; setp.eq.u32 %q, %t, 0;\n"

/* Device memory to shared, a barrier that counts the bytes, and back. */
static const char bulk_text[] =
	HEAD "@!%q bra W;\n"
	     "mbarrier.init.shared.b64 [%m], 1; fence.mbarrier_init.release.cluster;\n"
	     "mbarrier.arrive.expect_tx.shared.b64 _, [%m], 1024;\n"
	     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d], "
	     "[%i], 512, [%m];\n"
	     "mbarrier.test_wait.parity.shared.b64 %p, [%m], 0; selp.u32 %r1, 1, 0, %p;\n"
	     "st.global.u32 [%o+1024], %r1; add.u32 %r2, %d, 512;\n"
	     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
	     "[%i+512], 512, [%m];\n"
	     "W: bar.sync 0;\n"
	     "L: mbarrier.try_wait.parity.shared.b64 %p, [%m], 0; @!%p bra L;\n"
	     "shl.b32 %r3, %t, 2; add.u32 %r3, %r3, %d; ld.shared.u32 %r4, [%r3];\n"
	     "add.u32 %r4, %r4, 1; st.shared.u32 [%r3], %r4; bar.sync 0;\n"
	     "fence.proxy.async; @!%q ret;\n"
	     "cp.async.bulk.global.shared::cta.bulk_group [%o], [%d], 1024;\n"
	     "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }\n";

static struct gpu g;

static void fini(void)
{
	gpu_fini(&g);
}

static void init(void)
{
	cr_assert(gpu_init(&g) == 0);
}

TestSuite(ptx_async, .init = init, .fini = fini, .timeout = 20);

Test(ptx_async, bulk_copies)
{
	uint32_t *in, *out;

	cr_assert(gpu_load(&g, bulk_text) == 0, "%s", g.log);
	in = gpu_alloc(&g, 1024);
	out = gpu_alloc(&g, 2048);
	for (unsigned i = 0; i < 256; i++)
		in[i] = i * i;
	cr_assert(gpu_launch(&g, "k", 1, 256, &(void *[]){in, out}) == SIMT_DONE,
		  "%s line %u", simt_fault_name(g.fault.code), g.fault.line);
	for (unsigned i = 0; i < 256; i++)
		cr_expect(out[i] == i * i + 1);
	cr_expect(out[256] == 0); /* half of the bytes are not enough */
	/* a source that does not exist */
	cr_assert(gpu_launch(&g, "k", 1, 256, &(void *[]){in + 65536, out}) ==
		  SIMT_FAULT);
	cr_expect(g.fault.code == SIMT_FAULT_ADDRESS);
	/* one that is not aligned to 16 bytes */
	cr_assert(gpu_launch(&g, "k", 1, 256, &(void *[]){in + 1, out}) == SIMT_FAULT);
	cr_expect(g.fault.code == SIMT_FAULT_MISALIGNED);
}

/* One thread counts through phases; each step stores what a test says. */
#define STORE(n)  "selp.u32 %r1, 1, 0, %p; st.global.u32 [%o+" #n "], %r1;\n"
#define PARITY(v) "mbarrier.test_wait.parity.shared.b64 %p, [%m], " #v ";\n"
static const char count_text[] = HEAD "mbarrier.init.shared.b64 [%m], 3;\n" PARITY(1)
	STORE(0) /* the phase before the first is over */
	PARITY(0) STORE(
		4) "mbarrier.arrive.shared.b64 %s0, [%m];\n"
		   "mbarrier.pending_count.b64 %r2, %s0; st.global.u32 [%o+8], %r2;\n"
		   "mbarrier.arrive.shared.b64 %s1, [%m];\n"
		   "mbarrier.pending_count.b64 %r2, %s1; st.global.u32 [%o+12], %r2;\n"
		   "mbarrier.test_wait.shared.b64 %p, [%m], %s0;\n" STORE(
			   16) "mbarrier.arrive_drop.shared.b64 %s2, [%m];\n" /* completes;
										 two from
										 now on */
			       "mbarrier.test_wait.shared.b64 %p, [%m], %s0;\n" STORE(
				       20) PARITY(0) STORE(24) PARITY(1)
				       STORE(28) "mbarrier.arrive.shared.b64 %s3, [%m], "
						 "2;\n"
						 "mbarrier.test_wait.shared.b64 %p, "
						 "[%m], %s3;\n" STORE(
							 32) "mbarrier.arrive.shared.b64 "
							     "%s3, [%m];\n"
							     "mbarrier.expect_tx.relaxed."
							     "cta.shared.b64 [%m], 64;\n"
							     "mbarrier.arrive.shared.b64 "
							     "_, [%m];\n"
							     "mbarrier.test_wait.shared."
							     "b64 %p, [%m], %s3;\n" STORE(
								     36) "mbarrier."
									 "complete_tx."
									 "relaxed.cta."
									 "shared.b64 "
									 "[%m], 64;\n"
									 "mbarrier.test_"
									 "wait.shared."
									 "b64 %p, [%m], "
									 "%s3;\n" STORE(
										 40) "mba"
										     "rri"
										     "er."
										     "inv"
										     "al."
										     "sha"
										     "red"
										     ".b6"
										     "4 "
										     "[%"
										     "m];"
										     " re"
										     "t; "
										     "}"
										     "\n";

Test(ptx_async, mbarrier_phases)
{
	static const uint32_t want[] = {1, 0, 3, 2, 0, 1, 1, 0, 1, 0, 1};
	uint32_t *out;

	cr_assert(gpu_load(&g, count_text) == 0, "%s", g.log);
	out = gpu_alloc(&g, 64);
	cr_assert(gpu_launch(&g, "k", 1, 1, &(void *[]){out, out}) == SIMT_DONE,
		  "%s line %u", simt_fault_name(g.fault.code), g.fault.line);
	for (unsigned i = 0; i < ARRAY_SIZE(want); i++)
		cr_expect(out[i] == want[i], "step %u: %u", i, out[i]);
}
