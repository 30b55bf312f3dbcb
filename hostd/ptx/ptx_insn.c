/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instruction: guard, opcode, modifiers. Its types choose a line of the table of
 * forms; that line says which modifiers may be there and how the operands read. What a
 * line cannot say is in ptx_rules.c.
 */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_form.h"

#define MULTI (M(IGNORE) | M(WORD) | M(LAYOUT))

struct words {
	struct ptx_sym *sym[PTX_MAX_MODS];
	unsigned n;
	uint8_t type[4];
	unsigned ntypes;
};

int ptx_emit(struct ptx_parser *p, struct ptx_insn *in, const struct ptx_opnd *o,
	     struct ptx_opnd **ret_o)
{
	struct ptx_opnd *copy =
		ptx_memdup(p->arena, o, in->nopnds * sizeof(struct ptx_opnd));
	struct ptx_insn *e;

	if (!copy)
		return -ENOMEM;
	e = ptx_vec_push(&p->fn.insns, sizeof(*e));
	if (!e)
		return -ENOMEM;
	in->o = copy;
	in->reconv = -1;
	*e = *in;
	if (ret_o)
		*ret_o = copy;
	return 0;
}

/* Reads the opcode, over as many dots as its name has. */
static int read_op(struct ptx_parser *p, struct ptx_sym **ret_sym)
{
	struct ptx_sym *sym = ptx_tok(p)->sym;
	char name[64];
	size_t len = sym->len;

	ptx_lex_next(&p->lx);
	if (sym->joins && len < sizeof(name))
		memcpy(name, sym->s, len);
	while (sym->joins && ptx_tok(p)->kind == PTX_TOK_DOT && !ptx_tok(p)->spaced) {
		struct ptx_tok *t = ptx_tok(p);
		struct ptx_sym *longer;

		if (len + t->len > sizeof(name))
			break;
		memcpy(name + len, t->s, t->len);
		longer = ptx_lookup(&p->lx, name, len + t->len);
		if (!longer || !(longer->op || longer->joins || longer->refused))
			break;
		sym = longer;
		len += t->len;
		ptx_lex_next(&p->lx);
	}
	*ret_sym = sym;
	return 0;
}

static int read_words(struct ptx_parser *p, struct words *w)
{
	*w = (struct words){0};
	while (ptx_tok(p)->kind == PTX_TOK_DOT) {
		struct ptx_sym *s = ptx_tok(p)->sym;

		if (s->type) {
			if (w->ntypes == ARRAY_SIZE(w->type))
				return ptx_err(p, "Too many types: '%.*s'", (int)s->len,
					       s->s);
			w->type[w->ntypes++] = s->type;
		} else if (!s->mod) {
			return ptx_err(p, "Unknown modifier '%.*s'", (int)s->len, s->s);
		} else if (w->n == PTX_MAX_MODS) {
			return ptx_err(p, "Too many modifiers");
		} else {
			w->sym[w->n++] = s;
		}
		ptx_lex_next(&p->lx);
	}
	return 0;
}

static bool types_fit(const struct ptx_form *f, const struct words *w)
{
	for (unsigned i = 0; i < ARRAY_SIZE(f->types); i++) {
		if (i >= w->ntypes ? f->types[i] != 0 : !(f->types[i] >> w->type[i] & 1))
			return false;
	}
	return true;
}

static const struct ptx_form *find_form(const struct ptx_sym *op, const struct words *w)
{
	const struct ptx_form *f = &ptx_forms[op->op - 1];

	for (; f < ptx_forms + ptx_num_forms && f->op == ptx_forms[op->op - 1].op; f++) {
		if (types_fit(f, w))
			return f;
	}
	return NULL;
}

