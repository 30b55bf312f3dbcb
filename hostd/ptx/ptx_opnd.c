/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands. A signature names the places of an instruction, two characters each,
 * separated by spaces: what may stand there, and its type.
 *
 *   d destination          D destination or "_"      e destination, "|p" may follow
 *   P predicate dest.      R predicate dest., "|q" may follow
 *   s source               q predicate source, "!" allowed
 *   a address as a value   A address in brackets     i integer constant
 *   v vector dest. (ld)    V vector source (st)      - nothing: PTX_O_NONE
 *   ? the rest may be left out; then comes what the place is: q, A, i, or a type of s
 *
 *   0..3 the instruction's type   w type 0, doubled by .wide   a 32 or 64 bits
 *   u u32   l u64   b b32   y 32 bits with .parity, else 64
 *
 * "?l" is the policy of .L2::cache_hint, which must be there with it and not without.
 */
#include <errno.h>

#include "ptx/ptx_form.h"

int ptx_mismatch(struct ptx_parser *p, const struct ptx_insn *in)
{
	return ptx_err(p, "Arguments mismatch for instruction '%s'", ptx_op_name(in->op));
}

/* Notes the name that it has in the text, and where that is known. */
static int name_reg(struct ptx_parser *p, const struct ptx_sym *sym, uint32_t depth)
{
	struct ptx_reg_name *name = ptx_vec_push(&p->fn.reg_names, sizeof(*name));

	if (!name)
		return -ENOMEM;
	if (!sym)
		return 0;
	name->depth = depth - p->fn.depth;
	name->name = ptx_strndup(p->arena, sym->s, sym->len);
	return name->name ? 0 : -ENOMEM;
}

int ptx_new_reg(struct ptx_parser *p, enum ptx_type type, const struct ptx_sym *sym,
		uint32_t depth, uint32_t *ret_idx)
{
	struct ptx_reg *reg;

	if (p->fn.regs.n >= PTX_MAX_REGS) {
		ptx_err(p, "Too many registers in function '%s'", p->fn.f.name);
		return -E2BIG;
	}
	reg = ptx_vec_push(&p->fn.regs, sizeof(*reg));
	if (!reg)
		return -ENOMEM;
	reg->type = type;
	reg->bits = ptx_type_bits(type);
	*ret_idx = p->fn.regs.n - 1;
	return p->source ? name_reg(p, sym, depth) : 0;
}

static int unknown(struct ptx_parser *p, const struct ptx_sym *sym)
{
	return ptx_err(p, "Unknown symbol '%.*s'", (int)sym->len, sym->s);
}

/* The range of "%r12" after n digits were taken off, when it is a deeper declaration than
 * what the word already means; NULL otherwise. */
static struct ptx_bind *range_of(struct ptx_parser *p, const struct ptx_sym *sym,
				 uint32_t n)
{
	struct ptx_sym *prefix = ptx_lookup(&p->lx, sym->s, sym->len - n);
	struct ptx_bind *range = prefix ? prefix->bind : NULL;
	const char *s = sym->s + sym->len - n;
	uint64_t number = 0;

	while (range && range->kind != PTX_BD_RANGE)
		range = range->shadowed;
	if (!range || (sym->bind && sym->bind->depth >= range->depth))
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		number = number * 10 + (uint64_t)(s[i] - '0');
	return number < range->size ? range : NULL;
}

/* "%r12" where "%r<20>" was declared: a register of its own from its first use on. */
static int from_range(struct ptx_parser *p, struct ptx_sym *sym, struct ptx_bind **ret)
{
	struct ptx_bind *b, *range = NULL;
	uint32_t idx;
	int r;

	/* "%r<20>" declares %r0, not %r00, and "%p1<3>" declares %p10: shortest first. */
	for (uint32_t n = 1; !range && n <= 10 && n < sym->len; n++) {
		char c = sym->s[sym->len - n];

		if (c < '0' || c > '9')
			break;
		if (n == 1 || c != '0')
			range = range_of(p, sym, n);
	}
	if (!range)
		return unknown(p, sym);
	r = ptx_new_reg(p, range->type, sym, range->depth, &idx);
	if (r < 0)
		return r;
	/* Registers belong to the block of their range, not to the one of their use. */
	b = ptx_alloc(p->tmp, sizeof(*b));
	if (!b)
		return -ENOMEM;
	*b = (struct ptx_bind){
		.kind = PTX_BD_REG,
		.type = range->type,
		.n = 1,
		.depth = range->depth,
		.idx = idx,
		.sym = sym,
		.range = range->sym,
		.shadowed = sym->bind,
		.next = p->scopes[range->depth].binds,
	};
	p->scopes[range->depth].binds = b;
	sym->bind = b;
	*ret = b;
	return 0;
}

