/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions one by one: what is taken, what is refused, and what comes out. */
#include <errno.h>

#include "text.h"

#define KERNEL                                                                           \
	PTX_HEAD                                                                         \
	".global .align 16 .b8 gl[64];\n.const .align 16 .b8 co[64];\n"                  \
	".func (.param .b32 r) dfn (.param .b32 a) { ret; }\n"                           \
	".visible .entry k(.param .u64 ka, .param .align 8 .b8 kb[16])\n{\n" PTX_REGS    \
	".shared .align 16 .b8 sh[256];\n.local .align 16 .b8 lo[64];\n"

static const char *const accept[] = {
#include "accept.inc"
};

static const struct {
	const char *insn, *log;
} reject[] = {
#include "reject.inc"
};

static char text[8192];

/* The module of one instruction; it is on line 12 of the text. */
static const char *with(const char *insn)
{
	snprintf(text, sizeof(text), "%s%s;\nL: ret;\n}\n", KERNEL, insn);
	return text;
}

static const struct ptx_func *kernel(const struct ptx_module *m)
{
	const struct ptx_func *f = ptx_find_func(m, "k");

	cr_assert(f && f->has_body);
	return f;
}

/* The instruction itself; it must be the only one before the last ret. */
static const struct ptx_insn *only(const struct ptx_module *m)
{
	cr_assert_eq(kernel(m)->ninsns, 2);
	return &kernel(m)->insns[0];
}

Test(ptx_insn, every_listed_instruction_is_accepted)
{
	for (size_t i = 0; i < ARRAY_SIZE(accept); i++)
		ptx_module_free(ptx_test_module(with(accept[i])));
}

Test(ptx_insn, rejects_naming_line_and_instruction)
{
	for (size_t i = 0; i < ARRAY_SIZE(reject); i++) {
		ptx_test_refuse(with(reject[i].insn), reject[i].log);
		cr_assert(strstr(ptx_test_log, "ptxas application ptx input, line 12; "),
			  "%s", ptx_test_log);
		cr_assert(strstr(ptx_test_log,
				 "ptxas fatal   : Ptx assembly aborted due to errors"));
	}
}

Test(ptx_insn, unknown_instruction_is_shown_whole)
{
	ptx_test_refuse(with("foo.bar.u32 %r1, [%r2]"),
			"line 12; error   : Not a name of any known instruction: 'foo', "
			"in 'foo.bar.u32 %r1, [%r2]'\n");
}

Test(ptx_insn, refused_ones_are_not_supported)
{
	struct ptx_module *m;

	cr_assert_eq(ptx_test_parse(with("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [gl, {%f1,%f2}]"), &m),
		     -ENOTSUP);
	cr_assert_eq(ptx_test_parse(with("nonsense"), &m), -EINVAL);
}

Test(ptx_insn, each_part_of_an_instruction_has_its_field)
{
	struct ptx_module *m = ptx_test_module(
		with("@!%p3 setp.ltu.ftz.and.f32 %p1|%p2, %f1, 0fC0490FDB, !%p4"));
	const struct ptx_insn *in = only(m);
	const struct ptx_func *f = kernel(m);

	cr_assert_eq(in->op, PTX_SETP);
	cr_assert_eq(in->cmp, PTX_C_LTU);
	cr_assert_eq(in->bop, PTX_B_AND);
	cr_assert_eq(in->flags, PTX_F_FTZ);
	cr_assert_eq(in->type[0], PTX_T_F32);
	cr_assert_eq(in->nopnds, 5);
	cr_assert(in->guard_neg && in->guard >= 0);
	cr_assert_eq(f->regs[in->guard].type, PTX_T_PRED);
	cr_assert_eq(in->o[3].kind, PTX_O_IMM);
	cr_assert_eq(in->o[3].imm, 0xC0490FDB);
	cr_assert_eq(in->o[4].flags, PTX_OF_NEG);
	cr_assert_eq(in->line, 12);
	ptx_module_free(m);
}

Test(ptx_insn, memory_fields)
{
	struct ptx_module *m = ptx_test_module(
		with("ld.acquire.cluster.shared::cluster.v2.u32 {%r1, _}, [%d1+-8]"));
	const struct ptx_insn *in = only(m);

	cr_assert_eq(in->op, PTX_LD);
	cr_assert_eq(in->sem, PTX_SEM_ACQUIRE);
	cr_assert_eq(in->scope, PTX_SCOPE_CLUSTER);
	cr_assert_eq(in->space, PTX_S_SHARED_CLUSTER);
	cr_assert_eq(in->vec, 2);
	cr_assert_eq(in->o[0].elem[1].kind, PTX_O_SINK);
	cr_assert_eq(in->o[1].kind, PTX_O_MEM);
	cr_assert_eq(in->o[1].off, -8);
	ptx_module_free(m);
	m = ptx_test_module(with("ld.param.u32 %r1, [kb+4]"));
	in = only(m);
	cr_assert_eq(in->o[1].kind, PTX_O_KPARAM);
	cr_assert_eq(in->o[1].off, 12);
	ptx_module_free(m);
	m = ptx_test_module(with("st.u32 [gl+12], 7"));
	in = only(m);
	cr_assert_eq(in->o[0].kind, PTX_O_VAR);
	cr_assert_eq(in->o[0].off, 12);
	cr_assert_str_eq(m->vars[in->o[0].idx].name, "gl");
	ptx_module_free(m);
}

