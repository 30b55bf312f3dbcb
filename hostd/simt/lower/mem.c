/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of loads, stores, atomics and reductions. */
#include <errno.h>
#include <stdio.h>

#include "simt/lower/lower.h"
#include "simt/mem.h"

static unsigned mem_space(const struct lower *l, unsigned space)
{
	switch (space) {
	case PTX_S_GLOBAL:
	case PTX_S_CONST:
		return MEM_GLOBAL;
	case PTX_S_SHARED:
	case PTX_S_SHARED_CLUSTER:
		return MEM_SHARED;
	case PTX_S_LOCAL:
		return MEM_LOCAL;
	case PTX_S_PARAM: /* of a device function: in its local memory */
		return l->func->is_entry ? MEM_PARAM : MEM_LOCAL;
	default:
		return MEM_GENERIC;
	}
}

static unsigned var_space(const struct ptx_var *v)
{
	return v->space == PTX_S_SHARED ? MEM_SHARED : MEM_GLOBAL;
}

int lower_address(struct lower *l, const struct ptx_opnd *o, unsigned space,
		  unsigned bytes, struct lower_addr *ret)
{
	struct lower_addr a = {.x = (uint8_t)mem_space(l, space), .disp = o->off};
	struct ptx_opnd value = *o;

	switch ((enum ptx_opnd_kind)o->kind) {
	case PTX_O_MEM:
		a.a = l->row[o->idx];
		if (lower_reg_bits(l, o->idx) == 32)
			a.y = MEM_REG32;
		break;
	case PTX_O_VAR:
		a.x = (uint8_t)var_space(&l->prog->ptx->vars[o->idx]);
		a.y = a.x == MEM_SHARED ? MEM_REG32 : 0;
		a.a = lower_src(l, &value, a.y ? 32 : 64);
		a.disp = 0;
		break;
	case PTX_O_LOCAL:
		a.x = MEM_FRAME;
		a.disp += l->code->depot_off;
		break;
	case PTX_O_PARAM:
		a.x = MEM_FRAME;
		a.disp += l->code->area_off;
		break;
	case PTX_O_KPARAM:
		a.x = MEM_PARAM;
		if (o->off >= 0 && bytes <= l->func->param_bytes &&
		    (uint64_t)o->off <= l->func->param_bytes - bytes &&
		    (uint64_t)o->off % (bytes > 16 ? 16 : bytes) == 0)
			a.y = MEM_NOREG;
		a.a = lower_konst(l, 64, 0);
		break;
	default: /* IMM */
		a.a = lower_konst(l, 64, o->imm);
		a.disp = 0;
		break;
	}
	*ret = a;
	return 0;
}

static const char *type_suffix(unsigned bits, bool sgn)
{
	static const char *const u[] = {"u8", "u16", "u32", "u64", "u128"};
	static const char *const s[] = {"s8", "s16", "s32", "u64", "u128"};
	unsigned k = bits <= 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : 4;

	return sgn ? s[k] : u[k];
}

static bool is_signed(unsigned t)
{
	return t == PTX_T_S8 || t == PTX_T_S16 || t == PTX_T_S32;
}

/* Two types of one size need no extension. */
static void mem_name(char *buf, size_t cap, const char *what, unsigned type, unsigned reg)
{
	unsigned bits = ptx_type_bits(type);

	snprintf(buf, cap, "%s.%s.%s", what,
		 type_suffix(bits, is_signed(type) && *what == 'l' && bits < reg),
		 type_suffix(reg, false));
}

static void set_addr(struct simt_op *op, const struct lower_addr *a)
{
	op->a = a->a;
	op->x = a->x;
	op->y = a->y;
	op->disp = a->disp;
}

/* Registers of a vector; -1 for sinks. */
static int32_t *vec_rows(struct lower *l, const struct ptx_opnd *v, unsigned bits,
			 bool src)
{
	int32_t *rows = simt_program_alloc(l->prog, v->n * sizeof(*rows));

	for (unsigned k = 0; rows && k < v->n; k++) {
		const struct ptx_opnd *e = &v->elem[k];

		rows[k] = src                    ? lower_src(l, e, bits)
			  : e->kind == PTX_O_REG ? l->row[e->idx]
						 : -1;
	}
	return rows;
}

