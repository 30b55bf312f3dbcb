/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics, asynchronous copies and video instructions. */
#include <errno.h>

#include "ptx/ptx_form.h"

#define T(t) (1ull << PTX_T_##t)

/* Types that an atomic operation has. */
static uint64_t atom_types(const struct ptx_insn *in)
{
	bool red = in->op == PTX_RED;

	switch ((enum ptx_atom)in->sub) {
	case PTX_ATOM_AND:
	case PTX_ATOM_OR:
	case PTX_ATOM_XOR:
		return T(B32) | T(B64);
	case PTX_ATOM_EXCH:
		return red ? 0 : T(B32) | T(B64) | T(B128);
	case PTX_ATOM_CAS:
		return red ? 0 : T(B16) | T(B32) | T(B64) | T(B128);
	case PTX_ATOM_ADD:
		return T(U32) | T(S32) | T(U64) | T(S64) | T(F16) | T(F16X2) | T(BF16) |
		       T(BF16X2) | T(F32) | T(F64);
	case PTX_ATOM_INC:
	case PTX_ATOM_DEC:
		return T(U32);
	case PTX_ATOM_MIN:
	case PTX_ATOM_MAX:
		return T(U32) | T(S32) | T(U64) | T(S64);
	case PTX_ATOM_NONE:
		break;
	}
	return 0;
}

/* Vectors: .global only, 16 bytes at most, and also min and max of halves. */
static bool atom_vec_ok(const struct ptx_insn *in)
{
	uint64_t halves = T(F16) | T(BF16) | T(F16X2) | T(BF16X2);
	uint64_t types = in->sub == PTX_ATOM_ADD ? halves | T(F32)
			 : in->sub == PTX_ATOM_MIN || in->sub == PTX_ATOM_MAX ? halves
									      : 0;

	return types >> in->type[0] & 1 && ptx_type_bits(in->type[0]) * in->vec <= 128 &&
	       (in->space == PTX_S_GLOBAL || in->space == PTX_S_NONE);
}

/* The last operand of .L2::cache_hint. */
static int policy(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	int r;

	if (!(in->flags & PTX_F_HINT))
		return 0;
	r = ptx_want(p, ',');
	return r < 0 ? r : ptx_opnd_src(p, in, PTX_T_B64, false, o);
}