int ptx_resolve(struct ptx_parser *p, struct ptx_sym *sym, struct ptx_bind **ret_bind)
{
	struct ptx_bind *b = sym->bind, *range;

	if (!b || b->kind == PTX_BD_RANGE)
		return from_range(p, sym, ret_bind);
	range = b->range ? b->range->bind : NULL;
	if (range && range->kind == PTX_BD_RANGE && range->depth > b->depth)
		return from_range(p, sym, ret_bind); /* an inner "%r<n>" hides it */
	*ret_bind = b;
	return 0;
}

/* True if a register declared as reg may hold a value of type t. */
static bool reg_fits(enum ptx_type reg, enum ptx_type t, bool wider)
{
	unsigned rb = ptx_type_bits(reg), tb = ptx_type_bits(t);
	bool rf = reg == PTX_T_F16 || reg == PTX_T_F32 || reg == PTX_T_F64;
	bool ti = (t >= PTX_T_U8 && t <= PTX_T_S8) || t == PTX_T_U16 || t == PTX_T_S16 ||
		  t == PTX_T_U32 || t == PTX_T_S32 || t == PTX_T_U64 || t == PTX_T_S64;

	if ((reg == PTX_T_PRED) != (t == PTX_T_PRED))
		return false;
	if (wider ? rb < tb : rb != tb)
		return false;
	if (wider && rb > 64 && tb <= 64)
		return false;
	if (wider) /* float values are not extended, integers not into float registers */
		return !rf || (!ti && rb == tb);
	if (rf && ti)
		return false;
	if (t == PTX_T_F32 || t == PTX_T_F64)
		return reg != PTX_T_U32 && reg != PTX_T_S32 && reg != PTX_T_U64 &&
		       reg != PTX_T_S64;
	return true;
}

/* "v.x" picks one of a vector of registers. */
static int component(struct ptx_parser *p, const struct ptx_bind *b, uint32_t *ret_idx)
{
	static const char names[] = "xyzwrgba";
	struct ptx_tok *t = ptx_tok(p);
	unsigned i;

	if (b->n == 1) {
		*ret_idx = b->idx;
		return 0;
	}
	if (t->kind != PTX_TOK_DOT || t->len != 2)
		return ptx_err(p, "Vector '%.*s' used as a scalar", (int)b->sym->len,
			       b->sym->s);
	for (i = 0; names[i] && names[i] != t->s[1]; i++)
		;
	i %= 4;
	if (!names[i] || i >= b->n)
		return ptx_syntax(p);
	ptx_lex_next(&p->lx);
	*ret_idx = b->idx + i;
	return 0;
}

static int reg_opnd(struct ptx_parser *p, struct ptx_insn *in, struct ptx_bind *b,
		    enum ptx_type type, bool wider, struct ptx_opnd *o)
{
	uint32_t idx;
	int r = component(p, b, &idx);

	if (r < 0)
		return r;
	if (!reg_fits(b->type, type, wider))
		return ptx_mismatch(p, in);
	*o = (struct ptx_opnd){.kind = PTX_O_REG, .idx = idx};
	return 0;
}

int ptx_opnd_dst(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 bool wider, bool sink, struct ptx_opnd *o)
{
	struct ptx_sym *sym;
	struct ptx_bind *b;
	int r = ptx_want_word(p, &sym);

	if (r < 0)
		return r;
	if (sym->len == 1 && *sym->s == '_') {
		if (!sink)
			return ptx_mismatch(p, in);
		*o = (struct ptx_opnd){.kind = PTX_O_SINK};
		return 0;
	}
	r = ptx_resolve(p, sym, &b);
	if (r < 0)
		return r;
	if (b->kind != PTX_BD_REG)
		return ptx_mismatch(p, in);
	return reg_opnd(p, in, b, type, wider, o);
}

static int const_opnd(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		      struct ptx_opnd *o)
{
	struct ptx_num num;
	int r = ptx_const(p, &num);

	if (r < 0)
		return r;
	*o = (struct ptx_opnd){.kind = PTX_O_IMM};
	if (ptx_num_as(&num, type, &o->imm) < 0)
		return ptx_mismatch(p, in);
	return 0;
}

