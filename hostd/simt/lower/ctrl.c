/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of control flow: branches, calls, exits, and hints that do nothing here. */
#include <errno.h>
#include <stdlib.h>

#include "simt/lower/lower.h"

static int add_fix(struct lower *l, uint32_t op, uint32_t insn, uint32_t reconv)
{
	if (l->num_fixes == l->cap_fixes) {
		size_t cap = l->cap_fixes ? 2 * l->cap_fixes : 64;
		struct lower_fix *n = realloc(l->fixes, cap * sizeof(*n));

		if (!n)
			return -ENOMEM;
		l->fixes = n;
		l->cap_fixes = cap;
	}
	l->fixes[l->num_fixes++] = (struct lower_fix){op, insn, reconv};
	return 0;
}

/*
 * Instructions that block, call or return cannot run with part of a split's lanes: a
 * guard becomes a branch around them. rejoin: the lanes meet again behind it.
 */
int lower_guard_begin(struct lower *l, bool rejoin, size_t *ret_at)
{
	struct simt_op *op;

	*ret_at = l->num_ops;
	if (l->insn->guard < 0)
		return 0;
	op = lower_emit(l, "bra");
	if (!op)
		return l->error;
	op->guard_neg ^= 1;
	return 0;
}

int lower_guard_end(struct lower *l, bool rejoin, size_t at)
{
	if (l->insn->guard < 0)
		return 0;
	for (size_t i = at + 1; i < l->num_ops; i++)
		l->ops[i].guard = SIMT_NO_GUARD;
	l->ops[at].imm = l->num_ops; /* an index, like those of apply_fixes() */
	if (rejoin) {
		struct simt_op *op = lower_emit(l, "join");

		if (!op)
			return l->error;
		op->guard = SIMT_NO_GUARD;
		l->ops[at].d = (int32_t)(l->num_ops - 1 - at);
	}
	return 0;
}

static int lower_bra(struct lower *l, const struct ptx_insn *in)
{
	bool parts = in->guard >= 0;

	if (!lower_emit(l, parts ? "bra" : "jump"))
		return l->error;
	return add_fix(l, (uint32_t)l->num_ops - 1, in->o[0].idx,
		       parts && in->reconv >= 0 ? (uint32_t)in->reconv : LOWER_NO_TARGET);
}

/* Indexes of instructions stand in for pointers until the function is complete. */
static int lower_brx(struct lower *l, const struct ptx_insn *in)
{
	const struct ptx_table *t = &l->func->tables[in->o[1].idx];
	struct simt_brx *b =
		simt_program_alloc(l->prog, sizeof(*b) + t->n * sizeof(*b->target));
	int32_t a = lower_src(l, &in->o[0], 32);
	struct simt_op *op;
	size_t at;
	int r;

	if (!b)
		return -ENOMEM;
	b->n = t->n;
	b->reconv = in->reconv < 0 ? NULL : (void *)((uintptr_t)in->reconv + 1);
	for (uint32_t k = 0; k < t->n; k++)
		b->target[k] = (void *)(uintptr_t)t->target[k];
	r = lower_guard_begin(l, false, &at);
	if (r < 0)
		return r;
	op = lower_emit(l, "brx");
	if (!op)
		return l->error;
	op->a = a;
	op->brx = b;
	return lower_guard_end(l, false, at);
}

/* NULL: an argument that is not inside the parameter area, or no memory. */
static struct simt_arg *call_args(struct lower *l, const struct ptx_opnd *v,
				  unsigned *ret_num)
{
	unsigned n = v->kind == PTX_O_VEC ? v->n : 0;
	struct simt_arg *a = simt_program_alloc(l->prog, (n + 1) * sizeof(*a));

	*ret_num = n;
	for (unsigned k = 0; a && k < n; k++) {
		const struct ptx_opnd *e = &v->elem[k];

		switch (e->kind) {
		case PTX_O_PARAM:
			if (e->off < 0 || (uint64_t)e->off + e->idx > l->func->area_bytes)
				return NULL;
			a[k].place = (int32_t)e->off;
			a[k].bytes = e->idx;
			break;
		case PTX_O_REG:
			a[k].place = l->row[e->idx];
			a[k].row = (uint8_t)(lower_reg_bits(l, e->idx) / 8);
			a[k].bytes = a[k].row;
			break;
		case PTX_O_IMM:
			a[k].place = lower_konst(l, 64, e->imm);
			a[k].row = 8;
			a[k].bytes = 8;
			break;
		default: /* a sink among the results */
			a[k].place = -1;
			a[k].row = 1;
			a[k].bytes = 0;
			break;
		}
	}
	return a;
}