static unsigned vec_width(const struct lower *l, const struct ptx_opnd *v, unsigned bits)
{
	for (unsigned k = 0; k < v->n; k++)
		if (v->elem[k].kind == PTX_O_REG)
			return lower_reg_bits(l, v->elem[k].idx);
	return bits;
}

static int load_params(struct lower *l, const struct ptx_insn *in,
		       const struct ptx_opnd *e, unsigned n, int64_t off)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	char name[32];

	for (unsigned k = 0; k < n; k++, off += bits / 8) {
		unsigned reg = lower_width(l, &e[k], bits < 16 ? 16 : bits);
		int32_t d = lower_dst(l, &e[k], reg);
		struct simt_op *op;

		mem_name(name, sizeof(name), "ldp", in->type[0], reg);
		op = lower_emit(l, "%s", name);
		if (!op)
			return l->error;
		op->d = d;
		op->disp = off;
	}
	return 0;
}

/* The displacement of vectors has 32 bits; what does not fit is added before. */
static int fit_disp(struct lower *l, struct lower_addr *a)
{
	int32_t t;
	struct simt_op *op;

	if (a->x == MEM_FRAME || (a->disp >= INT32_MIN && a->disp <= INT32_MAX))
		return 0;
	if (a->y & MEM_REG32) {
		a->disp = (int32_t)a->disp;
		return 0;
	}
	t = lower_temp(l, 64);
	op = lower_emit(l, "add.u64");
	if (!op)
		return l->error;
	op->d = t;
	op->a = a->a;
	op->b = lower_konst(l, 64, (uint64_t)a->disp);
	a->a = t;
	a->disp = 0;
	return 0;
}

/* Whether the handlers for shared memory with 32-bit offsets apply. */
static bool quick_shared(const struct lower_addr *a)
{
	return a->x == MEM_SHARED && a->y == MEM_REG32;
}

/* A load of o, or a store. */
static int emit_access(struct lower *l, const struct ptx_insn *in,
		       const struct ptx_opnd *o, struct lower_addr *a, bool store)
{
	static const char *const names[2][3] = {{"ld", "lds", "ldv"},
						{"st", "sts", "stv"}};
	bool vec = o->kind == PTX_O_VEC;
	unsigned bits = MAX(ptx_type_bits(in->type[0]), 16u), reg;
	int32_t *rows = NULL, row = 0;
	struct simt_op *op;
	char name[32];
	int r;

	if (vec) {
		reg = vec_width(l, o, bits);
		rows = vec_rows(l, o, reg, store);
		if (!rows)
			return -ENOMEM;
		r = fit_disp(l, a);
		if (r < 0)
			return r;
	} else {
		reg = lower_width(l, o, bits);
		row = store ? lower_src(l, o, reg) : lower_dst(l, o, reg);
	}
	mem_name(name, sizeof(name), names[store][vec ? 2 : quick_shared(a)], in->type[0],
		 reg);
	op = lower_emit(l, "%s", name);
	if (!op)
		return l->error;
	set_addr(op, a);
	*(store ? &op->b : &op->d) = row;
	if (vec) {
		op->e = (int32_t)a->disp;
		op->n = o->n;
		op->ext = rows;
	}
	return 0;
}

/* Emits a poll: a spin loop may wait for the value that was read just now. */
static int emit_poll(struct lower *l)
{
	return lower_emit(l, "poll") ? 0 : l->error;
}

int lower_load(struct lower *l, const struct ptx_insn *in)
{
	const struct ptx_opnd *o = &in->o[0];
	bool vec = o->kind == PTX_O_VEC;
	unsigned n = vec ? o->n : 1;
	struct lower_addr a;
	int r;

	r = lower_address(l, &in->o[1], in->space, n * ptx_type_bits(in->type[0]) / 8,
			  &a);
	if (r < 0)
		return r;
	if (a.y & MEM_NOREG)
		return load_params(l, in, vec ? o->elem : o, n, a.disp);
	r = emit_access(l, in, o, &a, false);
	if (r == 0 && in->sem != PTX_SEM_WEAK && a.x <= MEM_SHARED)
		r = emit_poll(l);
	return r;
}