/* Special registers are for mov and cvt alone; ptx_insn_cvt() and mov see to them. */
static int sreg_refused(struct ptx_parser *p, struct ptx_insn *in)
{
	return ptx_err(p, "Special register argument not allowed for instruction '%s'",
		       ptx_op_name(in->op));
}

static bool is_warp_sz(const struct ptx_sym *sym)
{
	return sym->len == 7 && !sym->bind && !__builtin_memcmp(sym->s, "WARP_SZ", 7);
}

int ptx_opnd_src(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 bool wider, struct ptx_opnd *o)
{
	struct ptx_sym *sym;
	struct ptx_bind *b;
	int r;

	if (ptx_at_const(p))
		return const_opnd(p, in, type, o);
	r = ptx_want_word(p, &sym);
	if (r < 0)
		return r;
	if (!sym->bind && (sym->sreg || sym->joins) && *sym->s == '%')
		return sreg_refused(p, in);
	if (is_warp_sz(sym)) {
		*o = (struct ptx_opnd){.kind = PTX_O_IMM, .imm = 32};
		return 0;
	}
	r = ptx_resolve(p, sym, &b);
	if (r < 0)
		return r;
	if (b->kind != PTX_BD_REG)
		return ptx_mismatch(p, in);
	return reg_opnd(p, in, b, type, wider, o);
}

int ptx_opnd_pred(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	bool neg = ptx_eat(p, '!');
	int r = ptx_opnd_src(p, in, PTX_T_PRED, false, o);

	if (r == 0 && neg)
		o->flags |= PTX_OF_NEG;
	return r;
}

int ptx_opnd_symbol(struct ptx_parser *p, const struct ptx_bind *b, struct ptx_opnd *o)
{
	*o = (struct ptx_opnd){.off = b->off};
	switch ((enum ptx_bind_kind)b->kind) {
	case PTX_BD_VAR:
		o->kind = PTX_O_VAR;
		o->idx = b->idx;
		o->off = 0;
		return true;
	case PTX_BD_FUNC:
		o->kind = PTX_O_FUNC;
		o->idx = b->idx;
		o->off = 0;
		return true;
	case PTX_BD_LOCAL:
		o->kind = PTX_O_LOCAL;
		return true;
	case PTX_BD_PARAM:
		o->kind = PTX_O_PARAM;
		return true;
	case PTX_BD_KPARAM:
		o->kind = PTX_O_KPARAM;
		return true;
	case PTX_BD_REG:
	case PTX_BD_RANGE:
	case PTX_BD_LABEL:
	case PTX_BD_TABLE:
	case PTX_BD_PROTO:
		break;
	}
	return false;
}

/* The space that a symbol's address belongs to. */
static enum ptx_space symbol_space(struct ptx_parser *p, const struct ptx_opnd *o)
{
	if (o->kind == PTX_O_VAR)
		return ptx_vars(p)[o->idx].space;
	return o->kind == PTX_O_LOCAL ? PTX_S_LOCAL : PTX_S_PARAM;
}

static int displacement(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	bool minus = ptx_is(p, '-');
	struct ptx_num num;
	int r;

	if (!minus && !ptx_is(p, '+'))
		return 0;
	ptx_lex_next(&p->lx);
	r = ptx_const(p, &num);
	if (r < 0)
		return r;
	if (num.kind != PTX_TOK_INT)
		return ptx_mismatch(p, in);
	o->off = (int64_t)((uint64_t)o->off + (minus ? -num.bits : num.bits));
	return 0;
}

int ptx_opnd_addr(struct ptx_parser *p, struct ptx_insn *in, enum ptx_space space,
		  struct ptx_opnd *o)
{
	struct ptx_sym *sym;
	struct ptx_bind *b;
	uint32_t idx;
	int r = ptx_want(p, '[');

