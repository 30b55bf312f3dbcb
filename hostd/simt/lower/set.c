/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of comparisons and selection. */
#include "simt/handlers/cmp.h"
#include "simt/lower/lower.h"

static const char *cmp_name(unsigned cmp)
{
	static const char *const names[] = {
		[PTX_C_EQ] = "eq",   [PTX_C_NE] = "ne",   [PTX_C_LT] = "lt",
		[PTX_C_LE] = "le",   [PTX_C_GT] = "gt",   [PTX_C_GE] = "ge",
		[PTX_C_LO] = "lt",   [PTX_C_LS] = "le",   [PTX_C_HI] = "gt",
		[PTX_C_HS] = "ge",   [PTX_C_EQU] = "equ", [PTX_C_NEU] = "neu",
		[PTX_C_LTU] = "ltu", [PTX_C_LEU] = "leu", [PTX_C_GTU] = "gtu",
		[PTX_C_GEU] = "geu", [PTX_C_NUM] = "num", [PTX_C_NAN] = "nan",
	};

	return cmp < ARRAY_SIZE(names) && names[cmp] ? names[cmp] : "?";
}

/* Integer comparisons that order without a sign do so whatever the type says. */
static const char *int_type(const struct ptx_insn *in, unsigned type)
{
	bool uns = in->cmp >= PTX_C_LO && in->cmp <= PTX_C_HS;

	if (uns && type == PTX_T_S16)
		return "u16";
	if (uns && type == PTX_T_S32)
		return "u32";
	if (uns && type == PTX_T_S64)
		return "u64";
	return lower_int_name(type);
}

struct cmp {
	int32_t d, e, a, b, c; /* d, e: -1 if unwanted */
	bool neg;
	unsigned bop;
	const char *ftz, *type;
};

static int emit_cmp(struct lower *l, const struct ptx_insn *in, const struct cmp *k)
{
	struct simt_op *op =
		lower_emit(l, "setp.%s.%s%s", cmp_name(in->cmp), k->ftz, k->type);

	if (!op)
		return l->error;
	op->d = k->d;
	op->e = k->e;
	op->a = k->a;
	op->b = k->b;
	op->c = k->c;
	op->x = (uint8_t)k->bop;
	op->y = k->neg;
	return 0;
}

/* A row of f32 from half precision row src. */
static int32_t widen(struct lower *l, int32_t src, bool bf16, bool ftz)
{
	int32_t t = lower_temp(l, 32);
	struct simt_op *op = lower_emit(l, bf16 ? "cvt.f32.bf16" : "cvt.f32.f16");

	(void)ftz; /* comparing subnormals needs no flushing unless both are tiny */
	if (op) {
		op->d = t;
		op->a = src;
	}
	return t;
}

static int32_t half_of(struct lower *l, int32_t src, unsigned shift)
{
	int32_t t = lower_temp(l, 16);
	struct simt_op *op = lower_emit(l, "unpack.32.16");

	if (op) {
		op->d = t;
		op->a = src;
		op->n = shift;
	}
	return t;
}

/*
 * The comparison of operands a and b of type; predicates go to d (and, for one result,
 * the complement to e; for pairs, the upper half's result).
 */
static int compare(struct lower *l, const struct ptx_insn *in, unsigned type,
		   const struct ptx_opnd *a, const struct ptx_opnd *b,
		   const struct ptx_opnd *c, int32_t d, int32_t e)
{
	unsigned bits = ptx_type_bits(type);
	bool bf16 = type == PTX_T_BF16 || type == PTX_T_BF16X2;
	bool ftz = in->flags & PTX_F_FTZ;
	struct cmp k = {
		.d = d,
		.e = e,
		.a = lower_src(l, a, bits),
		.b = lower_src(l, b, bits),
		.ftz = "",
	};
	int r;

	if (c && c->kind == PTX_O_REG && in->bop != PTX_B_NONE) {
		k.c = l->row[c->idx];
		k.neg = c->flags & PTX_OF_NEG;
		k.bop = in->bop == PTX_B_AND  ? CMP_AND
			: in->bop == PTX_B_OR ? CMP_OR
					      : CMP_XOR;
	}
	switch (type) {
	case PTX_T_F32:
		k.ftz = ftz ? "ftz." : "";
		k.type = "f32";
		return emit_cmp(l, in, &k);
	case PTX_T_F64:
		k.type = "f64";
		return emit_cmp(l, in, &k);
	case PTX_T_F16:
	case PTX_T_BF16:
		k.a = widen(l, k.a, bf16, ftz);
		k.b = widen(l, k.b, bf16, ftz);
		k.type = "f32";
		return emit_cmp(l, in, &k);
	case PTX_T_F16X2:
	case PTX_T_BF16X2: {
		int32_t pa = k.a, pb = k.b;

		k.type = "f32";
		k.e = -1;
		k.a = widen(l, half_of(l, pa, 0), bf16, ftz);
		k.b = widen(l, half_of(l, pb, 0), bf16, ftz);
		/* the second comparison may not see what the first one wrote */
		if (d >= 0 && k.bop && k.c == d) {
			int32_t t = lower_temp(l, 1);
			struct simt_op *op = lower_emit(l, "mov.pred");

			if (!op)
				return l->error;
			op->d = t;
			op->a = op->b = k.c;
			k.c = t;
		}
		r = emit_cmp(l, in, &k);
		if (r < 0 || e < 0)
			return r;
		k.d = e;
		k.a = widen(l, half_of(l, pa, 16), bf16, ftz);
		k.b = widen(l, half_of(l, pb, 16), bf16, ftz);
		return emit_cmp(l, in, &k);
	}
	default:
		k.type = int_type(in, type);
		if (!k.type)
			return lower_refuse(l, ptx_type_name(type));
		return emit_cmp(l, in, &k);
	}
}

