/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of cvt: the frequent forms by name, the others described to "cvt.x". */
#include <stdio.h>

#include "simt/handlers/cvt.h"
#include "simt/handlers/float.h"
#include "simt/handlers/half.h"
#include "simt/lower/lower.h"

static int cvt_type(unsigned t)
{
	switch (t) {
	case PTX_T_U8:
	case PTX_T_B8:
		return CVT_U8;
	case PTX_T_S8:
		return CVT_S8;
	case PTX_T_U16:
	case PTX_T_B16:
		return CVT_U16;
	case PTX_T_S16:
		return CVT_S16;
	case PTX_T_U32:
	case PTX_T_B32:
		return CVT_U32;
	case PTX_T_S32:
		return CVT_S32;
	case PTX_T_U64:
	case PTX_T_B64:
		return CVT_U64;
	case PTX_T_S64:
		return CVT_S64;
	case PTX_T_F16:
	case PTX_T_F16X2:
		return CVT_F16;
	case PTX_T_BF16:
	case PTX_T_BF16X2:
		return CVT_BF16;
	case PTX_T_F32:
		return CVT_F32;
	case PTX_T_F64:
		return CVT_F64;
	case PTX_T_TF32:
		return CVT_TF32;
	case PTX_T_E4M3:
	case PTX_T_E4M3X2:
		return CVT_E4M3;
	case PTX_T_E5M2:
	case PTX_T_E5M2X2:
		return CVT_E5M2;
	default:
		return -1;
	}
}

static bool is_pair(unsigned t)
{
	return t == PTX_T_F16X2 || t == PTX_T_BF16X2 || t == PTX_T_E4M3X2 ||
	       t == PTX_T_E5M2X2;
}

static bool is_float(unsigned t)
{
	return cvt_type(t) >= CVT_NUM_INTS;
}

static unsigned round_of(unsigned rnd, bool *ret_rint)
{
	*ret_rint = rnd >= PTX_R_RNI;
	switch (rnd) {
	case PTX_R_RZ:
	case PTX_R_RZI:
		return FX_RZ;
	case PTX_R_RM:
	case PTX_R_RMI:
		return FX_RM;
	case PTX_R_RP:
	case PTX_R_RPI:
		return FX_RP;
	case PTX_R_RNA:
		return FX_RNA;
	default:
		return FX_RN;
	}
}

/* The name of a handler made for this very conversion, or "". */
static void fast_name(const struct ptx_insn *in, unsigned sbits, unsigned dbits,
		      char *buf, size_t cap)
{
	static const char *const rint[] = {"rni", "rzi", "rmi", "rpi"};
	unsigned td = in->type[0], ts = in->type[1];
	unsigned bd = ptx_type_bits(td), bs = ptx_type_bits(ts);
	const char *nd = ptx_type_name(td), *ns = ptx_type_name(ts);
	bool plain =
		!(in->flags & (PTX_F_SAT | PTX_F_RELU | PTX_F_SATFINITE | PTX_F_FTZ));
	bool rn = in->rnd == PTX_R_NONE || in->rnd == PTX_R_RN;

	buf[0] = 0;
	if (lower_is_int(td) && lower_is_int(ts)) {
		if (in->flags & PTX_F_SAT)
			return;
		if (bd == dbits) /* extended by the source's sign, or cut */
			snprintf(buf, cap, "ext.%s.u%u.u%u",
				 bd <= bs ? (bd == 8    ? "u8"
					     : bd == 16 ? "u16"
					     : bd == 32 ? "u32"
							: "u64")
					  : lower_int_name(ts),
				 sbits, dbits);
		else if (bd <= bs)
			snprintf(buf, cap, "ext.%s.u%u.u%u", lower_int_name(td), sbits,
				 dbits);
		return;
	}
	/* flushing a source changes nothing when it is rounded to nearest or to zero */
	if (ts == PTX_T_F32 && (in->flags & ~PTX_F_SAT) == PTX_F_FTZ && !is_float(td) &&
	    (in->rnd == PTX_R_RNI || in->rnd == PTX_R_RZI))
		plain = true;
	if (td == PTX_T_F32 && ts == PTX_T_F32 && in->rnd == PTX_R_NONE && sbits == 32 &&
	    dbits == 32 && !(in->flags & ~(PTX_F_SAT | PTX_F_FTZ)) && in->flags) {
		snprintf(buf, cap, "cvt%s%s.f32.f32", in->flags & PTX_F_FTZ ? ".ftz" : "",
			 in->flags & PTX_F_SAT ? ".sat" : "");
		return;
	}
	if (!plain && !(in->flags == PTX_F_SAT && is_float(ts) && !is_float(td)))
		return;
	if (sbits != bs || dbits != bd)
		return;
	if (is_float(ts) && !is_float(td) && (ts == PTX_T_F32 || ts == PTX_T_F64)) {
		if (bd >= 32 && in->rnd >= PTX_R_RNI)
			snprintf(buf, cap, "cvt.%s.%s.%s", rint[in->rnd - PTX_R_RNI],
				 lower_int_name(td), ns);
		return;
	}
	if (!is_float(ts)) {
		if (rn && bs >= 32 && (td == PTX_T_F32 || td == PTX_T_F64))
			snprintf(buf, cap, "cvt.%s.%s", nd, lower_int_name(ts));
		return;
	}
	if (td == ts && in->rnd >= PTX_R_RNI && (td == PTX_T_F32 || td == PTX_T_F64))
		snprintf(buf, cap, "cvt.%s.%s", rint[in->rnd - PTX_R_RNI], nd);
	else if (td == ts && td == PTX_T_F64)
		snprintf(buf, cap, "mov.b64");
	else if (rn && td != ts && td != PTX_T_TF32 &&
		 (ts == PTX_T_F32 || td == PTX_T_F32 || td == PTX_T_F64))
		snprintf(buf, cap, "cvt.%s.%s", nd, ns);
}

