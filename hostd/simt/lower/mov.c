/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of moves, packing, and conversions between kinds of addresses. */
#include "simt/lower/lower.h"
#include "simt/mem.h"
#include "simt/sys.h"

static int emit_mov(struct lower *l, int32_t d, int32_t s, unsigned bits)
{
	struct simt_op *op = lower_emit(l, "mov.b%u", bits);

	if (!op)
		return l->error;
	op->d = d;
	op->a = s;
	return 0;
}

static int mov_sreg(struct lower *l, const struct ptx_insn *in)
{
	unsigned sreg = in->o[1].idx, bits = lower_width(l, &in->o[0], 32);
	bool pred = sreg == PTX_SR_IS_EXPLICIT_CLUSTER;
	int32_t d = pred ? lower_pred_dst(l, &in->o[0]) : lower_dst(l, &in->o[0], bits);
	struct simt_op *op;

	if (pred && d < 0)
		d = lower_temp(l, 1);
	op = pred ? lower_emit(l, "sreg.pred") : lower_emit(l, "sreg.b%u", bits);
	if (!op)
		return l->error;
	op->d = d;
	op->n = sreg;
	if (sreg >= PTX_SR_RESERVED_SMEM_BEGIN && sreg <= PTX_SR_RESERVED_SMEM_1)
		l->prog->has_reserved = true;
	return 0;
}

static int mov_pred(struct lower *l, const struct ptx_insn *in)
{
	const struct ptx_opnd *s = &in->o[1];
	int32_t a = s->kind == PTX_O_REG ? l->row[s->idx]
					 : lower_konst(l, 32, s->imm ? ~0u : 0);
	int32_t d = lower_pred_dst(l, &in->o[0]);
	struct simt_op *op = lower_emit(l, "mov.pred");

	if (!op)
		return l->error;
	op->d = d < 0 ? lower_temp(l, 1) : d;
	op->a = op->b = a;
	op->y = s->flags & PTX_OF_NEG ? 1 : 0;
	return 0;
}

static int mov_pack(struct lower *l, const struct ptx_insn *in, unsigned bits)
{
	const struct ptx_opnd *v = &in->o[1];
	unsigned part = bits / v->n, eb = part == 8 ? 16 : part;
	int32_t e[4] = {0}, d = lower_dst(l, &in->o[0], bits);
	struct simt_op *op;

	for (unsigned k = 0; k < v->n && k < 4; k++)
		e[k] = lower_src(l, &v->elem[k], eb);
	op = lower_emit(l, "pack.%u.%u", part, bits);
	if (!op)
		return l->error;
	op->d = d;
	op->a = e[0];
	op->b = e[1];
	op->c = e[2];
	op->e = e[3];
	return 0;
}

static int mov_unpack(struct lower *l, const struct ptx_insn *in, unsigned bits)
{
	const struct ptx_opnd *v = &in->o[0];
	unsigned part = bits / v->n, eb = part == 8 ? 16 : part;
	int32_t s = lower_src(l, &in->o[1], bits);

	for (unsigned k = 0; k < v->n; k++) {
		struct simt_op *op;

		if (v->elem[k].kind != PTX_O_REG)
			continue;
		op = lower_emit(l, "unpack.%u.%u", bits, eb);
		if (!op)
			return l->error;
		op->d = l->row[v->elem[k].idx];
		op->a = s;
		op->n = k * part;
		op->x = part == 8;
	}
	return 0;
}

int lower_mov(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]);

	if (in->o[1].kind == PTX_O_SREG)
		return mov_sreg(l, in);
	if (in->type[0] == PTX_T_PRED)
		return mov_pred(l, in);
	if (in->o[0].kind == PTX_O_VEC && in->o[1].kind == PTX_O_VEC)
		return lower_refuse(l, "vector to vector");
	if (in->o[1].kind == PTX_O_VEC)
		return mov_pack(l, in, bits);
	if (in->o[0].kind == PTX_O_VEC)
		return mov_unpack(l, in, bits);
	if (bits == 8)
		bits = 16;
	return emit_mov(l, lower_dst(l, &in->o[0], bits), lower_src(l, &in->o[1], bits),
			bits);
}

/* Offset that a window adds to an address to make it generic. */
static uint64_t window_base(unsigned space)
{
	switch (space) {
	case PTX_S_SHARED:
	case PTX_S_SHARED_CLUSTER:
		return SIMT_SHARED_BASE;
	case PTX_S_LOCAL:
		return SIMT_LOCAL_BASE;
	case PTX_S_PARAM:
		return SIMT_PARAM_BASE;
	default:
		return 0;
	}
}

static int two_sources(struct lower *l, const struct ptx_insn *in, const char *name,
		       unsigned db, unsigned ab, unsigned bb)
{
	int32_t a = lower_src(l, &in->o[1], ab), b = lower_src(l, &in->o[2], bb);
	int32_t d = lower_dst(l, &in->o[0], db);
	struct simt_op *op = lower_emit(l, "%s", name);

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->x = lower_width(l, &in->o[1], ab) == 64;
	op->y = lower_width(l, &in->o[0], db) == 64;
	op->n = in->space;
	return 0;
}

static int lower_isspacep(struct lower *l, const struct ptx_insn *in)
{
	static const uint8_t kind[] = {
		[PTX_S_NONE] = SYS_GLOBAL,   [PTX_S_GLOBAL] = SYS_GLOBAL,
		[PTX_S_SHARED] = SYS_SHARED, [PTX_S_SHARED_CLUSTER] = SYS_CLUSTER,
		[PTX_S_LOCAL] = SYS_LOCAL,   [PTX_S_CONST] = SYS_CONST,
		[PTX_S_PARAM] = SYS_PARAM,
	};
	int32_t a = lower_src(l, &in->o[1], 64), d = lower_pred_dst(l, &in->o[0]);
	bool wide = lower_width(l, &in->o[1], 64) == 64;
	struct simt_op *op = lower_emit(l, "isspacep");

	if (!op)
		return l->error;
	op->d = d < 0 ? lower_temp(l, 1) : d;
	op->a = a;
	op->x = kind[in->space];
	op->y = wide;
	return 0;
}

int lower_cvta(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	uint64_t base = window_base(in->space);
	int32_t a, d, k;
	struct simt_op *op;

	if (in->op == PTX_ISSPACEP)
		return lower_isspacep(l, in);
	if (in->op == PTX_MAPA)
		return two_sources(l, in, "mapa", bits, bits, 32);
	a = lower_src(l, &in->o[1], bits);
	d = lower_dst(l, &in->o[0], in->op == PTX_GETCTARANK ? 32 : bits);
	if (in->op == PTX_GETCTARANK) {
		op = lower_emit(l, "getctarank");
		if (!op)
			return l->error;
		op->d = d;
		op->a = a;
		op->x = lower_width(l, &in->o[1], bits) == 64;
		op->n = in->space;
		return 0;
	}
	if (!base)
		return emit_mov(l, d, a, bits);
	k = lower_konst(l, bits, base);
	op = lower_emit(l, "%s.u%u", in->flags & PTX_F_TO ? "sub" : "add", bits);
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = k;
	return 0;
}
