/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls and barriers: instructions whose operands are lists or labels. */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_form.h"

int ptx_insn_bra(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o = {.kind = PTX_O_LABEL}, *copy;
	struct ptx_sym *sym;
	int r = ptx_want_word(p, &sym);

	in->nopnds = 1;
	if (r == 0)
		r = ptx_emit(p, in, &o, &copy);
	return r < 0 ? r : ptx_label_ref(p, sym, &copy->idx);
}

int ptx_insn_brx(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[2] = {0};
	struct ptx_sym *sym;
	int r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[0]);

	in->nopnds = 2;
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_want_word(p, &sym);
	if (r < 0)
		return r;
	if (!sym->bind || sym->bind->kind != PTX_BD_TABLE)
		return ptx_err(p, "Unknown symbol '%.*s'", (int)sym->len, sym->s);
	o[1] = (struct ptx_opnd){.kind = PTX_O_TABLE, .idx = sym->bind->idx};
	return ptx_emit(p, in, o, NULL);
}

/* ---- call
 * ------------------------------------------------------------------------------ */

/* An argument before it is known what the callee wants. */
struct arg {
	struct ptx_sym *sym; /* NULL: a constant */
	struct ptx_num num;
};

static int args(struct ptx_parser *p, struct ptx_vec *v)
{
	int r = ptx_want(p, '(');

	if (r < 0 || ptx_eat(p, ')'))
		return r;
	do {
		struct arg *a = ptx_vec_push(v, sizeof(*a));

		if (!a)
			return -ENOMEM;
		if (v->n > PTX_MAX_ARGS)
			return ptx_err(p, "Too many arguments");
		r = ptx_at_const(p) ? ptx_const(p, &a->num) : ptx_want_word(p, &a->sym);
		if (r < 0)
			return r;
	} while (ptx_eat(p, ','));
	return ptx_want(p, ')');
}

static int arg_opnd(struct ptx_parser *p, struct ptx_insn *in, const struct arg *a,
		    const struct ptx_param *formal, bool ret, struct ptx_opnd *o)
{
	struct ptx_bind *b;
	unsigned bits = ptx_type_bits(formal->type);
	int r;

	if (!a->sym) {
		*o = (struct ptx_opnd){.kind = PTX_O_IMM};
		if (ret || formal->is_array ||
		    ptx_num_as(&a->num, formal->type, &o->imm) < 0)
			return ptx_mismatch(p, in);
		return 0;
	}
	if (ret && a->sym->len == 1 && *a->sym->s == '_') {
		*o = (struct ptx_opnd){.kind = PTX_O_SINK};
		return 0;
	}
	r = ptx_resolve(p, a->sym, &b);
	if (r < 0)
		return r;
	if (b->kind == PTX_BD_PARAM && b->size == formal->size) {
		*o = (struct ptx_opnd){
			.kind = PTX_O_PARAM,
			.idx = b->size,
			.off = b->off,
		};
		return 0;
	}
	if (b->kind != PTX_BD_REG || b->n != 1 || formal->is_array ||
	    ptx_type_bits(b->type) != bits || (bits + 7) / 8 != formal->size)
		return ptx_mismatch(p, in);
	*o = (struct ptx_opnd){.kind = PTX_O_REG, .idx = b->idx};
	return 0;
}

static int arg_vec(struct ptx_parser *p, struct ptx_insn *in, const struct ptx_vec *list,
		   const struct ptx_param *formals, uint32_t n, bool ret,
		   struct ptx_opnd *o)
{
	struct ptx_opnd *e;

	if (list->n != n)
		return ptx_err(p, "Wrong number of %s in call",
			       ret ? "return values" : "arguments");
	e = ptx_alloc(p->arena, n * sizeof(*e));
	if (!e)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		int r = arg_opnd(p, in, &((struct arg *)list->p)[i], &formals[i], ret,
				 &e[i]);

		if (r < 0)
			return r;
	}
	*o = (struct ptx_opnd){.kind = PTX_O_VEC, .n = n, .elem = e};
	return 0;
}

/* The callee, and the shape that the arguments must have. */
static int target(struct ptx_parser *p, struct ptx_insn *in, struct ptx_sym *sym,
		  struct ptx_sym *proto, struct ptx_opnd *o, struct ptx_proto *ret)
{
	const struct ptx_func *f;
	struct ptx_bind *b;
	int r = ptx_resolve(p, sym, &b);

