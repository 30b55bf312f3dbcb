/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of logic, shifts, bit fields and the video instructions. */
#include <stdio.h>

#include "simt/lower/lower.h"

static unsigned bits_of(const struct ptx_insn *in)
{
	return ptx_type_bits(in->type[0]);
}

struct shape {
	unsigned d, s[4];
	unsigned nsrc;
};

static struct simt_op *emit_shape(struct lower *l, const struct ptx_insn *in,
				  const char *name, const struct shape *sh)
{
	int32_t s[4] = {0}, d;
	struct simt_op *op;

	for (unsigned k = 0; k < sh->nsrc; k++)
		s[k] = lower_src(l, &in->o[k + 1], sh->s[k]);
	d = lower_dst(l, &in->o[0], sh->d);
	op = lower_emit(l, "%s", name);
	if (!op)
		return NULL;
	op->d = d;
	op->a = s[0];
	op->b = s[1];
	op->c = s[2];
	op->e = s[3];
	return op;
}

static int emit(struct lower *l, const struct ptx_insn *in, const char *name,
		const struct shape *sh)
{
	return emit_shape(l, in, name, sh) ? 0 : l->error;
}

/* and, or, xor, not of predicates: words */
static int lower_pred_logic(struct lower *l, const struct ptx_insn *in)
{
	bool two = in->op != PTX_NOT;
	int32_t s[2];
	struct simt_op *op;

	for (unsigned k = 0; k < 2; k++) {
		const struct ptx_opnd *o = &in->o[two ? k + 1 : 1];

		s[k] = o->kind == PTX_O_REG ? l->row[o->idx]
					    : lower_konst(l, 32, o->imm ? ~0u : 0);
	}
	op = lower_emit(l, "%s.pred", ptx_op_name(in->op));
	if (!op)
		return l->error;
	op->d = lower_pred_dst(l, &in->o[0]);
	if (op->d < 0)
		op->d = lower_temp(l, 1);
	op->a = s[0];
	op->b = s[1];
	op->y = (in->o[1].flags & PTX_OF_NEG ? 1 : 0) |
		(two && in->o[2].flags & PTX_OF_NEG ? 2 : 0);
	return 0;
}

/* d [p] a b c immLut [q] */
static int lower_lop3(struct lower *l, const struct ptx_insn *in)
{
	int32_t a = lower_src(l, &in->o[2], 32), b = lower_src(l, &in->o[3], 32);
	int32_t c = lower_src(l, &in->o[4], 32), d = lower_dst(l, &in->o[0], 32);
	bool has_p = in->o[1].kind != PTX_O_NONE && in->o[1].kind != PTX_O_SINK;
	struct simt_op *op = lower_emit(l, "lop3.b32");

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = c;
	op->y = (uint8_t)in->o[5].imm;
	if (!has_p)
		return 0;
	op = lower_emit(l, "nonzero.b32");
	if (!op)
		return l->error;
	op->a = d;
	op->d = lower_pred_dst(l, &in->o[1]);
	op->x = in->bop == PTX_B_AND ? 1 : in->bop == PTX_B_OR ? 2 : 0;
	if (in->nopnds > 6 && in->o[6].kind == PTX_O_REG) {
		op->c = l->row[in->o[6].idx];
		op->y = in->o[6].flags & PTX_OF_NEG ? 1 : 0;
	} else {
		op->x = 0;
	}
	return 0;
}

static int lower_prmt(struct lower *l, const struct ptx_insn *in)
{
	static const char *const names[] = {
		[PTX_PRMT_INDEX] = "prmt.b32",     [PTX_PRMT_F4E] = "prmt.f4e.b32",
		[PTX_PRMT_B4E] = "prmt.b4e.b32",   [PTX_PRMT_RC8] = "prmt.rc8.b32",
		[PTX_PRMT_ECL] = "prmt.ecl.b32",   [PTX_PRMT_ECR] = "prmt.ecr.b32",
		[PTX_PRMT_RC16] = "prmt.rc16.b32",
	};

	return emit(l, in, names[in->sub], &(struct shape){32, {32, 32, 32}, 3});
}

static const char *video_name(unsigned op)
{
	return ptx_op_name(op);
}

/*
 * The scalar video instructions share one handler; imm packs what it needs to know, see
 * handlers/video.c.
 */
