/* SPDX-License-Identifier: Apache-2.0 */
/* Values that instructions make of their operands. */
#include "ptx/extent/learn.h"

bool learn_is_unsigned(uint8_t type)
{
	return type == PTX_T_U16 || type == PTX_T_U32 || type == PTX_T_U64 ||
	       type == PTX_T_U8 || type == PTX_T_B16 || type == PTX_T_B32 ||
	       type == PTX_T_B64 || type == PTX_T_B8;
}

bool learn_is_integer(uint8_t type)
{
	return learn_is_unsigned(type) || type == PTX_T_S8 || type == PTX_T_S16 ||
	       type == PTX_T_S32 || type == PTX_T_S64;
}

static int64_t sign_extended(uint64_t v, unsigned bits)
{
	unsigned unused = bits && bits < 64 ? 64 - bits : 0;

	return (int64_t)(v << unused) >> unused;
}

uint32_t learn_value(struct learn *l, const struct ptx_insn *in, const struct ptx_opnd *o,
		     uint8_t type, uint32_t ctx)
{
	switch ((enum ptx_opnd_kind)o->kind) {
	case PTX_O_REG:
		return learn_reg(l, o->idx, (uint32_t)(in - l->f->insns), ctx);
	case PTX_O_IMM:
		return learn_number(l, sign_extended(o->imm, ptx_type_bits(type)));
	case PTX_O_SREG:
		return learn_node(l, (struct node){.op = NODE_SREG, .imm = o->idx});
	case PTX_O_VAR:
	case PTX_O_LOCAL:
	case PTX_O_PARAM:
	case PTX_O_FUNC:
		return learn_node(l, (struct node){.op = NODE_AWAY});
	default:
		return learn_unknown(l);
	}
}

static uint32_t arg(struct learn *l, const struct ptx_insn *in, unsigned k, uint32_t ctx)
{
	return learn_value(l, in, &in->o[k], in->type[0], ctx);
}

static uint32_t unsigned_arg(struct learn *l, const struct ptx_insn *in, unsigned k,
			     uint32_t ctx)
{
	uint32_t v = arg(l, in, k, ctx);

	return learn_is_unsigned(in->type[0])
		       ? learn_unsigned(l, v, ptx_type_bits(in->type[0]))
		       : v;
}

static uint32_t multiplied(struct learn *l, const struct ptx_insn *in, uint32_t ctx)
{
	uint32_t a, b;

	if (in->sub == PTX_MUL_LO || in->sub == PTX_MUL_NONE) {
		a = arg(l, in, 1, ctx);
		b = arg(l, in, 2, ctx);
		return learn_made_of(l, NODE_MUL, a, b);
	}
	a = unsigned_arg(l, in, 1, ctx);
	b = unsigned_arg(l, in, 2, ctx);
	a = learn_made_of(l, NODE_MUL, a, b);
	if (in->sub == PTX_MUL_WIDE)
		return a;
	return learn_with_imm(l, NODE_SHR, a, 0, ptx_type_bits(in->type[0]));
}

static uint32_t shifted(struct learn *l, const struct ptx_insn *in, uint32_t ctx)
{
	uint32_t a;

	if (in->o[2].kind != PTX_O_IMM || in->o[2].imm > 62)
		return learn_unknown(l);
	if (in->op == PTX_SHL)
		return learn_made_of(l, NODE_MUL, arg(l, in, 1, ctx),
				     learn_number(l, (int64_t)1 << in->o[2].imm));
	a = unsigned_arg(l, in, 1, ctx);
	return learn_with_imm(l, NODE_SHR, a, 0, (int64_t)in->o[2].imm);
}

/* A load: of a parameter, or of what may be anything that its type can hold. */
static uint32_t loaded(struct learn *l, const struct ptx_insn *in, uint32_t elem)
{
	const struct ptx_opnd *from = &in->o[1];
	unsigned bits = ptx_type_bits(in->type[0]);

	if (from->kind == PTX_O_KPARAM && bits >= 8 && bits <= 64 && from->off >= 0 &&
	    from->off < PTX_MAX_PARAM_BYTES) {
		uint32_t n = learn_node(
			l, (struct node){.op = NODE_PARAM,
					 .bits = (uint8_t)bits,
					 .imm = from->off + (int64_t)elem * (bits / 8)});

		return bits < 32 && learn_is_unsigned(in->type[0])
			       ? learn_unsigned(l, n, bits)
			       : n;
	}
	if (in->type[0] == PTX_T_U8 || in->type[0] == PTX_T_U16)
		return learn_node(l, (struct node){.op = NODE_RANGE,
						   .imm = ((int64_t)1 << bits) - 1});
	return learn_unknown(l);
}

