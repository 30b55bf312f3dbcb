/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant expressions: integers of 64 bits with C's operators, and float literals with
 * a sign. Depth is bounded; every operator is one step.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "ptx/ptx_int.h"

static int expr(struct ptx_parser *p, unsigned min_prec, unsigned depth,
		struct ptx_num *ret);

bool ptx_at_const(struct ptx_parser *p)
{
	switch ((enum ptx_tok_kind)ptx_tok(p)->kind) {
	case PTX_TOK_INT:
	case PTX_TOK_FLT:
	case PTX_TOK_F32:
		return true;
	case PTX_TOK_PUNCT:
		return ptx_is(p, '-') || ptx_is(p, '+') || ptx_is(p, '(') ||
		       ptx_is(p, '~');
	default:
		return false;
	}
}

static int need_int(struct ptx_parser *p, const struct ptx_num *n)
{
	return n->kind == PTX_TOK_INT ? 0 : ptx_err(p, "Integer constant expected");
}

static int negate(struct ptx_num *n)
{
	if (n->kind == PTX_TOK_INT)
		n->bits = -n->bits;
	else
		n->bits ^= n->kind == PTX_TOK_F32 ? 1ull << 31 : 1ull << 63;
	return 0;
}

/* "(" expr ")", or a cast "(.s64)" or "(.u64)", which changes no bits. */
static int parens(struct ptx_parser *p, unsigned depth, struct ptx_num *ret)
{
	int r;

	ptx_lex_next(&p->lx);
	if (ptx_tok(p)->kind == PTX_TOK_DOT &&
	    (ptx_tok(p)->sym->type == PTX_T_S64 || ptx_tok(p)->sym->type == PTX_T_U64)) {
		ptx_lex_next(&p->lx);
		r = ptx_want(p, ')');
		return r < 0 ? r : expr(p, 99, depth + 1, ret);
	}
	r = expr(p, 0, depth + 1, ret);
	return r < 0 ? r : ptx_want(p, ')');
}

static int unary(struct ptx_parser *p, unsigned depth, struct ptx_num *ret)
{
	struct ptx_tok *t = ptx_tok(p);
	char op;
	int r;

	if (depth > PTX_MAX_DEPTH)
		return ptx_err(p, "Constant expression too deep");
	if (t->kind == PTX_TOK_INT || t->kind == PTX_TOK_FLT || t->kind == PTX_TOK_F32) {
		*ret = (struct ptx_num){.kind = t->kind, .bits = t->imm};
		ptx_lex_next(&p->lx);
		return 0;
	}
	if (ptx_is(p, '('))
		return parens(p, depth, ret);
	if (!ptx_is(p, '-') && !ptx_is(p, '+') && !ptx_is(p, '~') && !ptx_is(p, '!'))
		return ptx_syntax(p);
	op = t->ch;
	ptx_lex_next(&p->lx);
	r = unary(p, depth + 1, ret);
	if (r < 0 || op == '+')
		return r;
	if (op == '-')
		return negate(ret);
	r = need_int(p, ret);
	if (r < 0)
		return r;
	ret->bits = op == '~' ? ~ret->bits : !ret->bits;
	return 0;
}

/* Operators of two characters are two tokens; code is the pair. */
#define OP2(a, b) ((a) << 8 | (b))

static unsigned binary_op(struct ptx_parser *p, unsigned *ret_prec)
{
	static const struct {
		unsigned code, prec;
	} ops[] = {
		{OP2('|', '|'), 1}, {OP2('&', '&'), 2}, {OP2('=', '='), 6},
		{OP2('!', '='), 6}, {OP2('<', '='), 7}, {OP2('>', '='), 7},
		{OP2('<', '<'), 8}, {OP2('>', '>'), 8}, {'|', 3},
		{'^', 4},           {'&', 5},           {'<', 7},
		{'>', 7},           {'+', 9},           {'-', 9},
		{'*', 10},          {'/', 10},
	};
	char next = p->lx.p < p->lx.end ? *p->lx.p : 0;

	if (ptx_tok(p)->kind != PTX_TOK_PUNCT)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		unsigned code = ops[i].code, ch = code > 255 ? code >> 8 : code;

		if (ch != (unsigned char)ptx_tok(p)->ch ||
		    (code > 255 && (code & 255) != (unsigned char)next))
			continue;
		*ret_prec = ops[i].prec;
		return code;
	}
	return 0;
}