int lower_setp(struct lower *l, const struct ptx_insn *in)
{
	const struct ptx_opnd *c = in->nopnds > 4 ? &in->o[4] : NULL;

	return compare(l, in, in->type[0], &in->o[2], &in->o[3], c,
		       lower_pred_dst(l, &in->o[0]), lower_pred_dst(l, &in->o[1]));
}

static int emit_selp(struct lower *l, unsigned bits, int32_t d, int32_t a, int32_t b,
		     int32_t p, bool neg)
{
	struct simt_op *op = lower_emit(l, "selp.b%u", bits);

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = p;
	op->y = neg;
	return 0;
}

static uint64_t true_value(unsigned type)
{
	switch (type) {
	case PTX_T_F32:
		return 0x3f800000;
	case PTX_T_F16:
	case PTX_T_F16X2:
		return 0x3c00;
	case PTX_T_BF16:
	case PTX_T_BF16X2:
		return 0x3f80;
	default:
		return ~0ull;
	}
}

static int set_pair(struct lower *l, const struct ptx_insn *in, int32_t d, int32_t p,
		    int32_t q)
{
	int32_t zero = lower_konst(l, 16, 0),
		one = lower_konst(l, 16, true_value(in->type[0]));
	int32_t lo = lower_temp(l, 16), hi = lower_temp(l, 16);
	int r = emit_selp(l, 16, lo, one, zero, p, false);
	struct simt_op *op;

	if (r == 0)
		r = emit_selp(l, 16, hi, one, zero, q, false);
	if (r < 0)
		return r;
	op = lower_emit(l, "pack.16.32");
	if (!op)
		return l->error;
	op->d = d;
	op->a = lo;
	op->b = hi;
	return 0;
}

/* d a b [c]; type[0] d, type[1] a */
static int lower_set_value(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	bool pair = in->type[1] == PTX_T_F16X2 || in->type[1] == PTX_T_BF16X2;
	int32_t p = lower_temp(l, 1), q = pair ? lower_temp(l, 1) : -1;
	int32_t d = lower_dst(l, &in->o[0], bits);
	int r;

	r = compare(l, in, in->type[1], &in->o[1], &in->o[2],
		    in->nopnds > 3 ? &in->o[3] : NULL, p, q);
	if (r < 0)
		return r;
	if (pair)
		return set_pair(l, in, d, p, q);
	return emit_selp(l, bits, d, lower_konst(l, bits, true_value(in->type[0])),
			 lower_konst(l, bits, 0), p, false);
}

static int lower_slct(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	int32_t a = lower_src(l, &in->o[1], bits), b = lower_src(l, &in->o[2], bits);
	int32_t c = lower_src(l, &in->o[3], 32), d = lower_dst(l, &in->o[0], bits);
	struct simt_op *op;

	op = lower_emit(l, "slct.b%u%s.%s", bits, in->flags & PTX_F_FTZ ? ".ftz" : "",
			in->type[1] == PTX_T_F32 ? "f32" : "s32");
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = c;
	return 0;
}

int lower_set(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	int32_t a, b;

	if (in->op == PTX_SET)
		return lower_set_value(l, in);
	if (in->op == PTX_SLCT)
		return lower_slct(l, in);
	a = lower_src(l, &in->o[1], bits);
	b = lower_src(l, &in->o[2], bits);
	return emit_selp(l, bits, lower_dst(l, &in->o[0], bits), a, b,
			 l->row[in->o[3].idx], in->o[3].flags & PTX_OF_NEG);
}
