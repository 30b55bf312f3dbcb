/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons on the way to a block, and what they say of registers. */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "ptx/extent/learn.h"

#define NONE       LEARN_NONE
#define DEPTH_MAX  8u  /* of conditions made of conditions */
#define GUARDS_MAX 32u /* conditions on the way that are looked at */

bool guard_ends(const struct learn *l, uint32_t block)
{
	const struct ptx_insn *end = &l->f->insns[l->nest.blocks[block].last];

	return end->guard >= 0 && (end->op == PTX_BRA || end->op == PTX_RET ||
				   end->op == PTX_EXIT || end->op == PTX_TRAP);
}

static bool is_entered_by_condition(const struct learn *l, uint32_t block)
{
	const struct ptx_block *b = &l->nest.blocks[block];

	return b->from != PTX_NEST_NONE && b->order != PTX_NEST_NONE &&
	       guard_ends(l, b->from);
}

int guard_contexts(struct learn *l)
{
	_cleanup_free_ uint32_t *by_order = calloc(l->nest.n + 1, sizeof(*by_order));
	uint32_t n = 0;

	l->ctx = calloc(l->nest.n + 1, sizeof(*l->ctx));
	if (!by_order || !l->ctx)
		return -ENOMEM;
	for (uint32_t b = 0; b < l->nest.n; b++) {
		l->ctx[b] = NONE;
		if (l->nest.blocks[b].order == PTX_NEST_NONE)
			continue;
		by_order[l->nest.blocks[b].order] = b;
		n++;
	}
	/* A block comes behind those that dominate it. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t b = by_order[i], up = l->nest.blocks[b].idom;
		if (is_entered_by_condition(l, b))
			l->ctx[b] = b;
		else if (up != PTX_NEST_NONE)
			l->ctx[b] = l->ctx[up];
	}
	return 0;
}

enum ptx_cmp guard_swapped(enum ptx_cmp cmp)
{
	switch (cmp) {
	case PTX_C_LT:
		return PTX_C_GT;
	case PTX_C_LE:
		return PTX_C_GE;
	case PTX_C_GT:
		return PTX_C_LT;
	case PTX_C_GE:
		return PTX_C_LE;
	default:
		return cmp;
	}
}

static enum ptx_cmp negated(enum ptx_cmp cmp)
{
	switch (cmp) {
	case PTX_C_EQ:
		return PTX_C_NE;
	case PTX_C_NE:
		return PTX_C_EQ;
	case PTX_C_LT:
		return PTX_C_GE;
	case PTX_C_LE:
		return PTX_C_GT;
	case PTX_C_GT:
		return PTX_C_LE;
	case PTX_C_GE:
		return PTX_C_LT;
	default:
		return PTX_C_NONE;
	}
}

/* Comparisons of unsigned numbers are no others: what is compared so is not negative. */
static enum ptx_cmp plain(uint8_t cmp)
{
	switch ((enum ptx_cmp)cmp) {
	case PTX_C_LO:
		return PTX_C_LT;
	case PTX_C_LS:
		return PTX_C_LE;
	case PTX_C_HI:
		return PTX_C_GT;
	case PTX_C_HS:
		return PTX_C_GE;
	case PTX_C_EQ:
	case PTX_C_NE:
	case PTX_C_LT:
	case PTX_C_LE:
	case PTX_C_GT:
	case PTX_C_GE:
		return (enum ptx_cmp)cmp;
	default:
		return PTX_C_NONE;
	}
}

/* The only instruction that writes a register; NULL: there are others. */
static const struct ptx_insn *only_def(const struct learn *l, uint32_t reg)
{
	if (l->def_at[reg + 1] - l->def_at[reg] != 1)
		return NULL;
	return &l->f->insns[l->defs[l->def_at[reg]].insn];
}

struct each {
	guard_fn *fn;
	void *arg;
};

static void expand(struct learn *l, const struct ptx_opnd *o, bool is, unsigned depth,
		   const struct each *e);

static void expand_setp(struct learn *l, const struct ptx_insn *in, bool is,
			unsigned depth, const struct each *e)
{
	bool more = in->nopnds > 4 && in->o[4].kind != PTX_O_NONE;
	enum ptx_cmp cmp = plain(in->cmp);

	if (more && !(is ? in->bop == PTX_B_AND : in->bop == PTX_B_OR))
		return;
	if (learn_is_integer(in->type[0]) && cmp != PTX_C_NONE)
		e->fn(l, in, is ? cmp : negated(cmp), e->arg);
	if (more)
		expand(l, &in->o[4], is, depth + 1, e);
}

/* Calls fn for what holds if a predicate is so. */
static void expand(struct learn *l, const struct ptx_opnd *o, bool is, unsigned depth,
		   const struct each *e)
{
	const struct ptx_insn *in = o->kind == PTX_O_REG ? only_def(l, o->idx) : NULL;

	l->work++;
	if (o->flags & PTX_OF_NEG)
		is = !is;
	if (!in || depth > DEPTH_MAX || in->guard >= 0 || in->o[0].kind != PTX_O_REG ||
	    in->o[0].idx != o->idx)
		return;
	switch ((enum ptx_op)in->op) {
	case PTX_SETP:
		expand_setp(l, in, is, depth, e);
		break;
	case PTX_AND:
	case PTX_OR:
		if (is == (in->op == PTX_AND)) {
			expand(l, &in->o[1], is, depth + 1, e);
			expand(l, &in->o[2], is, depth + 1, e);
		}
		break;
	case PTX_NOT:
		expand(l, &in->o[1], !is, depth + 1, e);
		break;
	case PTX_MOV:
		expand(l, &in->o[1], is, depth + 1, e);
		break;
	default:
		break;
	}
}

void guard_each(struct learn *l, uint32_t block, uint32_t to, guard_fn *fn, void *arg)
{
	const struct ptx_insn *end = &l->f->insns[l->nest.blocks[block].last];
	struct ptx_opnd p = {.kind = PTX_O_REG, .idx = (uint32_t)end->guard};
	bool jumps = end->op == PTX_BRA && l->nest.of[end->o[0].idx] == to;
	const struct each e = {fn, arg};

	if (!guard_ends(l, block) ||
	    (jumps && l->nest.blocks[block].next[1] == PTX_NEST_NONE))
		return;
	expand(l, &p, jumps != end->guard_neg, 0, &e);
}

struct bound {
	uint32_t node;
	value_id id;
};

static void bound_by(struct learn *l, struct bound *b, const struct ptx_insn *setp,
		     enum ptx_cmp cmp, const struct ptx_opnd *other)
{
	uint8_t type = setp->type[0];
	bool is_unsigned = type == PTX_T_U16 || type == PTX_T_U32 || type == PTX_T_U64;
	bool below = cmp == PTX_C_LT || cmp == PTX_C_LE || cmp == PTX_C_EQ;
	uint32_t by;

	if (cmp == PTX_C_NE || cmp == PTX_C_NONE)
		return;
	/* By what is no bound itself, so that two do not bound each other. */
	by = learn_value(l, setp, other, type, NONE);
	if (learn_is_unknown(l, by))
		return;
	if (is_unsigned && below)
		b->node = learn_with_imm(l, NODE_HIGHER, b->node, learn_number(l, 0), 0);
	if (below)
		b->node = learn_with_imm(l, NODE_LOWER, b->node, by,
					 cmp == PTX_C_LT ? -1 : 0);
	if (!below || cmp == PTX_C_EQ)
		b->node = learn_with_imm(l, NODE_HIGHER, b->node, by,
					 cmp == PTX_C_GT ? 1 : 0);
}

static bool is_value(struct learn *l, const struct ptx_insn *setp, unsigned k,
		     value_id id)
{
	const struct ptx_opnd *o = &setp->o[k];

	return o->kind == PTX_O_REG &&
	       reach_of(l, o->idx, (uint32_t)(setp - l->f->insns)) == id;
}

static void compared(struct learn *l, const struct ptx_insn *setp, enum ptx_cmp cmp,
		     void *arg)
{
	struct bound *b = arg;

	if (is_value(l, setp, 2, b->id))
		bound_by(l, b, setp, cmp, &setp->o[3]);
	else if (is_value(l, setp, 3, b->id))
		bound_by(l, b, setp, guard_swapped(cmp), &setp->o[2]);
}

uint32_t guard_bound(struct learn *l, uint32_t n, value_id id, uint32_t ctx)
{
	struct bound b = {n, id};
	for (unsigned i = 0; ctx != NONE && i < GUARDS_MAX; i++) {
		const struct ptx_block *at = &l->nest.blocks[ctx];

		guard_each(l, at->from, ctx, compared, &b);
		ctx = at->idom == PTX_NEST_NONE ? NONE : l->ctx[at->idom];
	}
	return b.node;
}
