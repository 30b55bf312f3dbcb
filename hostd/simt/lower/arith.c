/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of arithmetic. */
#include <stdio.h>

#include "simt/handlers/float.h"
#include "simt/lower/lower.h"

static unsigned bits_of(unsigned type)
{
	return ptx_type_bits(type);
}

static bool is_half(unsigned t)
{
	return t == PTX_T_F16 || t == PTX_T_F16X2 || t == PTX_T_BF16 || t == PTX_T_BF16X2;
}

static bool is_packed_int(unsigned t)
{
	return t == PTX_T_U16X2 || t == PTX_T_S16X2;
}

/* op->y of the handlers for all modes. */
static uint8_t modes(const struct ptx_insn *in)
{
	unsigned y = in->rnd == PTX_R_RZ   ? FX_RZ
		     : in->rnd == PTX_R_RM ? FX_RM
		     : in->rnd == PTX_R_RP ? FX_RP
					   : FX_RN;

	if (in->flags & PTX_F_FTZ)
		y |= FX_FTZ;
	if (in->flags & PTX_F_SAT)
		y |= FX_SAT;
	if (in->flags & PTX_F_RELU)
		y |= FX_RELU;
	if (in->flags & PTX_F_NAN)
		y |= FX_NAN;
	if (in->flags & PTX_F_XORSIGN)
		y |= FX_XSIGN | FX_ABS;
	if (in->flags & PTX_F_ABS)
		y |= FX_ABS;
	return (uint8_t)y;
}

/* Emits the handler for operands 0 (d) and 1.. (sources), each of bits sb, d of db. */
static struct simt_op *emit_row(struct lower *l, const struct ptx_insn *in,
				const char *name, unsigned db, const unsigned *sb,
				unsigned nsrc)
{
	int32_t s[4] = {0}, d;
	struct simt_op *op;

	for (unsigned k = 0; k < nsrc; k++)
		s[k] = lower_src(l, &in->o[k + 1], sb[k]);
	d = lower_dst(l, &in->o[0], db);
	op = lower_emit(l, "%s", name);
	if (!op)
		return NULL;
	op->d = d;
	op->a = s[0];
	op->b = s[1];
	op->c = s[2];
	op->e = s[3];
	op->y = modes(in);
	return op;
}

static int emit_same(struct lower *l, const struct ptx_insn *in, const char *name,
		     unsigned nsrc)
{
	unsigned b = bits_of(in->type[0]), sb[4] = {b, b, b, b};

	return emit_row(l, in, name, b, sb, nsrc) ? 0 : l->error;
}

static const char *base_name(unsigned op)
{
	switch (op) {
	case PTX_ADDC:
		return "add";
	case PTX_SUBC:
		return "sub";
	case PTX_MADC:
		return "mad";
	default:
		return ptx_op_name(op);
	}
}

/* add.cc and the like */
static int lower_carry(struct lower *l, const struct ptx_insn *in, unsigned nsrc)
{
	bool reads = in->op == PTX_ADDC || in->op == PTX_SUBC || in->op == PTX_MADC;
	unsigned b = bits_of(in->type[0]), sb[4] = {b, b, b, b};
	struct simt_op *op;
	char name[32];

	if (nsrc == 3 && in->sub == PTX_MUL_HI)
		snprintf(name, sizeof(name), "madc.hi.%s", lower_int_name(in->type[0]));
	else if (nsrc == 3)
		snprintf(name, sizeof(name), "madc.lo.u%u", b);
	else
		snprintf(name, sizeof(name), "%sc.u%u", base_name(in->op), b);
	op = emit_row(l, in, name, b, sb, nsrc);
	if (!op)
		return l->error;
	op->e = l->code->cc;
	op->x = (reads ? 1 : 0) | (in->flags & PTX_F_CC ? 2 : 0);
	return 0;
}