/* Value of the immediate that an instruction ends in. */
static uint64_t imm(const char *insn)
{
	struct ptx_module *m = ptx_test_module(with(insn));
	const struct ptx_insn *in = only(m);
	uint64_t v = in->o[in->nopnds - 1].imm;

	cr_assert_eq(in->o[in->nopnds - 1].kind, PTX_O_IMM);
	ptx_module_free(m);
	return v;
}

Test(ptx_insn, constant_expressions_are_computed_in_their_type)
{
	cr_assert_eq(imm("mov.u32 %r1, -1"), 0xffffffff);
	cr_assert_eq(imm("mov.b16 %h1, -2"), 0xfffe);
	cr_assert_eq(imm("mov.s64 %d1, -1"), UINT64_MAX);
	cr_assert_eq(imm("mov.u64 %d1, 0xffffffffffffffffU"), UINT64_MAX);
	cr_assert_eq(imm("mov.u32 %r1, 0b1011"), 11);
	cr_assert_eq(imm("mov.u32 %r1, 0755"), 0755);
	cr_assert_eq(imm("mov.u32 %r1, 2+3*4"), 14);
	cr_assert_eq(imm("mov.u32 %r1, (2+3)*4 - 1"), 19);
	cr_assert_eq(imm("mov.u32 %r1, 1 << 4 | 3"), 19);
	cr_assert_eq(imm("mov.u32 %r1, ~0 & 0xff"), 255);
	cr_assert_eq(imm("mov.s32 %r1, -8 >> 1"), 0xfffffffc);
	cr_assert_eq(imm("mov.u32 %r1, 7 == 7"), 1);
	cr_assert_eq(imm("mov.s32 %r1, -7/2"), 0xfffffffd);
	cr_assert_eq(imm("mov.u64 %d1, 9223372036854775808"), 1ull << 63);
	cr_assert_eq(imm("mov.f32 %f1, 1.5"), 0x3fc00000);
	cr_assert_eq(imm("mov.f32 %f1, -1.5e0"), 0xbfc00000);
	cr_assert_eq(imm("mov.f32 %f1, 0F7fc00001"), 0x7fc00001);
	cr_assert_eq(imm("mov.f64 %g1, 0d3FF0000000000000"), 0x3ff0000000000000);
	cr_assert_eq(imm("mov.f64 %g1, -0f3F800000"), 0xbff0000000000000);
	cr_assert_eq(imm("mov.f32 %f1, 0d3FF0000000000000"), 0x3f800000);
	cr_assert_eq(imm("mov.pred %p1, -1"), 1);
	cr_assert_eq(imm("mov.u32 %r1, WARP_SZ"), 32);
}

Test(ptx_insn, deep_constants_are_refused)
{
	char deep[400] = "mov.u32 %r1, ";

	for (int i = 0; i < 300; i++)
		strcat(deep, "(");
	ptx_test_refuse(with(deep), "too deep");
	strcpy(deep, "mov.u32 %r1, ");
	for (int i = 0; i < 300; i++)
		strcat(deep, "-");
	ptx_test_refuse(with(deep), "too deep");
}

Test(ptx_insn, sregs_come_out_of_cvt)
{
	struct ptx_module *m = ptx_test_module(with("@%p1 cvt.u64.u32 %d1, %tid.y"));
	const struct ptx_func *f = kernel(m);

	cr_assert_eq(f->ninsns, 3);
	cr_assert_eq(f->insns[0].op, PTX_MOV);
	cr_assert_eq(f->insns[0].o[1].kind, PTX_O_SREG);
	cr_assert_eq(f->insns[0].o[1].idx, PTX_SR_TID_Y);
	cr_assert_eq(f->insns[1].op, PTX_CVT);
	cr_assert_eq(f->insns[1].o[1].idx, f->insns[0].o[0].idx);
	ptx_module_free(m);
}