static void apply(struct ptx_insn *in, const struct ptx_mod *m, unsigned *nlayouts)
{
	switch ((enum ptx_modclass)m->cls) {
	case PTX_M_RND:
	case PTX_M_RN:
	case PTX_M_RNI:
	case PTX_M_RNA:
		in->rnd = m->val;
		break;
	case PTX_M_CMPI:
	case PTX_M_CMPU:
	case PTX_M_CMPF:
		in->cmp = m->val;
		break;
	case PTX_M_BOOL:
		in->bop = m->val;
		break;
	case PTX_M_SPACE:
		in->space = m->val;
		break;
	case PTX_M_SPACE2:
		in->space2 = m->val;
		break;
	case PTX_M_SEM:
		in->sem = m->val;
		break;
	case PTX_M_SCOPE:
	case PTX_M_LEVEL:
		in->scope = m->val;
		break;
	case PTX_M_VEC:
	case PTX_M_NUM:
		in->vec = m->val;
		break;
	case PTX_M_CW:
		/* shf adds the direction to it; of vshl and vshr sub is the second step
		 */
		if (in->op == PTX_VSHL || in->op == PTX_VSHR)
			in->mode = m->val;
		else
			in->sub += m->val;
		break;
	case PTX_M_LR:
		in->sub += m->val;
		break;
	case PTX_M_BARRED:
		in->sub = m->val;
		break;
	case PTX_M_BAR:
		if (!in->sub) /* .popc, .and, .or may have come first */
			in->sub = m->val;
		break;
	case PTX_M_SHR:
		in->mode = m->val;
		break;
	case PTX_M_SHAPE:
		in->shape = m->val;
		break;
	case PTX_M_LAYOUT:
		in->layout[(*nlayouts)++] = m->val;
		break;
	case PTX_M_BULK:
	case PTX_M_GEOM:
		in->mode = m->val;
		break;
	case PTX_M_HL:
	case PTX_M_WIDE:
	case PTX_M_PRMT:
	case PTX_M_TESTP:
	case PTX_M_SHFL:
	case PTX_M_VOTE:
	case PTX_M_ANYALL:
	case PTX_M_FRAG:
	case PTX_M_ATOM:
	case PTX_M_WAIT:
	case PTX_M_MMAOP:
		in->sub = m->val;
		break;
	case PTX_M_IGNORE:
	case PTX_M_WORD:
		break;
	default: /* the flags */
		in->flags |= m->val;
		break;
	}
}

static int illegal(struct ptx_parser *p, const struct ptx_sym *s,
		   const struct ptx_insn *in)
{
	return ptx_err(p, "Illegal modifier '%.*s' for instruction '%s'", (int)s->len,
		       s->s, ptx_op_name(in->op));
}

/* Name of a missing class of modifiers in the words of ptxas. */
static const char *class_name(uint64_t missing)
{
	if (missing & (M(CMPI) | M(CMPU) | M(CMPF)))
		return "Comparison modifier";
	if (missing & M(RND) && missing & M(APPROX))
		return "Rounding modifier or '.approx' modifier";
	if (missing & (M(RND) | M(RN)))
		return "Rounding modifier";
	if (missing & M(APPROX))
		return "'.approx' modifier";
	if (missing & M(SPACE))
		return "State space";
	if (missing & M(HL))
		return "'.hi', '.lo' or '.wide' modifier";
	if (missing & M(ATOM))
		return "Operation modifier";
	return "A modifier";
}

static int apply_words(struct ptx_parser *p, const struct ptx_form *f,
		       const struct words *w, struct ptx_insn *in)
{
	uint64_t all = f->may | f->must | f->one, seen = 0, missing;
	unsigned nlayouts = 0;

	if (all & M(IGNORE))
		all |= M(HINT);
	for (unsigned i = 0; i < w->n; i++) {
		const struct ptx_sym *s = w->sym[i];
		const struct ptx_mod *m = &ptx_mods[s->mod - 1];
		const char *word = m->word;

		for (;; m++) {
			if (m == ptx_mods + ptx_num_mods || strcmp(m->word, word) != 0)
				return illegal(p, s, in);
			if (all >> m->cls & 1 &&
			    (!(seen >> m->cls & 1) || MULTI >> m->cls & 1))
				break;
		}
		if (m->cls == PTX_M_LAYOUT && nlayouts == ARRAY_SIZE(in->layout))
			return illegal(p, s, in);
		if (1ull << m->cls & f->one && seen & f->one)
			return illegal(p, s, in);
		seen |= 1ull << m->cls;
		apply(in, m, &nlayouts);
	}
	/* A product needs two layouts, everything else one. */
	if (f->must & M(LAYOUT) &&
	    nlayouts != (in->op == PTX_MMA || in->op == PTX_WMMA_MMA ? 2 : 1))
		return ptx_err(p, "Layout modifier required for instruction '%s'",
			       ptx_op_name(in->op));
	missing = f->must & ~seen;
	if (!missing && f->one && !(seen & f->one))
		missing = f->one;
	if (missing)
		return ptx_err(p, "%s required for instruction '%s'", class_name(missing),
			       ptx_op_name(in->op));
	return 0;
}

/* The word behind the first dot, where it is a part of the name. */
static char second_word(const struct ptx_parser *p, unsigned skip)
{
	return p->insn_len > skip ? p->insn_s[skip] : 0;
}

static uint8_t component_of(const struct ptx_parser *p)
{
	switch (second_word(p, 5)) {
	case 'g':
		return 1;
	case 'b':
		return 2;
	case 'a':
		return 3;
	default:
		return 0;
	}
}