	if (r < 0)
		return r;
	if (ptx_at_const(p)) {
		*o = (struct ptx_opnd){.kind = PTX_O_IMM};
		r = ptx_const_int(p, &o->imm);
		return r < 0 ? r : ptx_want(p, ']');
	}
	r = ptx_want_word(p, &sym);
	if (r < 0)
		return r;
	r = ptx_resolve(p, sym, &b);
	if (r < 0)
		return r;
	if (b->kind == PTX_BD_REG) {
		unsigned bits = ptx_type_bits(b->type);

		r = component(p, b, &idx);
		if (r < 0)
			return r;
		if ((bits != 32 && bits != 64) || b->type == PTX_T_F32 ||
		    b->type == PTX_T_F64)
			return ptx_err(p,
				       "Illegal to use symbol '%.*s' of type .%s as "
				       "address operand. Use integer or bit only.",
				       (int)sym->len, sym->s, ptx_type_name(b->type));
		*o = (struct ptx_opnd){.kind = PTX_O_MEM, .idx = idx};
	} else if (ptx_opnd_symbol(p, b, o) && o->kind != PTX_O_FUNC) {
		enum ptx_space has = symbol_space(p, o);

		/* Parameters have no generic address here. */
		if (space != has && (space != PTX_S_NONE || has == PTX_S_PARAM) &&
		    !(space == PTX_S_SHARED_CLUSTER && has == PTX_S_SHARED))
			return ptx_err(p,
				       "State space mismatch between instruction and "
				       "address in instruction '%s'",
				       ptx_op_name(in->op));
	} else {
		return ptx_mismatch(p, in);
	}
	r = displacement(p, in, o);
	return r < 0 ? r : ptx_want(p, ']');
}

/* An address as a value: a register, a symbol, a constant. */
static int opnd_value(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		      struct ptx_opnd *o)
{
	struct ptx_tok *t = ptx_tok(p);

	if (t->kind == PTX_TOK_WORD && t->sym->bind && t->sym->bind->kind != PTX_BD_REG &&
	    ptx_opnd_symbol(p, t->sym->bind, o)) {
		if (o->kind == PTX_O_FUNC)
			return ptx_mismatch(p, in);
		if (o->kind == PTX_O_PARAM)
			p->fn.f.param_addr_taken = true;
		ptx_lex_next(&p->lx);
		return displacement(p, in, o);
	}
	if (type == PTX_T_NONE) { /* either width */
		struct ptx_bind *b = t->kind == PTX_TOK_WORD ? t->sym->bind : NULL;

		if (t->kind == PTX_TOK_WORD && (!b || b->kind == PTX_BD_RANGE)) {
			int r = ptx_resolve(p, t->sym, &b);

			if (r < 0)
				return r;
		}
		type = b && ptx_type_bits(b->type) == 32 ? PTX_T_B32 : PTX_T_B64;
	}
	return ptx_opnd_src(p, in, type, false, o);
}

int ptx_opnd_vec(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 unsigned n, bool dst, bool wider, struct ptx_opnd *o)
{
	struct ptx_opnd e[16];
	unsigned i = 0;
	int r;

	/* A vector of registers under one name stands for all of them. */
	if (ptx_tok(p)->kind == PTX_TOK_WORD && ptx_tok(p)->sym->bind &&
	    ptx_tok(p)->sym->bind->kind == PTX_BD_REG && ptx_tok(p)->sym->bind->n > 1) {
		struct ptx_bind *b = ptx_tok(p)->sym->bind;

		if (!reg_fits(b->type, type, wider))
			return ptx_mismatch(p, in);
		for (; i < b->n; i++)
			e[i] = (struct ptx_opnd){.kind = PTX_O_REG, .idx = b->idx + i};
		ptx_lex_next(&p->lx);
	} else {
		r = ptx_want(p, '{');
		if (r < 0)
			return r;
		do {
			if (i == ARRAY_SIZE(e))
				return ptx_mismatch(p, in);
			r = dst ? ptx_opnd_dst(p, in, type, wider, true, &e[i])
				: ptx_opnd_src(p, in, type, wider, &e[i]);
			if (r < 0)
				return r;
			i++;
		} while (ptx_eat(p, ','));
		r = ptx_want(p, '}');
		if (r < 0)
			return r;
	}
	if (n && i != n)
		return ptx_err(p, "Argument vector size mismatch for instruction '%s'",
			       ptx_op_name(in->op));
	*o = (struct ptx_opnd){.kind = PTX_O_VEC, .n = i};
	o->elem = ptx_memdup(p->arena, e, i * sizeof(e[0]));
	return o->elem ? 0 : -ENOMEM;
}

static enum ptx_type sig_type(const struct ptx_insn *in, char c)
{
	switch (c) {
	case '0':
	case '1':
	case '2':
	case '3':
		return in->type[c - '0'];
	case 'w':
		if (in->sub != PTX_MUL_WIDE)
			return in->type[0];
		switch (in->type[0]) {
		case PTX_T_U16:
			return PTX_T_U32;
		case PTX_T_S16:
			return PTX_T_S32;
		case PTX_T_U32:
			return PTX_T_U64;
		default:
			return PTX_T_S64;
		}
	case 'y':
		return in->flags & PTX_F_PARITY ? PTX_T_B32 : PTX_T_B64;
	case 'u':
		return PTX_T_U32;
	case 'l':
		return PTX_T_U64;
	case 'b':
		return PTX_T_B32;
	default:
		return PTX_T_NONE;
	}
}