int ptx_insn_atom(struct ptx_parser *p, struct ptx_insn *in)
{
	enum ptx_type t = in->type[0];
	struct ptx_opnd o[5] = {0};
	bool red = in->op == PTX_RED, vec = in->vec > 1;
	unsigned n = 0;
	int r = 0;

	bool halves = (T(F16) | T(BF16) | T(F16X2) | T(BF16X2)) >> t & 1;

	if ((vec ? !atom_vec_ok(in) : !(atom_types(in) >> t & 1)) ||
	    halves != !!(in->flags & PTX_F_NOFTZ))
		return ptx_err(p, "Unexpected instruction types specified for '%s'",
			       ptx_op_name(in->op));
	if (!red) {
		r = vec ? ptx_opnd_vec(p, in, t, in->vec, true, false, &o[0])
			: ptx_opnd_dst(p, in, t, false, true, &o[0]);
		n = 1;
		if (r == 0)
			r = ptx_want(p, ',');
	}
	if (r == 0)
		r = ptx_opnd_addr(p, in, in->space, &o[n++]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = vec ? ptx_opnd_vec(p, in, t, in->vec, false, false, &o[n++])
			: ptx_opnd_src(p, in, t, false, &o[n++]);
	if (r == 0 && in->sub == PTX_ATOM_CAS) {
		r = ptx_want(p, ',');
		if (r == 0)
			r = ptx_opnd_src(p, in, t, false, &o[n]);
	}
	if (!red)
		n++;
	if (r == 0)
		r = policy(p, in, &o[n]);
	in->nopnds = n + 1;
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

/* createpolicy: whatever it says is a hint, of which only the result must exist. */
int ptx_insn_policy(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o = {0};
	int r = ptx_opnd_dst(p, in, PTX_T_B64, false, false, &o);

	while (r == 0 && !ptx_is(p, ';')) {
		if (ptx_tok(p)->kind == PTX_TOK_EOF || ptx_tok(p)->kind == PTX_TOK_BAD)
			return ptx_syntax(p);
		ptx_lex_next(&p->lx);
	}
	in->nopnds = 1;
	return r < 0 ? r : ptx_emit(p, in, &o, NULL);
}

/* True if a predicate register is next, "!" before it included. */
static int at_pred(struct ptx_parser *p)
{
	struct ptx_bind *b;
	int r;

	if (ptx_is(p, '!'))
		return 1;
	if (ptx_tok(p)->kind != PTX_TOK_WORD)
		return 0;
	r = ptx_resolve(p, ptx_tok(p)->sym, &b);
	return r < 0 ? r : b->kind == PTX_BD_REG && b->type == PTX_T_PRED;
}

/* True if one more operand follows the current comma, and not two. */
static bool only_policy(const struct ptx_parser *p)
{
	const char *s = p->lx.p;

	while (s < p->lx.end && *s != ';' && *s != ',')
		s++;
	return s == p->lx.end || *s == ';';
}

int ptx_insn_cp_async(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[5] = {0};
	int r;

	if (in->space != PTX_S_SHARED || in->space2 != PTX_S_GLOBAL)
		return ptx_err(p, "Illegal state space for instruction 'cp.async'");
	in->nopnds = 5;
	r = ptx_opnd_addr(p, in, PTX_S_SHARED, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_opnd_addr(p, in, PTX_S_GLOBAL, &o[1]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[2]);
	if (r < 0)
		return r;
	if (o[2].kind != PTX_O_IMM || (o[2].imm != 4 && o[2].imm != 8 && o[2].imm != 16))
		return ptx_mismatch(p, in);
	/* One operand may still come, or two; with a hint the last one is the policy. */
	if (ptx_is(p, ',') && !(in->flags & PTX_F_HINT && only_policy(p))) {
		ptx_lex_next(&p->lx);
		r = at_pred(p);
		if (r > 0)
			in->flags |= PTX_F_IGNORE_SRC;
		if (r >= 0)
			r = r ? ptx_opnd_pred(p, in, &o[3])
			      : ptx_opnd_src(p, in, PTX_T_B32, false, &o[3]);
	}
	if (r == 0)
		r = policy(p, in, &o[4]);
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

static bool bulk_spaces_ok(const struct ptx_insn *in)
{
	enum ptx_space d = in->space, s = in->space2;
	bool mbar = in->mode == 1;

	if (d == PTX_S_GLOBAL)
		return s == PTX_S_SHARED && !mbar;
	if (!mbar || (d != PTX_S_SHARED && d != PTX_S_SHARED_CLUSTER))
		return false;
	if (in->op == PTX_CP_REDUCE_BULK)
		return d == PTX_S_SHARED_CLUSTER && s == PTX_S_SHARED;
	return s == PTX_S_GLOBAL || (s == PTX_S_SHARED && d == PTX_S_SHARED_CLUSTER);
}

/* dst, src, size [, mbarrier] [, mask] [, policy] */
int ptx_insn_cp_bulk(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[6] = {0};
	bool multicast = in->flags & PTX_F_MULTICAST;
	int r;

	if (!bulk_spaces_ok(in) || (multicast && in->space2 != PTX_S_GLOBAL))
		return ptx_err(p, "Illegal state space for instruction '%s'",
			       ptx_op_name(in->op));
	in->nopnds = in->op == PTX_CP_BULK ? 6 : 5;
	r = ptx_opnd_addr(p, in, in->space, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_opnd_addr(p, in, in->space2, &o[1]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_opnd_src(p, in, PTX_T_B32, false, &o[2]);
	if (r == 0 && in->mode == 1) {
		r = ptx_want(p, ',');
		if (r == 0)
			r = ptx_opnd_addr(p, in, in->space, &o[3]);
	}
	if (r == 0 && multicast) {
		r = ptx_want(p, ',');
		if (r == 0)
			r = ptx_opnd_src(p, in, PTX_T_B16, false, &o[4]);
	}
	if (r == 0)
		r = policy(p, in, &o[in->nopnds - 1]);
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

/* ---- video --------------------------------------------------------------------------
 */

/* ".b0" to ".h1" behind an operand. */
static int selector(struct ptx_parser *p, struct ptx_opnd *o)
{
	struct ptx_tok *t = ptx_tok(p);

	if (t->kind != PTX_TOK_DOT || t->spaced)
		return 0;
	if (t->len != 3 || t->s[2] < '0' || t->s[2] > (t->s[1] == 'h' ? '1' : '3') ||
	    (t->s[1] != 'b' && t->s[1] != 'h'))
		return ptx_syntax(p);
	o->sel = (t->s[1] == 'b' ? PTX_SEL_B0 : PTX_SEL_H0) + (t->s[2] - '0');
	ptx_lex_next(&p->lx);
	return 0;
}

static int video_src(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	bool neg = in->op == PTX_VMAD && ptx_eat(p, '-');
	int r = ptx_opnd_src(p, in, PTX_T_B32, false, o);

	if (r == 0 && o->kind == PTX_O_REG)
		r = selector(p, o);
	if (r == 0 && neg)
		o->flags |= PTX_OF_NEG;
	return r;
}

static bool video_second_ok(const struct ptx_insn *in)
{
	return in->sub == PTX_ATOM_NONE || in->sub == PTX_ATOM_ADD ||
	       in->sub == PTX_ATOM_MIN || in->sub == PTX_ATOM_MAX;
}

int ptx_insn_video(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[4] = {0};
	bool three = in->op == PTX_VMAD;
	int r;

	if (!video_second_ok(in))
		return ptx_err(p, "Illegal combination of modifiers for instruction '%s'",
			       ptx_op_name(in->op));
	in->nopnds = 4;
	r = ptx_opnd_dst(p, in, PTX_T_B32, false, false, &o[0]);
	if (r == 0)
		r = selector(p, &o[0]);
	for (int i = 1; r == 0 && i < 4; i++) {
		/* c is there to merge into, or for the second operation. */
		if (i == 3 && !three && !o[0].sel && !in->sub)
			break;
		r = ptx_want(p, ',');
		if (r == 0)
			r = video_src(p, in, &o[i]);
	}
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}
