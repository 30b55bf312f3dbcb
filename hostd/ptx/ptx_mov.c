/* SPDX-License-Identifier: Apache-2.0 */
/* mov, cvt, and the special registers, which only those two may read. */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_form.h"

#define T(t) (1ull << PTX_T_##t)
#define I8   (T(U8) | T(S8))
#define INTS (I8 | T(U16) | T(S16) | T(U32) | T(S32) | T(U64) | T(S64))
#define FLTS (T(F16) | T(BF16) | T(F32) | T(F64))
#define FP8  (T(E4M3X2) | T(E5M2X2))
#define X2   (T(F16X2) | T(BF16X2))

/* Reads a special register if one is next: 1, or 0 when it is something else. */
static int sreg(struct ptx_parser *p, enum ptx_sreg *ret)
{
	struct ptx_tok t = *ptx_tok(p);
	struct ptx_sym *sym = t.sym;
	char name[40];

	if (t.kind != PTX_TOK_WORD || sym->bind || *sym->s != '%')
		return 0;
	if (!sym->sreg && !sym->joins)
		return 0;
	ptx_lex_next(&p->lx);
	if (!sym->sreg || ptx_tok(p)->kind == PTX_TOK_DOT) {
		struct ptx_tok *dot = ptx_tok(p);

		if (dot->kind != PTX_TOK_DOT || sym->len + dot->len > sizeof(name))
			return ptx_syntax(p);
		memcpy(name, sym->s, sym->len);
		memcpy(name + sym->len, dot->s, dot->len);
		sym = ptx_lookup(&p->lx, name, sym->len + dot->len);
		if (!sym || !sym->sreg)
			return ptx_syntax(p);
		ptx_lex_next(&p->lx);
	}
	*ret = sym->sreg - 1;
	return 1;
}

static int emit_sreg(struct ptx_parser *p, const struct ptx_insn *in, enum ptx_sreg sr,
		     uint32_t reg)
{
	struct ptx_insn mov = {
		.op = PTX_MOV,
		.nopnds = 2,
		.vec = 1,
		.type = {ptx_sreg_type(sr)},
		.guard = -1,
		.line = in->line,
	};
	struct ptx_opnd o[2] = {
		{.kind = PTX_O_REG, .idx = reg},
		{.kind = PTX_O_SREG, .idx = sr},
	};

	return ptx_emit(p, &mov, o, NULL);
}

/* A temporary that holds a special register, read just before the instruction. */
static int sreg_temp(struct ptx_parser *p, const struct ptx_insn *in, enum ptx_sreg sr,
		     struct ptx_opnd *o)
{
	uint32_t reg;
	int r = ptx_new_reg(p, ptx_sreg_type(sr), NULL, 0, &reg);

	if (r == 0)
		r = emit_sreg(p, in, sr, reg);
	*o = (struct ptx_opnd){.kind = PTX_O_REG, .idx = reg};
	return r;
}

static int mov_sreg(struct ptx_parser *p, struct ptx_insn *in, enum ptx_sreg sr,
		    struct ptx_opnd *o)
{
	unsigned bits = ptx_type_bits(ptx_sreg_type(sr));
	int r;

	if (in->type[0] == PTX_T_F32 || in->type[0] == PTX_T_F64)
		return ptx_mismatch(p, in);
	if (ptx_type_bits(in->type[0]) == bits) {
		o[1] = (struct ptx_opnd){.kind = PTX_O_SREG, .idx = sr};
		return ptx_emit(p, in, o, NULL);
	}
	/* Old text reads the low halves of %tid and its like. */
	if (ptx_type_bits(in->type[0]) != 16 || bits != 32)
		return ptx_mismatch(p, in);
	r = sreg_temp(p, in, sr, &o[1]);
	if (r < 0)
		return r;
	in->op = PTX_CVT;
	in->type[0] = PTX_T_U16;
	in->type[1] = PTX_T_U32;
	in->nopnds = 3;
	return ptx_emit(p, in, o, NULL);
}