/* Effect of an instruction's modifiers on its decoded form. */
static const struct {
	const char *insn;
	uint16_t op;
	uint8_t sub;
	uint32_t flags;
} subs[] = {
	{"mul.wide.s32 %d1, %r1, %r2", PTX_MUL, PTX_MUL_WIDE, 0},
	{"mad.hi.u32 %r1, %r1, %r2, %r3", PTX_MAD, PTX_MUL_HI, 0},
	{"shf.r.wrap.b32 %r1, %r2, %r3, %r4", PTX_SHF, PTX_SHF_R_WRAP, 0},
	{"shf.l.clamp.b32 %r1, %r2, %r3, %r4", PTX_SHF, PTX_SHF_L_CLAMP, 0},
	{"prmt.b32.ecr %r1, %r2, %r3, %r4", PTX_PRMT, PTX_PRMT_ECR, 0},
	{"testp.infinite.f32 %p1, %f1", PTX_TESTP, PTX_TESTP_INFINITE, 0},
	{"bmsk.wrap.b32 %r1, %r2, %r3", PTX_BMSK, 1, 0},
	{"shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1", PTX_SHFL, PTX_SHFL_BFLY, PTX_F_SYNC},
	{"vote.sync.uni.pred %p1, %p2, -1", PTX_VOTE, PTX_VOTE_UNI, PTX_F_SYNC},
	{"match.all.sync.b32 %r1, %r2, -1", PTX_MATCH, 1, PTX_F_SYNC},
	{"redux.sync.or.b32 %r1, %r2, -1", PTX_REDUX, PTX_ATOM_OR, PTX_F_SYNC},
	{"bar.sync 0", PTX_BAR, PTX_BAR_SYNC, PTX_F_ALIGNED},
	{"barrier.sync 0", PTX_BAR, PTX_BAR_SYNC, 0},
	{"barrier.cta.arrive.aligned 1, 32", PTX_BAR, PTX_BAR_ARRIVE, PTX_F_ALIGNED},
	{"bar.red.or.pred %p1, 1, %p2", PTX_BAR, PTX_BAR_RED_OR, PTX_F_ALIGNED},
	{"barrier.cluster.wait", PTX_BARRIER_CLUSTER, 1, 0},
	{"griddepcontrol.wait", PTX_GRIDDEPCONTROL, 1, 0},
	{"atom.cas.b32 %r1, [%d1], 1, 2", PTX_ATOM, PTX_ATOM_CAS, 0},
	{"atom.shared.inc.u32 %r1, [sh], 1", PTX_ATOM, PTX_ATOM_INC, 0},
	{"add.cc.u32 %r1, %r2, %r3", PTX_ADD, 0, PTX_F_CC},
	{"cvt.rzi.sat.ftz.s32.f32 %r1, %f1", PTX_CVT, 0, PTX_F_SAT | PTX_F_FTZ},
	{"cvta.to.shared.u64 %d1, %d2", PTX_CVTA, 0, PTX_F_TO},
	{"bfind.shiftamt.u32 %r1, %r2", PTX_BFIND, 0, PTX_F_SHIFTAMT},
	{"bra.uni L", PTX_BRA, 0, PTX_F_UNI},
	{"vadd.s32.s32.s32.max %r1, %r2, %r3, %r4", PTX_VADD, PTX_ATOM_MAX, 0},
	{"max.NaN.xorsign.abs.f32 %f1, %f2, %f3", PTX_MAX, 0,
	 PTX_F_NAN | PTX_F_XORSIGN | PTX_F_ABS},
};

Test(ptx_insn, modifiers_select_the_operation_and_its_flags)
{
	for (size_t i = 0; i < ARRAY_SIZE(subs); i++) {
		struct ptx_module *m = ptx_test_module(with(subs[i].insn));
		const struct ptx_insn *in = only(m);

		cr_assert_eq(in->op, subs[i].op, "%s", subs[i].insn);
		cr_assert_eq(in->sub, subs[i].sub, "%s", subs[i].insn);
		cr_assert_eq(in->flags, subs[i].flags, "%s: %x", subs[i].insn, in->flags);
		ptx_module_free(m);
	}
}

Test(ptx_insn, matrix_types_are_complete)
{
	struct ptx_module *m = ptx_test_module(with(
		"wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {%r0,%r1,%r2,%r3}, "
		"{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7},"
		" {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}"));
	const struct ptx_insn *in = only(m);

	cr_assert_eq(in->type[0], PTX_T_F16);
	cr_assert_eq(in->type[1], PTX_T_F16);
	cr_assert_eq(in->type[2], PTX_T_F16);
	cr_assert_eq(in->type[3], PTX_T_F32);
	cr_assert_eq(in->shape, PTX_SHAPE_M16N16K16);
	cr_assert_eq(in->layout[0], PTX_L_ROW);
	cr_assert_eq(in->layout[1], PTX_L_COL);
	ptx_module_free(m);
}

Test(ptx_insn, every_prefix_of_every_line_is_safe)
{
	struct ptx_module *m;

	for (size_t i = 0; i < ARRAY_SIZE(accept); i++) {
		size_t n = strlen(accept[i]);
		char cut[512];

		/* With the rest of the text behind it, and as the end of the text. */
		for (size_t k = 0; k < n; k++) {
			snprintf(cut, sizeof(cut), "%.*s", (int)k, accept[i]);
			if (ptx_test_parse(with(cut), &m) == 0)
				ptx_module_free(m);
			*strstr(text, ";\nL: ret") = 0;
			cr_assert_lt(ptx_test_parse(text, &m), 0);
		}
	}
}