static int lower_int_arith(struct lower *l, const struct ptx_insn *in)
{
	unsigned t = in->type[0], b = bits_of(t);
	const char *n = lower_int_name(t), *sat = in->flags & PTX_F_SAT ? ".sat" : "";
	unsigned sb[4] = {b, b, b, b}, nsrc = 2, db = b;
	char name[40];

	switch (in->op) {
	case PTX_ADD:
	case PTX_SUB:
	case PTX_ADDC:
	case PTX_SUBC:
		if (in->flags & PTX_F_CC || in->op == PTX_ADDC || in->op == PTX_SUBC)
			return lower_carry(l, in, 2);
		if (*sat)
			snprintf(name, sizeof(name), "%s.sat.%s", base_name(in->op), n);
		else
			snprintf(name, sizeof(name), "%s.u%u", base_name(in->op), b);
		break;
	case PTX_MUL:
	case PTX_MAD:
	case PTX_MADC:
		nsrc = in->op == PTX_MUL ? 2 : 3;
		if (in->flags & PTX_F_CC || in->op == PTX_MADC)
			return lower_carry(l, in, 3);
		if (in->sub == PTX_MUL_WIDE) {
			snprintf(name, sizeof(name), "%s.wide.%s", base_name(in->op), n);
			db = sb[2] = 2 * b;
		} else if (in->sub == PTX_MUL_HI) {
			snprintf(name, sizeof(name), "%s.hi%s.%s", base_name(in->op), sat,
				 n);
		} else {
			snprintf(name, sizeof(name), "%s.lo.u%u", base_name(in->op), b);
		}
		break;
	case PTX_MUL24:
	case PTX_MAD24:
		nsrc = in->op == PTX_MUL24 ? 2 : 3;
		snprintf(name, sizeof(name), "%s.%s%s.%s", base_name(in->op),
			 in->sub == PTX_MUL_HI ? "hi" : "lo", sat, n);
		break;
	case PTX_SAD:
		nsrc = 3;
		snprintf(name, sizeof(name), "sad.%s", n);
		break;
	case PTX_ABS:
	case PTX_NEG:
		nsrc = 1;
		snprintf(name, sizeof(name), "%s.%s", base_name(in->op), n);
		break;
	default:
		snprintf(name, sizeof(name), "%s%s.%s", base_name(in->op),
			 in->flags & PTX_F_RELU ? ".relu" : "", n);
		break;
	}
	return emit_row(l, in, name, db, sb, nsrc) ? 0 : l->error;
}

static int lower_packed_int(struct lower *l, const struct ptx_insn *in)
{
	char name[40];

	snprintf(name, sizeof(name), "%s%s.%s", base_name(in->op),
		 in->flags & PTX_F_RELU ? ".relu" : "",
		 in->op == PTX_ADD ? "u16x2" : ptx_type_name(in->type[0]));
	return emit_same(l, in, name, 2);
}

static unsigned num_sources(const struct ptx_insn *in)
{
	unsigned n = in->nopnds - 1u;

	while (n && in->o[n].kind == PTX_O_NONE)
		n--;
	return n;
}

static int lower_minmax(struct lower *l, const struct ptx_insn *in)
{
	unsigned n = num_sources(in), b = bits_of(in->type[0]), sb[4] = {b, b, b, b};
	bool plain = n == 2 && !(in->flags & ~(PTX_F_FTZ));
	struct simt_op *op;
	char name[40];

	if (is_half(in->type[0]))
		snprintf(name, sizeof(name), "minmax%s.%s", n == 3 ? "3" : "",
			 ptx_type_name(in->type[0]));
	else if (in->type[0] == PTX_T_F32 && !plain)
		snprintf(name, sizeof(name), "minmax.x.f32");
	else
		snprintf(name, sizeof(name), "%s%s.%s", base_name(in->op),
			 in->flags & PTX_F_FTZ ? ".ftz" : "", ptx_type_name(in->type[0]));
	op = emit_row(l, in, name, b, sb, n);
	if (!op)
		return l->error;
	op->x = in->op == PTX_MAX;
	op->n = n - 1;
	return 0;
}