static int lower_call(struct lower *l, const struct ptx_insn *in)
{
	bool direct = in->o[0].kind == PTX_O_FUNC;
	struct simt_call *call = simt_program_alloc(l->prog, sizeof(*call));
	struct simt_op *op;
	size_t at;
	int r;

	if (!call)
		return -ENOMEM;
	call->rets = call_args(l, &in->o[1], &call->num_rets);
	call->args = call_args(l, &in->o[2], &call->num_args);
	if (!call->rets || !call->args)
		return lower_refuse(l, "arguments");
	if (direct) {
		const struct ptx_func *f = &l->prog->ptx->funcs[in->o[0].idx];

		call->code = &l->prog->codes[in->o[0].idx];
		if (call->num_args > f->nparams || call->num_rets > f->nrets)
			return lower_refuse(l, "variable arguments");
		if (!f->has_body && !call->code->builtin)
			return lower_unresolved(l, f->name);
	} else {
		call->target = lower_src(l, &in->o[0], 64);
		if (in->nopnds <= 3 || in->o[3].kind != PTX_O_PROTO)
			return lower_refuse(l, "indirect call without a prototype");
		call->proto = &l->func->protos[in->o[3].idx];
		if (call->num_args != call->proto->nparams ||
		    call->num_rets != call->proto->nrets)
			return lower_refuse(l, "arguments differ from the prototype");
	}
	r = lower_guard_begin(l, true, &at);
	if (r < 0)
		return r;
	op = lower_emit(l, direct ? "call" : "calli");
	if (!op)
		return l->error;
	op->call = call;
	if (!direct) {
		op = lower_emit(l, "join");
		if (!op)
			return l->error;
		op->guard = SIMT_NO_GUARD;
	}
	return lower_guard_end(l, true, at);
}

/* An instruction that takes the lanes it runs on out of the function. */
static int lower_leave(struct lower *l, const char *name)
{
	size_t at;
	int r = lower_guard_begin(l, false, &at);

	if (r < 0)
		return r;
	if (!lower_emit(l, "%s", name))
		return l->error;
	return lower_guard_end(l, false, at);
}

static int lower_alloca(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = lower_width(l, &in->o[0], ptx_type_bits(in->type[0]));
	bool has_a = in->op != PTX_STACKSAVE;
	const struct ptx_opnd *src = &in->o[in->op == PTX_ALLOCA ? 1 : 0];
	int32_t a = has_a ? lower_src(l, src, bits) : 0;
	int32_t d = in->op == PTX_STACKRESTORE ? 0 : lower_dst(l, &in->o[0], bits);
	struct simt_op *op = lower_emit(l, "%s", ptx_op_name(in->op));

	if (!op)
		return l->error;
	op->a = a;
	op->d = d;
	op->y = bits == 64;
	op->n = in->op == PTX_ALLOCA && in->nopnds > 2 && in->o[2].kind == PTX_O_IMM &&
				in->o[2].imm <= 4096 && in->o[2].imm &&
				!(in->o[2].imm & (in->o[2].imm - 1))
			? (uint32_t)in->o[2].imm
			: 16;
	return 0;
}

int lower_control(struct lower *l, const struct ptx_insn *in)
{
	struct simt_op *op;

	switch (in->op) {
	case PTX_BRA:
		return lower_bra(l, in);
	case PTX_BRX_IDX:
		return lower_brx(l, in);
	case PTX_CALL:
		return lower_call(l, in);
	case PTX_RET:
		if (!l->func->is_entry)
			return lower_leave(l, "ret");
		return lower_emit(l, "exit") ? 0 : l->error;
	case PTX_EXIT:
		return lower_emit(l, "exit") ? 0 : l->error;
	case PTX_TRAP:
		return lower_emit(l, "trap") ? 0 : l->error;
	case PTX_NANOSLEEP:
		return lower_leave(l, "nanosleep");
	case PTX_MEMBAR:
	case PTX_FENCE:
	case PTX_FENCE_PROXY:
	case PTX_FENCE_MBAR_INIT:
		return lower_emit(l, "fence") ? 0 : l->error;
	case PTX_ALLOCA:
	case PTX_STACKSAVE:
	case PTX_STACKRESTORE:
		return lower_alloca(l, in);
	case PTX_CREATEPOLICY:
		op = lower_emit(l, "mov.b64");
		if (!op)
			return l->error;
		op->d = lower_dst(l, &in->o[0], 64);
		op->a = lower_konst(l, 64, 0);
		return 0;
	default: /* hints, events of debuggers and profilers */
		return lower_emit(l, "nop") ? 0 : l->error;
	}
}