int lower_store(struct lower *l, const struct ptx_insn *in)
{
	const struct ptx_opnd *o = &in->o[1];
	unsigned n = o->kind == PTX_O_VEC ? o->n : 1;
	struct lower_addr a;
	int r;

	r = lower_address(l, &in->o[0], in->space, n * ptx_type_bits(in->type[0]) / 8,
			  &a);
	if (r < 0)
		return r;
	a.y &= (uint8_t)~MEM_NOREG;
	return emit_access(l, in, o, &a, true);
}

static const char *atom_name(unsigned sub)
{
	static const char *const names[] = {
		[PTX_ATOM_NONE] = "?",  [PTX_ATOM_AND] = "and",   [PTX_ATOM_OR] = "or",
		[PTX_ATOM_XOR] = "xor", [PTX_ATOM_EXCH] = "exch", [PTX_ATOM_CAS] = "cas",
		[PTX_ATOM_ADD] = "add", [PTX_ATOM_INC] = "inc",   [PTX_ATOM_DEC] = "dec",
		[PTX_ATOM_MIN] = "min", [PTX_ATOM_MAX] = "max",
	};

	return names[sub];
}

/* Sign matters to min and max only. */
static const char *atom_type(const struct ptx_insn *in)
{
	bool order = in->sub == PTX_ATOM_MIN || in->sub == PTX_ATOM_MAX;

	switch (in->type[0]) {
	case PTX_T_S32:
	case PTX_T_U32:
	case PTX_T_B32:
		return order && in->type[0] == PTX_T_S32 ? "s32" : "u32";
	case PTX_T_S64:
	case PTX_T_U64:
	case PTX_T_B64:
		return order && in->type[0] == PTX_T_S64 ? "s64" : "u64";
	case PTX_T_B16:
	case PTX_T_U16:
	case PTX_T_S16:
		return "u16";
	case PTX_T_B128:
		return "u128";
	default:
		return ptx_type_name(in->type[0]);
	}
}

/* One element: d = -1 when nobody wants the old value. */
static int emit_atom(struct lower *l, const struct ptx_insn *in,
		     const struct lower_addr *a, int32_t d, int32_t b, int32_t c)
{
	struct simt_op *op =
		lower_emit(l, "atom.%s.%s", atom_name(in->sub), atom_type(in));

	if (!op)
		return l->error;
	set_addr(op, a);
	op->d = d;
	op->b = b;
	op->c = c;
	return 0;
}

/* Locks are taken by an exchange, and adding nothing is reading. */
static bool atom_polls(const struct ptx_insn *in, const struct ptx_opnd *b)
{
	if (in->sub == PTX_ATOM_EXCH)
		return true;
	return (in->sub == PTX_ATOM_ADD || in->sub == PTX_ATOM_OR) &&
	       b->kind == PTX_O_IMM && b->imm == 0;
}

/* atom: d A b [c]; red: A b */
int lower_atom(struct lower *l, const struct ptx_insn *in)
{
	bool red = in->op == PTX_RED;
	const struct ptx_opnd *addr = &in->o[red ? 0 : 1], *b = addr + 1, *c = addr + 2;
	unsigned bits = ptx_type_bits(in->type[0]);
	bool has_c = !red && in->sub == PTX_ATOM_CAS;
	struct lower_addr a;
	int32_t rb, rc, d = -1;
	int r;

	r = lower_address(l, addr, in->space, bits / 8, &a);
	if (r < 0)
		return r;
	a.y &= (uint8_t)~MEM_NOREG;
	if (b->kind == PTX_O_VEC) {
		/* each element is atomic, the vector is not, and PTX asks no more */
		for (unsigned k = 0; k < b->n; k++) {
			rb = lower_src(l, &b->elem[k], bits);
			d = -1;
			if (!red && in->o[0].elem[k].kind == PTX_O_REG)
				d = l->row[in->o[0].elem[k].idx];
			r = emit_atom(l, in, &a, d, rb, rb);
			if (r < 0)
				return r;
			a.disp += bits / 8;
		}
		return 0;
	}
	rb = lower_src(l, b, bits);
	rc = has_c ? lower_src(l, c, bits) : rb;
	if (!red && in->o[0].kind == PTX_O_REG)
		d = l->row[in->o[0].idx];
	r = emit_atom(l, in, &a, d, rb, rc);
	if (r == 0 && d >= 0 && atom_polls(in, b))
		r = emit_poll(l);
	return r;
}
