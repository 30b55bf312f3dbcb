/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions: which shapes go with which element types, and how many registers
 * of a lane hold a fragment.
 */
#include <errno.h>

#include "ptx/ptx_form.h"

#define T(t)        (1ull << PTX_T_##t)
#define S(s)        (1u << PTX_SHAPE_##s)

#define WMMA_SHAPES (S(M16N16K16) | S(M8N32K16) | S(M32N8K16))

static bool one_of(enum ptx_type t, uint64_t set)
{
	return set >> t & 1;
}

/* Type of the registers that hold elements of a type. */
static enum ptx_type reg_type(enum ptx_type t)
{
	if (t == PTX_T_F64)
		return PTX_T_F64;
	if (t == PTX_T_F32)
		return PTX_T_F32;
	return PTX_T_B32;
}

/* Registers of 32 bits (64 for f64) that hold rows x cols elements in 32 lanes. */
static unsigned nregs(enum ptx_type t, unsigned rows, unsigned cols)
{
	unsigned bits = rows * cols * ptx_type_bits(t) / 32;

	return bits / (t == PTX_T_F64 ? 64 : 32);
}

/* Registers of fragment A, B, C or D. */
static unsigned frag_regs(const struct ptx_insn *in, enum ptx_frag f, enum ptx_type t)
{
	bool wmma = in->op != PTX_MMA;
	unsigned m, n, k;

	ptx_shape_dims(in->shape, &m, &n, &k);
	/* Halves: wmma keeps each element of A and B twice; m8n8k4 is four products of
	 * quarter warps. */
	if (t == PTX_T_F16 && f <= PTX_FRAG_B && wmma)
		return 8;
	if (in->shape == PTX_SHAPE_M8N8K4 && t != PTX_T_F64) {
		if (f <= PTX_FRAG_B)
			return 2;
		return t == PTX_T_F16 ? 4 : 8;
	}
	if (f == PTX_FRAG_A)
		return nregs(t, m, k);
	return f == PTX_FRAG_B ? nregs(t, k, n) : nregs(t, m, n);
}

/* ---- wmma -----------------------------------------------------------------------------
 */

static bool wmma_ab_ok(const struct ptx_insn *in, enum ptx_type t)
{
	unsigned s = 1u << in->shape;

	if (one_of(t, T(F16) | T(BF16) | T(U8) | T(S8)))
		return s & WMMA_SHAPES;
	if (t == PTX_T_TF32)
		return s & S(M16N16K8);
	if (t == PTX_T_F64)
		return s & S(M8N8K4);
	if (one_of(t, T(U4) | T(S4)))
		return s & S(M8N8K32);
	return t == PTX_T_B1 && s & S(M8N8K128);
}

static bool wmma_cd_ok(const struct ptx_insn *in, enum ptx_type t)
{
	unsigned s = 1u << in->shape;

	if (t == PTX_T_F16)
		return s & WMMA_SHAPES;
	if (t == PTX_T_F32)
		return s & (WMMA_SHAPES | S(M16N16K8));
	if (t == PTX_T_S32)
		return s & (WMMA_SHAPES | S(M8N8K32) | S(M8N8K128));
	return t == PTX_T_F64 && s & S(M8N8K4);
}

static int bad_types(struct ptx_parser *p, const struct ptx_insn *in)
{
	return ptx_err(p, "Unexpected instruction types or shape specified for '%s'",
		       ptx_op_name(in->op));
}

static int frag(struct ptx_parser *p, struct ptx_insn *in, enum ptx_frag f,
		enum ptx_type t, bool dst, struct ptx_opnd *o)
{
	unsigned n = frag_regs(in, f, t);

	if (!n || n > 16)
		return bad_types(p, in);
	/* f64 fragments of one register are written without braces as well */
	return ptx_opnd_vec(p, in, reg_type(t), n, dst, false, o);
}

static int wmma_memory(struct ptx_parser *p, struct ptx_insn *in)
{
	bool load = in->op == PTX_WMMA_LOAD;
	enum ptx_type t = in->type[0];
	struct ptx_opnd o[3] = {0};
	int r = 0;

	if (load ? in->sub == PTX_FRAG_D : in->sub != PTX_FRAG_D)
		return bad_types(p, in);
	if (in->sub <= PTX_FRAG_B ? !wmma_ab_ok(in, t) : !wmma_cd_ok(in, t))
		return bad_types(p, in);
	if (load) {
		r = frag(p, in, in->sub, t, true, &o[0]);
		if (r == 0)
			r = ptx_want(p, ',');
	}
	if (r == 0)
		r = ptx_opnd_addr(p, in, in->space, &o[load]);
	if (r == 0 && !load) {
		r = ptx_want(p, ',');
		if (r == 0)
			r = frag(p, in, in->sub, t, false, &o[1]);
	}
	if (r == 0 && ptx_eat(p, ','))
		r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[2]);
	in->nopnds = 3;
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