	if (r < 0)
		return r;
	if (b->kind == PTX_BD_FUNC) {
		f = &ptx_funcs(p)[b->idx];
		if (f->is_entry)
			return ptx_err(p, "Call of entry function '%s'", f->name);
		o[0] = (struct ptx_opnd){.kind = PTX_O_FUNC, .idx = b->idx};
		*ret = (struct ptx_proto){f->nrets, f->nparams, f->rets, f->params,
					  f->noreturn};
		return 0;
	}
	if (b->kind != PTX_BD_REG || b->n != 1 || ptx_type_bits(b->type) != 64)
		return ptx_mismatch(p, in);
	if (!proto)
		return ptx_err(p, "Call to '%.*s' requires call prototype", (int)sym->len,
			       sym->s);
	if (!proto->bind || proto->bind->kind != PTX_BD_PROTO)
		return ptx_err(p, "Unknown symbol '%.*s'", (int)proto->len, proto->s);
	o[0] = (struct ptx_opnd){.kind = PTX_O_REG, .idx = b->idx};
	o[3] = (struct ptx_opnd){.kind = PTX_O_PROTO, .idx = proto->bind->idx};
	*ret = ((struct ptx_proto *)p->fn.protos.p)[proto->bind->idx];
	p->fn.f.has_indirect_call = true;
	return 0;
}

static int call(struct ptx_parser *p, struct ptx_insn *in, struct ptx_vec *rets,
		struct ptx_vec *params)
{
	struct ptx_sym *sym, *proto_sym = NULL;
	struct ptx_opnd o[4] = {0};
	struct ptx_proto proto = {0};
	int r = 0;

	if (ptx_is(p, '(')) {
		r = args(p, rets);
		if (r == 0)
			r = ptx_want(p, ',');
	}
	if (r == 0)
		r = ptx_want_word(p, &sym);
	if (r == 0 && ptx_eat(p, ',')) {
		bool list = ptx_is(p, '(');

		if (list)
			r = args(p, params);
		if (r == 0 && (!list || ptx_eat(p, ',')))
			r = ptx_want_word(p, &proto_sym);
	}
	if (r == 0)
		r = target(p, in, sym, proto_sym, o, &proto);
	if (r == 0)
		r = arg_vec(p, in, rets, proto.rets, proto.nrets, true, &o[1]);
	if (r == 0)
		r = arg_vec(p, in, params, proto.params, proto.nparams, false, &o[2]);
	in->nopnds = 4;
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

int ptx_insn_call(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_vec rets = {0}, params = {0};
	int r = call(p, in, &rets, &params);

	ptx_vec_fini(&rets);
	ptx_vec_fini(&params);
	return r;
}

/* ---- bar
 * ------------------------------------------------------------------------------- */

static int bar_red(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	bool popc = in->sub == PTX_BAR_RED_POPC;
	int r;

	if (popc != (in->type[0] == PTX_T_U32) || in->sub < PTX_BAR_RED_POPC)
		return ptx_err(p, "Unexpected instruction types specified for 'bar'");
	r = ptx_opnd_dst(p, in, in->type[0], false, false, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[1]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r < 0)
		return r;
	/* A thread count may come before the predicate. */
	if (ptx_tok(p)->kind == PTX_TOK_WORD) {
		struct ptx_bind *b;

		r = ptx_resolve(p, ptx_tok(p)->sym, &b);
		if (r < 0)
			return r;
		if (b->kind == PTX_BD_REG && b->type == PTX_T_PRED)
			return ptx_opnd_pred(p, in, &o[3]);
	}
	if (ptx_is(p, '!'))
		return ptx_opnd_pred(p, in, &o[3]);
	r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[2]);
	if (r == 0)
		r = ptx_want(p, ',');
	return r < 0 ? r : ptx_opnd_pred(p, in, &o[3]);
}

int ptx_insn_bar(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[4] = {0};
	int r;

	in->nopnds = 4;
	if (in->type[0] != PTX_T_NONE) {
		r = bar_red(p, in, o);
		return r < 0 ? r : ptx_emit(p, in, o, NULL);
	}
	if (in->sub >= PTX_BAR_RED_POPC)
		return ptx_err(p, "Unexpected instruction types specified for 'bar'");
	r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[1]);
	if (r == 0 && ptx_eat(p, ','))
		r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[2]);
	if (r < 0)
		return r;
	if (in->sub == PTX_BAR_ARRIVE && o[2].kind == PTX_O_NONE)
		return ptx_mismatch(p, in);
	return ptx_emit(p, in, o, NULL);
}