static int lower_half(struct lower *l, const struct ptx_insn *in)
{
	const char *t = ptx_type_name(in->type[0]), *n = base_name(in->op);
	bool bits = (in->op == PTX_ABS || in->op == PTX_NEG);
	char name[40];

	if (in->rnd != PTX_R_NONE && in->rnd != PTX_R_RN)
		return lower_refuse(l, "rounding of half precision");
	if (bits && (in->flags & PTX_F_FTZ))
		snprintf(name, sizeof(name), "%sx.%s", n, t);
	else if (bits) /* the sign is in the same place in f16 and bf16 */
		snprintf(name, sizeof(name), "%s.%s", n,
			 bits_of(in->type[0]) == 16 ? "f16" : "f16x2");
	else
		snprintf(name, sizeof(name), "%s.%s", in->op == PTX_MAD ? "fma" : n, t);
	return emit_same(l, in, name, num_sources(in));
}

static int lower_float(struct lower *l, const struct ptx_insn *in)
{
	const char *t = ptx_type_name(in->type[0]);
	const char *n = in->op == PTX_MAD ? "fma" : base_name(in->op);
	const char *z = in->flags & PTX_F_FTZ ? ".ftz" : "";
	bool directed = in->rnd == PTX_R_RZ || in->rnd == PTX_R_RM || in->rnd == PTX_R_RP;
	bool single = in->type[0] == PTX_T_F32;
	bool x = directed || in->flags & (PTX_F_SAT | PTX_F_RELU);
	char name[40];

	if (!single && in->type[0] != PTX_T_F64)
		return lower_refuse(l, "type");
	switch (in->op) {
	case PTX_SIN:
	case PTX_COS:
	case PTX_TANH: /* ftz by op->y, or no matter */
		snprintf(name, sizeof(name), "%s.%s", n, t);
		break;
	case PTX_RCP:
	case PTX_RSQRT:
		if (!single && (in->flags & PTX_F_APPROX) && *z)
			snprintf(name, sizeof(name), "%s.approx.f64", n);
		else
			snprintf(name, sizeof(name), "%s%s.%s", n,
				 x        ? ".x"
				 : single ? z
					  : "",
				 t);
		break;
	default:
		snprintf(name, sizeof(name), "%s%s.%s", n, x ? ".x" : z, t);
		break;
	}
	return emit_same(l, in, name, num_sources(in));
}

static int lower_testp(struct lower *l, const struct ptx_insn *in)
{
	static const char *const names[] = {
		[PTX_TESTP_FINITE] = "finite", [PTX_TESTP_INFINITE] = "infinite",
		[PTX_TESTP_NUMBER] = "number", [PTX_TESTP_NAN] = "notanumber",
		[PTX_TESTP_NORMAL] = "normal", [PTX_TESTP_SUBNORMAL] = "subnormal",
	};
	int32_t a = lower_src(l, &in->o[1], bits_of(in->type[0]));
	struct simt_op *op;

	op = lower_emit(l, "testp.%s.%s", names[in->sub], ptx_type_name(in->type[0]));
	if (!op)
		return l->error;
	op->a = a;
	op->d = lower_pred_dst(l, &in->o[0]);
	if (op->d < 0)
		op->d = lower_temp(l, 1);
	return 0;
}

int lower_arith(struct lower *l, const struct ptx_insn *in)
{
	unsigned t = in->type[0];

	if (in->op == PTX_TESTP)
		return lower_testp(l, in);
	if (in->flags & PTX_F_OOB)
		return lower_refuse(l, ".oob");
	if (is_packed_int(t))
		return lower_packed_int(l, in);
	if (lower_is_int(t))
		return lower_int_arith(l, in);
	if (in->op == PTX_MIN || in->op == PTX_MAX)
		return lower_minmax(l, in);
	if (is_half(t))
		return lower_half(l, in);
	return lower_float(l, in);
}