/* Elements of a vector whose "{" is next; 0 when there is none. */
static unsigned count_elems(const struct ptx_parser *p)
{
	unsigned n = 1;

	if (p->lx.tok.kind != PTX_TOK_PUNCT || p->lx.tok.ch != '{')
		return 0;
	for (const char *s = p->lx.p; s < p->lx.end && *s != '}' && *s != ';' && n <= 16;
	     s++)
		n += *s == ',';
	return n;
}

static int mov_vec(struct ptx_parser *p, struct ptx_insn *in, unsigned n, bool dst,
		   struct ptx_opnd *o)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	enum ptx_type type;

	if (n > 16 || n < 2 || bits % n)
		return ptx_mismatch(p, in);
	switch (bits / n) {
	case 8:
		type = PTX_T_B8;
		break;
	case 16:
		type = PTX_T_B16;
		break;
	case 32:
		type = PTX_T_B32;
		break;
	case 64:
		type = PTX_T_B64;
		break;
	default:
		return ptx_mismatch(p, in);
	}
	return ptx_opnd_vec(p, in, type, n, dst, false, o);
}

/* The address of a symbol; 1 if there was one. */
static int mov_symbol(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	struct ptx_tok *t = ptx_tok(p);
	unsigned bits = ptx_type_bits(in->type[0]);
	uint64_t add = 0;
	bool minus;
	int r;

	if (t->kind != PTX_TOK_WORD || !t->sym->bind ||
	    !ptx_opnd_symbol(p, t->sym->bind, o))
		return 0;
	if (in->type[0] == PTX_T_F32 || in->type[0] == PTX_T_F64 ||
	    (bits != 64 && (bits != 32 || o->kind == PTX_O_FUNC)))
		return ptx_mismatch(p, in);
	if (o->kind == PTX_O_PARAM)
		p->fn.f.param_addr_taken = true;
	ptx_lex_next(&p->lx);
	minus = ptx_is(p, '-');
	if ((!minus && !ptx_is(p, '+')) || o->kind == PTX_O_FUNC)
		return 1;
	ptx_lex_next(&p->lx);
	r = ptx_const_int(p, &add);
	o->off = (int64_t)((uint64_t)o->off + (minus ? -add : add));
	return r < 0 ? r : 1;
}

