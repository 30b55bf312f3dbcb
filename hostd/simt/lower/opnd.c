/* SPDX-License-Identifier: Apache-2.0 */
/* Operands: constant rows, scratch rows, rows of registers, values of symbols. */
#include <errno.h>
#include <stdlib.h>

#include "simt/lower/lower.h"

#define MAX_KONST (1u << 30)

struct lower_konst {
	uint64_t value;
	int32_t row;
	uint8_t bits; /* 0: free */
};

/* ---- constants ---- */

static size_t konst_slot(const struct lower *l, unsigned bits, uint64_t value)
{
	uint64_t h = (value + bits) * 0x9e3779b97f4a7c15ull;
	size_t i = (h >> 32) & (l->konst_map_cap - 1);

	while (l->konst_map[i].bits &&
	       (l->konst_map[i].bits != bits || l->konst_map[i].value != value))
		i = (i + 1) & (l->konst_map_cap - 1);
	return i;
}

static int konst_grow(struct lower *l)
{
	struct lower_konst *old = l->konst_map;
	size_t cap = l->konst_map_cap;

	if (2 * (l->konst_num + 1) < cap)
		return 0;
	l->konst_map_cap = cap ? 2 * cap : 256;
	l->konst_map = calloc(l->konst_map_cap, sizeof(*l->konst_map));
	if (!l->konst_map) {
		l->konst_map = old;
		l->konst_map_cap = cap;
		return -ENOMEM;
	}
	for (size_t i = 0; i < cap; i++)
		if (old[i].bits)
			l->konst_map[konst_slot(l, old[i].bits, old[i].value)] = old[i];
	free(old);
	return 0;
}

int32_t lower_konst(struct lower *l, unsigned bits, uint64_t value)
{
	size_t bytes = ALIGN_UP((size_t)bits / 8 * SIMT_WARP, (size_t)64), i;
	uint8_t *row;

	if (bits < 64)
		value &= (1ull << bits) - 1;
	if (konst_grow(l) < 0)
		return -1;
	i = konst_slot(l, bits, value);
	if (l->konst_map[i].bits)
		return l->konst_map[i].row;
	if (l->konst_bytes + bytes > l->konst_cap) {
		size_t cap = l->konst_cap ? 2 * l->konst_cap : 16384;
		uint8_t *n = cap > MAX_KONST ? NULL : realloc(l->konst, cap);

		if (!n)
			return -1;
		l->konst = n;
		l->konst_cap = cap;
	}
	row = l->konst + l->konst_bytes;
	memset(row, 0, bytes);
	for (unsigned k = 0; k < SIMT_WARP; k++)
		memcpy(row + (size_t)k * bits / 8, &value, MIN(bits / 8, 8u));
	l->konst_map[i].bits = (uint8_t)bits;
	l->konst_map[i].value = value;
	l->konst_map[i].row = (int32_t)(l->konst_bytes | SIMT_KONST);
	l->konst_bytes += bytes;
	l->konst_num++;
	return l->konst_map[i].row;
}

/* ---- operands ---- */

/*
 * A split may lose its turn between two ops of one instruction, so scratch rows are kept
 * apart by width like any other.
 */
int32_t lower_temp(struct lower *l, unsigned bits)
{
	unsigned class = bits == 1    ? 0
			 : bits == 16 ? 1
			 : bits == 32 ? 2
			 : bits == 64 ? 3
				      : 4;
	unsigned k = l->temps_used[class]++;

	k = MIN(k, LOWER_TEMPS - 1u);
	if (!l->temp[class][k]) {
		l->temp[class][k] = l->frame;
		l->frame += bits == 1 ? 64 : (int32_t)bits / 8 * SIMT_WARP;
	}
	return l->temp[class][k];
}

unsigned lower_reg_bits(const struct lower *l, uint32_t reg)
{
	unsigned bits = l->func->regs[reg].bits;

	return bits == 8 ? 16 : bits;
}

unsigned lower_width(const struct lower *l, const struct ptx_opnd *o, unsigned bits)
{
	return o->kind == PTX_O_REG ? lower_reg_bits(l, o->idx) : bits;
}

/* The value of a symbol within its state space. */
static uint64_t var_value(const struct lower *l, const struct ptx_opnd *o)
{
	const struct ptx_var *v = &l->prog->ptx->vars[o->idx];

	if (v->space == PTX_S_SHARED)
		return v->shared_off + (uint64_t)o->off;
	return l->prog->var_addr[o->idx] + (uint64_t)o->off;
}

static int32_t frame_addr(struct lower *l, unsigned bits, int64_t off)
{
	int32_t t = lower_temp(l, bits);
	struct simt_op *op = lower_emit(l, "mov.frame.b%u", bits);

	if (!op)
		return -1;
	op->d = t;
	op->disp = off;
	return t;
}

int32_t lower_src(struct lower *l, const struct ptx_opnd *o, unsigned bits)
{
	switch ((enum ptx_opnd_kind)o->kind) {
	case PTX_O_REG:
		return l->row[o->idx];
	case PTX_O_IMM:
		return lower_konst(l, bits, o->imm);
	case PTX_O_VAR:
		if (l->prog->ptx->vars[o->idx].dynamic) {
			int32_t t = lower_temp(l, bits);
			struct simt_op *op = lower_emit(l, "mov.dynshared.b%u", bits);

			if (!op)
				return -1;
			op->d = t;
			op->disp = o->off;
			return t;
		}
		return lower_konst(l, bits, var_value(l, o));
	case PTX_O_LOCAL:
		return frame_addr(l, bits, l->code->depot_off + o->off);
	case PTX_O_PARAM:
		return frame_addr(l, bits, l->code->area_off + o->off);
	case PTX_O_KPARAM:
		return lower_konst(l, bits, (uint64_t)o->off);
	case PTX_O_FUNC:
		return lower_konst(l, bits, simt_code_addr(o->idx));
	case PTX_O_NONE:
	case PTX_O_SINK:
	case PTX_O_VEC:
	case PTX_O_SREG:
	case PTX_O_MEM:
	case PTX_O_LABEL:
	case PTX_O_TABLE:
	case PTX_O_PROTO:
		break;
	}
	return lower_konst(l, bits, 0);
}

int32_t lower_dst(struct lower *l, const struct ptx_opnd *o, unsigned bits)
{
	return o->kind == PTX_O_REG ? l->row[o->idx] : lower_temp(l, bits);
}

int32_t lower_pred_dst(struct lower *l, const struct ptx_opnd *o)
{
	return o->kind == PTX_O_REG ? l->row[o->idx] : -1;
}

bool lower_is_int(unsigned type)
{
	return lower_int_name(type) != NULL;
}

const char *lower_int_name(unsigned type)
{
	switch (type) {
	case PTX_T_U8:
	case PTX_T_B8:
		return "u8";
	case PTX_T_S8:
		return "s8";
	case PTX_T_U16:
	case PTX_T_B16:
		return "u16";
	case PTX_T_S16:
		return "s16";
	case PTX_T_U32:
	case PTX_T_B32:
		return "u32";
	case PTX_T_S32:
		return "s32";
	case PTX_T_U64:
	case PTX_T_B64:
		return "u64";
	case PTX_T_S64:
		return "s64";
	default:
		return NULL;
	}
}