static int lower_video(struct lower *l, const struct ptx_insn *in)
{
	bool set = in->op == PTX_VSET;
	unsigned td = set ? PTX_T_U32 : in->type[0];
	unsigned ta = in->type[set ? 0 : 1], tb = in->type[set ? 1 : 2];
	bool three = in->nopnds > 3 && in->o[3].kind != PTX_O_NONE;
	int32_t a = lower_src(l, &in->o[1], 32), b = lower_src(l, &in->o[2], 32);
	int32_t c = three ? lower_src(l, &in->o[3], 32) : lower_konst(l, 32, 0);
	int32_t d = lower_dst(l, &in->o[0], 32);
	struct simt_op *op = lower_emit(l, "video.%s", video_name(in->op));
	uint8_t how[8] = {
		(uint8_t)((td == PTX_T_S32) | (ta == PTX_T_S32) << 1 |
			  (tb == PTX_T_S32) << 2 | (in->flags & PTX_F_SAT ? 8 : 0) |
			  (three ? 16 : 0) | (in->flags & PTX_F_PO ? 32 : 0)),
		in->o[0].sel,
		in->o[1].sel,
		in->o[2].sel,
		in->sub,
		in->mode,
		in->cmp,
		(uint8_t)((in->o[1].flags & PTX_OF_NEG ? 1 : 0) |
			  (in->o[2].flags & PTX_OF_NEG ? 2 : 0) |
			  (three && in->o[3].flags & PTX_OF_NEG ? 4 : 0)),
	};

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = c;
	memcpy(&op->imm, how, sizeof(how));
	return 0;
}

/* Four bytes at once. */
static int lower_bytes(struct lower *l, const struct ptx_insn *in)
{
	int32_t d = lower_dst(l, &in->o[0], 32), a = lower_src(l, &in->o[1], 32);
	int32_t b = lower_src(l, &in->o[2], 32), c = lower_src(l, &in->o[3], 32);
	struct simt_op *op = lower_emit(l, "video.vabsdiff4");

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = c;
	op->n = in->sub == PTX_ATOM_ADD;
	return 0;
}

int lower_bits(struct lower *l, const struct ptx_insn *in)
{
	static const char *const shf[] = {[PTX_SHF_L_CLAMP] = "shf.l.clamp",
					  [PTX_SHF_L_WRAP] = "shf.l.wrap",
					  [PTX_SHF_R_CLAMP] = "shf.r.clamp",
					  [PTX_SHF_R_WRAP] = "shf.r.wrap"};
	unsigned b = bits_of(in);
	const char *n = ptx_op_name(in->op), *t = lower_int_name(in->type[0]);
	char name[40];

	switch (in->op) {
	case PTX_VABSDIFF4:
		return lower_bytes(l, in);
	case PTX_AND:
	case PTX_OR:
	case PTX_XOR:
	case PTX_NOT:
		if (in->type[0] == PTX_T_PRED)
			return lower_pred_logic(l, in);
		snprintf(name, sizeof(name), "%s.b%u", n, b);
		return emit(l, in, name,
			    &(struct shape){b, {b, b}, in->op == PTX_NOT ? 1 : 2});
	case PTX_CNOT:
	case PTX_BREV:
		snprintf(name, sizeof(name), "%s.b%u", n, b);
		return emit(l, in, name, &(struct shape){b, {b}, 1});
	case PTX_POPC:
	case PTX_CLZ:
		snprintf(name, sizeof(name), "%s.b%u", n, b);
		return emit(l, in, name, &(struct shape){32, {b}, 1});
	case PTX_SHL:
		snprintf(name, sizeof(name), "shl.b%u", b);
		return emit(l, in, name, &(struct shape){b, {b, 32}, 2});
	case PTX_SHR:
		snprintf(name, sizeof(name), "shr.%s", t);
		return emit(l, in, name, &(struct shape){b, {b, 32}, 2});
	case PTX_SHF:
		return emit(l, in, shf[in->sub], &(struct shape){32, {32, 32, 32}, 3});
	case PTX_LOP3:
		return lower_lop3(l, in);
	case PTX_PRMT:
		return lower_prmt(l, in);
	case PTX_BFIND:
		snprintf(name, sizeof(name), "bfind%s.%s",
			 in->flags & PTX_F_SHIFTAMT ? ".shiftamt" : "", t);
		return emit(l, in, name, &(struct shape){32, {b}, 1});
	case PTX_BFE:
		snprintf(name, sizeof(name), "bfe.%s", t);
		return emit(l, in, name, &(struct shape){b, {b, 32, 32}, 3});
	case PTX_BFI:
		snprintf(name, sizeof(name), "bfi.b%u", b);
		return emit(l, in, name, &(struct shape){b, {b, b, 32, 32}, 4});
	case PTX_SZEXT:
		snprintf(name, sizeof(name), "szext.%s.%s", in->sub ? "wrap" : "clamp",
			 t);
		return emit(l, in, name, &(struct shape){32, {32, 32}, 2});
	case PTX_BMSK:
		return emit(l, in, in->sub ? "bmsk.wrap.b32" : "bmsk.clamp.b32",
			    &(struct shape){32, {32, 32}, 2});
	case PTX_FNS:
		return emit(l, in, "fns.b32", &(struct shape){32, {32, 32, 32}, 3});
	case PTX_DP4A:
	case PTX_DP2A:
		snprintf(name, sizeof(name), "%s%s.%s.%s", n,
			 in->op == PTX_DP4A      ? ""
			 : in->sub == PTX_MUL_HI ? ".hi"
						 : ".lo",
			 t, lower_int_name(in->type[1]));
		return emit(l, in, name, &(struct shape){32, {32, 32, 32}, 3});
	default:
		return lower_video(l, in);
	}
}