int ptx_insn_mov(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[3] = {0};
	enum ptx_type type = in->type[0];
	unsigned nd = count_elems(p), ns;
	enum ptx_sreg sr;
	int r;

	in->nopnds = 2;
	r = nd ? mov_vec(p, in, nd, true, &o[0])
	       : ptx_opnd_dst(p, in, type, false, false, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r < 0)
		return r;
	ns = count_elems(p);
	if (ns && nd)
		return ptx_mismatch(p, in);
	if (ns) {
		r = mov_vec(p, in, ns, false, &o[1]);
		return r < 0 ? r : ptx_emit(p, in, o, NULL);
	}
	r = sreg(p, &sr);
	if (r < 0)
		return r;
	if (r)
		return nd ? ptx_mismatch(p, in) : mov_sreg(p, in, sr, o);
	r = mov_symbol(p, in, &o[1]);
	if (r < 0)
		return r;
	if (r == 0)
		r = type == PTX_T_PRED ? ptx_opnd_pred(p, in, &o[1])
				       : ptx_opnd_src(p, in, type, false, &o[1]);
	else
		r = nd ? ptx_mismatch(p, in) : 0;
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

/* ---- cvt -----------------------------------------------------------------------------
 */

static bool in_set(enum ptx_type t, uint64_t set)
{
	return set >> t & 1;
}

/* Kinds of rounding that a conversion needs or may have. */
enum round {
	NO_ROUND,
	NEEDS_RND,
	NEEDS_RNI,
	MAY_RNI,
	BAD
};

static bool is_rnd(enum ptx_rnd r)
{
	return r >= PTX_R_RN && r <= PTX_R_RP;
}

static bool is_rni(enum ptx_rnd r)
{
	return r >= PTX_R_RNI;
}

static enum round rounding(enum ptx_type d, enum ptx_type a)
{
	unsigned db = ptx_type_bits(d), ab = ptx_type_bits(a);

	if (in_set(d, INTS))
		return in_set(a, INTS) ? NO_ROUND : NEEDS_RNI;
	if (in_set(a, INTS))
		return NEEDS_RND;
	if (d == a)
		return MAY_RNI;
	return db > ab ? NO_ROUND : NEEDS_RND;
}

/* Scalars of the ordinary types; flags and rounding as the ISA's table has them. */
static bool scalar_ok(const struct ptx_insn *in)
{
	enum ptx_type d = in->type[0], a = in->type[1];
	bool ok, f32 = d == PTX_T_F32 || a == PTX_T_F32;

	switch (rounding(d, a)) {
	case NO_ROUND:
		ok = !in->rnd;
		break;
	case NEEDS_RND:
		ok = is_rnd(in->rnd);
		break;
	case NEEDS_RNI:
		ok = is_rni(in->rnd);
		break;
	case MAY_RNI:
		ok = !in->rnd || is_rni(in->rnd);
		break;
	default:
		ok = false;
	}
	if (in->flags & PTX_F_FTZ && !f32)
		return false;
	if (in->flags & PTX_F_SAT && d == PTX_T_BF16)
		return false;
	if (in->flags & (PTX_F_RELU | PTX_F_SATFINITE))
		return ok && a == PTX_T_F32 && (d == PTX_T_F16 || d == PTX_T_BF16) &&
		       (in->rnd == PTX_R_RN || in->rnd == PTX_R_RZ);
	return ok;
}

/* Sources of a packed or special conversion, 0 when there is no such conversion. */
static unsigned special_sources(const struct ptx_insn *in)
{
	enum ptx_type d = in->type[0], a = in->type[1];
	bool rn = in->rnd == PTX_R_RN, rz = in->rnd == PTX_R_RZ;

	if (in->flags & (PTX_F_SAT | PTX_F_FTZ))
		return 0;
	if (d == PTX_T_TF32 && a == PTX_T_F32)
		return rn || rz || in->rnd == PTX_R_RNA ? 1 : 0;
	if (in_set(d, X2) && a == PTX_T_F32)
		return rn || rz ? 2 : 0;
	if (in_set(d, FP8) && a == PTX_T_F32)
		return rn && in->flags & PTX_F_SATFINITE ? 2 : 0;
	if (in_set(d, FP8) && a == PTX_T_F16X2)
		return rn && in->flags & PTX_F_SATFINITE ? 1 : 0;
	if (d == PTX_T_F16X2 && in_set(a, FP8))
		return rn && !(in->flags & PTX_F_SATFINITE) ? 1 : 0;
	return 0;
}

int ptx_insn_cvt(struct ptx_parser *p, struct ptx_insn *in)
{
	enum ptx_type d = in->type[0], a = in->type[1];
	struct ptx_opnd o[3] = {0};
	unsigned sources = 1;
	enum ptx_sreg sr;
	int r;

	if (!in_set(d, INTS | FLTS) || !in_set(a, INTS | FLTS)) {
		sources = special_sources(in);
		if (!sources)
			return ptx_err(p, "Unexpected instruction types or modifiers "
					  "specified for 'cvt'");
	} else if (!scalar_ok(in)) {
		return ptx_err(p, "Rounding or other modifier missing or illegal for "
				  "instruction 'cvt'");
	}
	in->nopnds = 3;
	r = ptx_opnd_dst(p, in, d, in_set(d, INTS), false, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r < 0)
		return r;
	r = sreg(p, &sr);
	if (r < 0)
		return r;
	if (r) {
		if (!in_set(a, INTS) ||
		    ptx_type_bits(a) > ptx_type_bits(ptx_sreg_type(sr)) ||
		    ptx_sreg_type(sr) == PTX_T_PRED)
			return ptx_mismatch(p, in);
		r = sreg_temp(p, in, sr, &o[1]);
	} else {
		r = ptx_opnd_src(p, in, a, in_set(a, INTS), &o[1]);
	}
	if (r == 0 && sources == 2) {
		r = ptx_want(p, ',');
		if (r == 0)
			r = ptx_opnd_src(p, in, a, false, &o[2]);
	}
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}
