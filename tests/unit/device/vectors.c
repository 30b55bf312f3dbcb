/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors in memory are written and read whole, as hardware does: programs keep a value and whether
 * it is there in one (CUB's scans). */
#include "test.h"

/* meet(p, n): the first block writes n vectors, each of equal words, to one place, and says so at
 * p + 64; the second reads there until then, and counts those with different words at p + 72. */
#define KERNEL(TYPE, N, REGS, LAST)                                                      \
	".visible .entry meet_" #TYPE "_v" #N "(.param .u64 p, .param .u32 n) {\n"       \
	" .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg ." #TYPE " %x<5>; .reg .pred %q;\n"    \
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov." #TYPE " %x1, 0;\n"        \
	" mov.u32 %r3, 0; mov.u32 %r2, %ctaid.x; setp.ne.u32 %q, %r2, 0; @%q bra R;\n"   \
	"W: add." #TYPE " %x1, %x1, 1; mov." #TYPE " %x2, %x1; mov." #TYPE               \
	" %x3, %x1;\n"                                                                   \
	" mov." #TYPE " %x4, %x1; st.relaxed.gpu.global.v" #N "." #TYPE                  \
	" [%rd1], {" REGS "};\n"                                                         \
	" add.u32 %r3, %r3, 1; setp.lt.u32 %q, %r3, %r1; @%q bra W;\n"                   \
	" st.relaxed.gpu.global.u32 [%rd1+64], %r3; ret;\n"                              \
	"R: ld.relaxed.gpu.global.v" #N "." #TYPE " {" REGS "}, [%rd1];\n"               \
	" setp.eq." #TYPE " %q, %x1, " LAST "; @%q bra S; add.u32 %r3, %r3, 1;\n"        \
	"S: ld.relaxed.gpu.global.u32 %r4, [%rd1+64]; setp.eq.u32 %q, %r4, 0; @%q bra "  \
	"R;\n"                                                                           \
	" st.global.u32 [%rd1+72], %r3; ret; }\n"

static const char image[] = ".version 8.0\n.target sm_75\n.address_size 64\n" KERNEL(
	u16, 2, "%x1, %x2", "%x2") KERNEL(u16, 4, "%x1, %x2, %x3, %x4", "%x4")
	KERNEL(u32, 2, "%x1, %x2", "%x2") KERNEL(u32, 4, "%x1, %x2, %x3, %x4", "%x4")
		KERNEL(u64, 2, "%x1, %x2", "%x2");

static const char *const names[] = {"meet_u16_v2", "meet_u16_v4", "meet_u32_v2",
				    "meet_u32_v4", "meet_u64_v2"};

static uint32_t torn(struct fix *f, struct dev_module *mod, const char *name)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	const struct {
		CUdeviceptr p;
		uint32_t n;
	} args = {m.addr, 300000};
	struct dev_launch l = {.grid = {2, 1, 1},
			       .block = {1, 1, 1},
			       .params = &args,
			       .params_size = sizeof(args.p) + sizeof(args.n)};
	uint32_t words[32] = {0};

	OK(f->ops->copy.write(f->ctx, NULL, m.addr, words, sizeof(words)));
	OK(f->ops->module.function(mod, name, &l.func));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->copy.read(f->ctx, NULL, words, m.addr, sizeof(words)));
	cr_assert_eq(words[16], args.n);
	fix_free(f, &m);
	return words[18];
}

DEVICE_TEST_CFG(device_vectors, are_written_and_read_whole, false, .tpcs = 2,
		.threads = 2)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_module *mod;

	OK(f->ops->module.load(f->ctx, image, sizeof(image), &jit, &mod));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cr_expect_eq(torn(f, mod, names[i]), 0, "%s: %s", f->ops->name, names[i]);
	f->ops->module.unload(mod);
}