static int emit_cvt(struct lower *l, const struct ptx_insn *in, const char *name,
		    unsigned sbits, unsigned dbits, bool two)
{
	int32_t a = lower_src(l, &in->o[1], sbits);
	int32_t b = two ? lower_src(l, &in->o[2], sbits) : 0;
	int32_t d = lower_dst(l, &in->o[0], dbits);
	struct simt_op *op = lower_emit(l, "%s", name);
	bool rint;
	struct cvt_how how = {
		.src = (uint8_t)cvt_type(in->type[1]),
		.dst = (uint8_t)cvt_type(in->type[0]),
		.src_bits = (uint8_t)sbits,
		.dst_bits = (uint8_t)dbits,
		.rnd = (uint8_t)round_of(in->rnd, &rint),
		.flags = (uint8_t)((in->flags & PTX_F_FTZ ? CVT_FTZ : 0) |
				   (in->flags & PTX_F_SAT ? CVT_SAT : 0) |
				   (in->flags & PTX_F_RELU ? CVT_RELU : 0) |
				   (in->flags & PTX_F_SATFINITE ? CVT_FIN : 0)),
	};

	if (!op)
		return l->error;
	if (rint)
		how.flags |= CVT_RINT;
	op->d = d;
	op->a = a;
	op->b = b;
	memcpy(&op->imm, &how, sizeof(how));
	return 0;
}

/* cvt.pack.sat.<d>.s32 d, a, b {, c}: see handlers/video.c */
static int lower_cvtpack(struct lower *l, const struct ptx_insn *in)
{
	bool three = in->nopnds > 3 && in->o[3].kind != PTX_O_NONE;
	int32_t a = lower_src(l, &in->o[1], 32), b = lower_src(l, &in->o[2], 32);
	int32_t c = three ? lower_src(l, &in->o[3], 32) : lower_konst(l, 32, 0);
	int32_t d = lower_dst(l, &in->o[0], 32);
	struct simt_op *op = lower_emit(l, "cvtpack");

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = c;
	op->n = ptx_type_bits(in->type[0]);
	op->x = in->type[0] == PTX_T_S2 || in->type[0] == PTX_T_S4 ||
		in->type[0] == PTX_T_S8 || in->type[0] == PTX_T_S16;
	return 0;
}

int lower_cvt(struct lower *l, const struct ptx_insn *in)
{
	unsigned bd = ptx_type_bits(in->type[0]), bs = ptx_type_bits(in->type[1]);
	unsigned sbits, dbits;
	char name[40];

	if (in->op == PTX_CVTPACK)
		return lower_cvtpack(l, in);
	if (cvt_type(in->type[0]) < 0 || cvt_type(in->type[1]) < 0 ||
	    (in->nopnds > 3 && in->o[3].kind != PTX_O_NONE))
		return lower_refuse(l, "conversion");
	sbits = lower_width(l, &in->o[1], bs < 16 ? 16 : bs);
	dbits = lower_width(l, &in->o[0], bd < 16 ? 16 : bd);
	if (is_pair(in->type[0]) && is_pair(in->type[1]))
		return emit_cvt(l, in, "cvt.pair", sbits, dbits, false);
	if (is_pair(in->type[0])) {
		bool rn = in->rnd == PTX_R_RN && !in->flags;

		if (rn && in->type[0] == PTX_T_F16X2)
			return emit_cvt(l, in, "cvt.f16x2.f32", sbits, dbits, true);
		if (rn && in->type[0] == PTX_T_BF16X2)
			return emit_cvt(l, in, "cvt.bf16x2.f32", sbits, dbits, true);
		return emit_cvt(l, in, "cvt.pack", sbits, dbits, true);
	}
	fast_name(in, sbits, dbits, name, sizeof(name));
	return emit_cvt(l, in, *name && simt_handler_find(name) ? name : "cvt.x", sbits,
			dbits, false);
}