static uint8_t query_of(const struct ptx_parser *p)
{
	switch (second_word(p, 4)) {
	case 'h':
		return PTX_Q_HEIGHT;
	case 'd':
		return PTX_Q_DEPTH;
	default:
		return PTX_Q_WIDTH;
	}
}

/* "bar" waits for all lanes of its warp; "barrier" says so with .aligned. */
static void implied(struct ptx_parser *p, struct ptx_insn *in)
{
	if (in->op == PTX_BAR && p->insn_len >= 4 && !memcmp(p->insn_s, "bar.", 4))
		in->flags |= PTX_F_ALIGNED;
	if (in->op == PTX_FENCE && !in->sem)
		in->sem = PTX_SEM_ACQ_REL;
	if (in->op == PTX_ADDC || in->op == PTX_SUBC || in->op == PTX_MADC ||
	    in->flags & PTX_F_CC)
		p->fn.f.uses_cc = true;
	if (in->op == PTX_TLD4)
		in->sub = component_of(p);
	if (in->op == PTX_TXQ || in->op == PTX_SUQ)
		in->sub = query_of(p);
	if (!in->vec)
		in->vec = 1;
}

static int finish(struct ptx_parser *p, const struct ptx_form *f, struct ptx_insn *in)
{
	struct ptx_opnd o[PTX_MAX_OPNDS] = {0};
	int r;

	if (!ptx_mods_ok(in))
		return ptx_err(p, "Illegal combination of modifiers for instruction '%s'",
			       ptx_op_name(in->op));
	if (!ptx_space_ok(in))
		return ptx_err(p, "Illegal state space for instruction '%s'",
			       ptx_op_name(in->op));
	if (f->parse)
		return f->parse(p, in);
	r = ptx_opnds(p, in, f->sig, o);
	if (r < 0)
		return r;
	if (!ptx_opnds_ok(in, o))
		return ptx_mismatch(p, in);
	return ptx_emit(p, in, o, NULL);
}

static int guard(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_sym *sym;
	struct ptx_bind *b;
	int r;

	in->guard = -1;
	if (!ptx_eat(p, '@'))
		return 0;
	in->guard_neg = ptx_eat(p, '!');
	r = ptx_want_word(p, &sym);
	if (r < 0)
		return r;
	r = ptx_resolve(p, sym, &b);
	if (r < 0)
		return r;
	if (b->kind != PTX_BD_REG || b->type != PTX_T_PRED || b->n != 1)
		return ptx_err(p, "Predicate expression expected");
	in->guard = b->idx;
	return 0;
}

/* The text up to its ";", for messages. */
static void note_text(struct ptx_parser *p)
{
	const char *s = ptx_tok(p)->s;
	size_t left = p->lx.end - s, n = 0;

	while (n < left && n < 120 && s[n] != ';' && s[n] != '\n')
		n++;
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
		n--;
	p->insn_s = s;
	p->insn_len = n;
}

int ptx_insn(struct ptx_parser *p)
{
	struct ptx_insn in = {.line = ptx_tok(p)->line};
	const struct ptx_form *f;
	struct ptx_sym *sym;
	struct words w;
	int r;

	p->line = in.line;
	r = guard(p, &in);
	if (r < 0)
		return r;
	if (ptx_tok(p)->kind != PTX_TOK_WORD)
		return ptx_syntax(p);
	note_text(p);
	p->place.op = ptx_at(p);
	r = read_op(p, &sym);
	if (r < 0)
		return r;
	if (sym->refused && p->source) {
		p->fn.source.unknown = ptx_strndup(p->arena, sym->s, sym->len);
		p->insn_s = NULL;
		return p->fn.source.unknown ? ptx_skip_statement(p) : -ENOMEM;
	}
	if (sym->refused) {
		r = ptx_err(p, "Instruction '%.*s' not supported by this device",
			    (int)sym->len, sym->s);
		return r == -EINVAL ? -ENOTSUP : r;
	}
	if (!sym->op)
		return ptx_err(p, "Not a name of any known instruction: '%.*s'",
			       (int)sym->len, sym->s);
	r = read_words(p, &w);
	if (r < 0)
		return r;
	in.op = ptx_forms[sym->op - 1].op;
	f = find_form(sym, &w);
	if (!f)
		return ptx_err(p, "Unexpected instruction types specified for '%s'",
			       ptx_op_name(in.op));
	memcpy(in.type, w.type, sizeof(in.type));
	r = apply_words(p, f, &w, &in);
	if (r < 0)
		return r;
	implied(p, &in);
	r = finish(p, f, &in);
	if (r < 0)
		return r;
	p->place.text.end = ptx_at(p) + 1;
	r = ptx_want(p, ';');
	p->insn_s = NULL;
	return r;
}