/* True if the types of A and B allow those of C and D. */
static bool mma_types_ok(const struct ptx_insn *in)
{
	enum ptx_type d = in->type[0], a = in->type[1], b = in->type[2], c = in->type[3];
	uint64_t i8 = T(U8) | T(S8), i4 = T(U4) | T(S4), f8 = T(E4M3) | T(E5M2);

	if (one_of(a, i8))
		return one_of(b, i8) && d == PTX_T_S32 && c == PTX_T_S32;
	if (one_of(a, i4))
		return one_of(b, i4) && d == PTX_T_S32 && c == PTX_T_S32;
	if (one_of(a, f8))
		return one_of(b, f8) && d == c && one_of(d, T(F16) | T(F32));
	if (a != b)
		return false;
	switch (a) {
	case PTX_T_B1:
		return d == PTX_T_S32 && c == PTX_T_S32;
	case PTX_T_F16:
		return one_of(d, T(F16) | T(F32)) && one_of(c, T(F16) | T(F32));
	case PTX_T_BF16:
	case PTX_T_TF32:
		return d == PTX_T_F32 && c == PTX_T_F32;
	case PTX_T_F64:
		return d == PTX_T_F64 && c == PTX_T_F64;
	default:
		return false;
	}
}

static int fragments(struct ptx_parser *p, struct ptx_insn *in)
{
	static const enum ptx_frag which[4] = {PTX_FRAG_D, PTX_FRAG_A, PTX_FRAG_B,
					       PTX_FRAG_C};
	struct ptx_opnd o[4] = {0};
	int r;

	for (int i = 0; i < 4; i++) {
		r = i ? ptx_want(p, ',') : 0;
		if (r == 0)
			r = frag(p, in, which[i], in->type[i], !i, &o[i]);
		if (r < 0)
			return r;
	}
	in->nopnds = 4;
	return ptx_emit(p, in, o, NULL);
}

/* .xor and .and are for single bits and nothing else, as rounding is for doubles. */
static bool mmaop_ok(const struct ptx_insn *in)
{
	if (in->rnd && in->type[1] != PTX_T_F64)
		return false;
	return (in->type[1] == PTX_T_B1) == (in->sub != PTX_MMA_MULADD);
}

int ptx_insn_wmma(struct ptx_parser *p, struct ptx_insn *in)
{
	if (in->op != PTX_WMMA_MMA)
		return wmma_memory(p, in);
	if (in->type[2] == PTX_T_NONE) { /* ".f32.f16": A and B are halves */
		in->type[3] = in->type[1];
		in->type[1] = in->type[2] = PTX_T_F16;
	}
	if (!mma_types_ok(in) || !wmma_ab_ok(in, in->type[1]) ||
	    !wmma_cd_ok(in, in->type[0]) || !wmma_cd_ok(in, in->type[3]) || !mmaop_ok(in))
		return bad_types(p, in);
	return fragments(p, in);
}

/* ---- mma
 * ------------------------------------------------------------------------------- */

static bool mma_shape_ok(const struct ptx_insn *in)
{
	enum ptx_type a = in->type[1], d = in->type[0], c = in->type[3];
	unsigned s = 1u << in->shape;

	switch (a) {
	case PTX_T_F16:
		if (s & S(M8N8K4))
			return d == PTX_T_F32 || c == PTX_T_F16;
		return d == c && s & (S(M16N8K8) | S(M16N8K16));
	case PTX_T_BF16:
		return s & (S(M16N8K8) | S(M16N8K16));
	case PTX_T_TF32:
		return s & (S(M16N8K4) | S(M16N8K8));
	case PTX_T_F64:
		return s & (S(M8N8K4) | S(M16N8K4) | S(M16N8K8) | S(M16N8K16));
	case PTX_T_U8:
	case PTX_T_S8:
		return s & (S(M8N8K16) | S(M16N8K16) | S(M16N8K32));
	case PTX_T_U4:
	case PTX_T_S4:
		return s & (S(M8N8K32) | S(M16N8K32) | S(M16N8K64));
	case PTX_T_E4M3:
	case PTX_T_E5M2:
		return s & (S(M16N8K32) |
			    (d == PTX_T_F32 || d == PTX_T_F16 ? S(M16N8K16) : 0));
	case PTX_T_B1:
		return s & (S(M8N8K128) | S(M16N8K128) | S(M16N8K256));
	default:
		return false;
	}
}

int ptx_insn_mma(struct ptx_parser *p, struct ptx_insn *in)
{
	bool any_layout = in->shape == PTX_SHAPE_M8N8K4 && in->type[1] == PTX_T_F16;

	if (!mma_types_ok(in) || !mma_shape_ok(in) || !mmaop_ok(in))
		return bad_types(p, in);
	if (!any_layout && (in->layout[0] != PTX_L_ROW || in->layout[1] != PTX_L_COL))
		return ptx_err(p, "Illegal layout for instruction 'mma'");
	return fragments(p, in);
}