static int binary(struct ptx_parser *p, unsigned op, uint64_t a, uint64_t b,
		  uint64_t *ret)
{
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case OP2('|', '|'):
		*ret = a || b;
		break;
	case OP2('&', '&'):
		*ret = a && b;
		break;
	case OP2('=', '='):
		*ret = a == b;
		break;
	case OP2('!', '='):
		*ret = a != b;
		break;
	case OP2('<', '='):
		*ret = sa <= sb;
		break;
	case OP2('>', '='):
		*ret = sa >= sb;
		break;
	case OP2('<', '<'):
		*ret = b < 64 ? a << b : 0;
		break;
	case OP2('>', '>'):
		*ret = (uint64_t)(sa >> MIN(b, 63ul));
		break;
	case '|':
		*ret = a | b;
		break;
	case '^':
		*ret = a ^ b;
		break;
	case '&':
		*ret = a & b;
		break;
	case '<':
		*ret = sa < sb;
		break;
	case '>':
		*ret = sa > sb;
		break;
	case '+':
		*ret = a + b;
		break;
	case '-':
		*ret = a - b;
		break;
	case '*':
		*ret = a * b;
		break;
	default: /* '/' */
		if (!b)
			return ptx_err(p, "Division by zero in constant expression");
		*ret = sb == -1 ? -a : (uint64_t)(sa / sb);
		break;
	}
	return 0;
}

static int expr(struct ptx_parser *p, unsigned min_prec, unsigned depth,
		struct ptx_num *ret)
{
	unsigned op, prec = 0;
	int r = unary(p, depth, ret);

	while (r == 0 && min_prec < 99 && (op = binary_op(p, &prec)) && prec > min_prec) {
		struct ptx_num rhs;

		r = need_int(p, ret);
		if (r < 0)
			return r;
		ptx_lex_next(&p->lx);
		if (op > 255)
			ptx_lex_next(&p->lx);
		r = expr(p, prec, depth + 1, &rhs);
		if (r == 0)
			r = need_int(p, &rhs);
		if (r == 0)
			r = binary(p, op, ret->bits, rhs.bits, &ret->bits);
	}
	return r;
}

int ptx_const(struct ptx_parser *p, struct ptx_num *ret)
{
	return expr(p, 0, 0, ret);
}

int ptx_const_int(struct ptx_parser *p, uint64_t *ret)
{
	struct ptx_num n;
	int r = ptx_const(p, &n);

	if (r == 0)
		r = need_int(p, &n);
	if (r == 0)
		*ret = n.bits;
	return r;
}

static double as_double(const struct ptx_num *n)
{
	double d;

	if (n->kind == PTX_TOK_F32) {
		uint32_t b = n->bits;
		float f;

		memcpy(&f, &b, sizeof(f));
		return f;
	}
	memcpy(&d, &n->bits, sizeof(d));
	return d;
}

int ptx_num_as(const struct ptx_num *n, enum ptx_type type, uint64_t *ret)
{
	unsigned bits = ptx_type_bits(type);
	double d;

	if (n->kind == PTX_TOK_INT) {
		if (type == PTX_T_F32 || type == PTX_T_F64)
			return -EINVAL;
		if (type == PTX_T_PRED)
			*ret = n->bits != 0;
		else
			*ret = bits < 64 ? n->bits & ((1ull << bits) - 1) : n->bits;
		return 0;
	}
	d = as_double(n);
	if (type == PTX_T_F32 || (type == PTX_T_B32 && n->kind == PTX_TOK_F32)) {
		float f = (float)d;
		uint32_t b;

		if (n->kind == PTX_TOK_F32) /* keeps the payload of a NaN */
			b = n->bits;
		else
			memcpy(&b, &f, sizeof(b));
		*ret = b;
		return 0;
	}
	if (type == PTX_T_F64 || (type == PTX_T_B64 && n->kind == PTX_TOK_FLT)) {
		if (n->kind == PTX_TOK_FLT)
			*ret = n->bits;
		else
			memcpy(ret, &d, sizeof(d));
		return 0;
	}
	return -EINVAL;
}