/* "d" with an optional "|p" behind it: two places. */
static int dst_pair(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		    struct ptx_opnd *o)
{
	int r = ptx_opnd_dst(p, in, type, false, true, &o[0]);

	if (r < 0 || !ptx_eat(p, '|'))
		return r;
	return ptx_opnd_dst(p, in, PTX_T_PRED, false, true, &o[1]);
}

static int ld_vec(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type, bool dst,
		  struct ptx_opnd *o)
{
	if (in->op == PTX_LDMATRIX || in->op == PTX_STMATRIX)
		return ptx_opnd_vec(p, in, type, in->vec, dst, false, o);
	if (in->vec > 1)
		return ptx_opnd_vec(p, in, type, in->vec, dst, true, o);
	if (ptx_is(p, '{')) { /* "{%r1}" is a scalar as well */
		struct ptx_opnd v;
		int r = ptx_opnd_vec(p, in, type, 1, dst, true, &v);

		if (r == 0)
			*o = v.elem[0];
		return r;
	}
	return dst ? ptx_opnd_dst(p, in, type, true, false, o)
		   : ptx_opnd_src(p, in, type, true, o);
}

static int one(struct ptx_parser *p, struct ptx_insn *in, char role, char tc,
	       struct ptx_opnd *o, unsigned *n)
{
	enum ptx_type type = sig_type(in, tc);

	switch (role) {
	case 'd':
		return ptx_opnd_dst(p, in, type, false, false, &o[(*n)++]);
	case 'D':
		return ptx_opnd_dst(p, in, type, false, true, &o[(*n)++]);
	case 'e':
		*n += 2;
		return dst_pair(p, in, type, &o[*n - 2]);
	case 'P':
		return ptx_opnd_dst(p, in, PTX_T_PRED, false, false, &o[(*n)++]);
	case 'R':
		*n += 2;
		return dst_pair(p, in, PTX_T_PRED, &o[*n - 2]);
	case 's':
		if (type == PTX_T_PRED)
			return ptx_opnd_pred(p, in, &o[(*n)++]);
		return ptx_opnd_src(p, in, type, false, &o[(*n)++]);
	case 'q':
		return ptx_opnd_pred(p, in, &o[(*n)++]);
	case 'a':
		return opnd_value(p, in, type, &o[(*n)++]);
	case 'A':
		return ptx_opnd_addr(p, in, in->space, &o[(*n)++]);
	case 'i':
		if (!ptx_at_const(p))
			return ptx_mismatch(p, in);
		return const_opnd(p, in, PTX_T_U32, &o[(*n)++]);
	case 'v':
		return ld_vec(p, in, type, true, &o[(*n)++]);
	default: /* 'V' */
		return ld_vec(p, in, type, false, &o[(*n)++]);
	}
}

static int maybe(struct ptx_parser *p, struct ptx_insn *in, char what, bool first,
		 struct ptx_opnd *o, unsigned *n)
{
	bool there = first ? !ptx_is(p, ';') : ptx_eat(p, ',');

	if (what == 'l' && there != !!(in->flags & PTX_F_HINT))
		return ptx_mismatch(p, in);
	if (!there) {
		(*n)++;
		return 0;
	}
	if (what == 'q' || what == 'A' || what == 'i')
		return one(p, in, what, '-', o, n);
	return one(p, in, 's', what, o, n);
}

int ptx_opnds(struct ptx_parser *p, struct ptx_insn *in, const char *sig,
	      struct ptx_opnd *o)
{
	unsigned n = 0;
	bool first = true;
	int r;

	for (const char *s = sig; *s; s += s[2] ? 3 : 2) {
		if (*s == '-') {
			n++;
			continue;
		}
		if (*s == '?') {
			r = maybe(p, in, s[1], first, o, &n);
		} else {
			if (!first && !ptx_eat(p, ','))
				return ptx_is(p, ';') ? ptx_mismatch(p, in)
						      : ptx_syntax(p);
			r = one(p, in, s[0], s[1], o, &n);
		}
		if (r < 0)
			return r;
		first = false;
	}
	in->nopnds = n;
	if (n && !ptx_is(p, ';') && ptx_is(p, ','))
		return ptx_mismatch(p, in);
	return 0;
}