static uint32_t converted(struct learn *l, const struct ptx_insn *in, uint32_t ctx)
{
	uint32_t a;

	if (!learn_is_integer(in->type[0]) || !learn_is_integer(in->type[1]))
		return learn_unknown(l);
	a = learn_value(l, in, &in->o[1], in->type[1], ctx);
	if (learn_is_unsigned(in->type[1]) &&
	    ptx_type_bits(in->type[1]) < ptx_type_bits(in->type[0]))
		return learn_unsigned(l, a, ptx_type_bits(in->type[1]));
	return a;
}

static uint32_t field(struct learn *l, const struct ptx_insn *in)
{
	const struct ptx_opnd *len = &in->o[3];

	if (!learn_is_unsigned(in->type[0]) || len->kind != PTX_O_IMM || len->imm > 31)
		return learn_unknown(l);
	return learn_node(
		l, (struct node){.op = NODE_RANGE, .imm = ((int64_t)1 << len->imm) - 1});
}

static uint32_t of_two(struct learn *l, enum node_op op, const struct ptx_insn *in,
		       uint32_t ctx)
{
	uint32_t a = arg(l, in, 1, ctx), b = arg(l, in, 2, ctx);

	return learn_made_of(l, op, a, b);
}

/* Where it matters whether the numbers have a sign. */
static uint32_t of_two_unsigned(struct learn *l, enum node_op op,
				const struct ptx_insn *in, uint32_t ctx)
{
	uint32_t a = unsigned_arg(l, in, 1, ctx), b = unsigned_arg(l, in, 2, ctx);

	return learn_made_of(l, op, a, b);
}

uint32_t learn_computed(struct learn *l, const struct ptx_insn *in, uint32_t elem,
			uint32_t ctx)
{
	uint32_t a;

	switch ((enum ptx_op)in->op) {
	case PTX_LD:
	case PTX_LDU:
		return loaded(l, in, elem);
	case PTX_CVT:
		return converted(l, in, ctx);
	case PTX_CVTA:
		return learn_value(l, in, &in->o[1], PTX_T_U64, ctx);
	case PTX_SHFL: /* another thread's */
		return learn_with_imm(
			l, NODE_ANY, learn_value(l, in, &in->o[2], PTX_T_B32, ctx), 0, 0);
	case PTX_POPC:
	case PTX_CLZ:
		return learn_node(l, (struct node){.op = NODE_RANGE, .imm = 64});
	case PTX_MOV:
		if (in->o[0].kind == PTX_O_VEC || in->o[1].kind == PTX_O_VEC)
			return learn_unknown(l);
		return arg(l, in, 1, ctx);
	default:
		break;
	}
	if (!learn_is_integer(in->type[0]))
		return learn_unknown(l);
	switch ((enum ptx_op)in->op) {
	case PTX_ADD:
		return of_two(l, NODE_ADD, in, ctx);
	case PTX_SUB:
		a = arg(l, in, 2, ctx);
		if (learn_is_number(l, a) && l->nodes[a].imm != INT64_MIN)
			return learn_made_of(l, NODE_ADD, arg(l, in, 1, ctx),
					     learn_number(l, -l->nodes[a].imm));
		return of_two(l, NODE_SUB, in, ctx);
	case PTX_MUL:
	case PTX_MUL24:
		return multiplied(l, in, ctx);
	case PTX_MAD:
	case PTX_MAD24:
		a = multiplied(l, in, ctx);
		return learn_made_of(l, NODE_ADD, a, arg(l, in, 3, ctx));
	case PTX_NEG:
		return learn_made_of(l, NODE_SUB, learn_number(l, 0), arg(l, in, 1, ctx));
	case PTX_NOT:
		return learn_made_of(l, NODE_SUB, learn_number(l, -1),
				     arg(l, in, 1, ctx));
	case PTX_ABS:
		a = arg(l, in, 1, ctx);
		return learn_made_of(l, NODE_MAX, a,
				     learn_made_of(l, NODE_SUB, learn_number(l, 0), a));
	case PTX_SHL:
	case PTX_SHR:
		return shifted(l, in, ctx);
	case PTX_DIV:
		return of_two_unsigned(l, NODE_DIV, in, ctx);
	case PTX_REM:
		return of_two_unsigned(l, NODE_REM, in, ctx);
	case PTX_AND:
		return of_two(l, NODE_AND, in, ctx);
	case PTX_OR:
		return of_two(l, NODE_OR, in, ctx);
	case PTX_XOR:
		return of_two(l, NODE_XOR, in, ctx);
	case PTX_MIN:
		return of_two_unsigned(l, NODE_MIN, in, ctx);
	case PTX_MAX:
		return of_two_unsigned(l, NODE_MAX, in, ctx);
	case PTX_SELP:
		return of_two(l, NODE_UNION, in, ctx);
	case PTX_BFE:
		return field(l, in);
	default:
		return learn_unknown(l);
	}
}
