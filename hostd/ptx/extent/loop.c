/* SPDX-License-Identifier: Apache-2.0 */
/* Registers, and those that loops count. */
#include <string.h>

#include "ptx/extent/form.h"
#include "ptx/extent/learn.h"

#define NONE      LEARN_NONE
#define DEPTH_MAX 64u /* of registers made of registers; a lane has 256 KiB of stack */
#define WORK_MAX  (1u << 20) /* values, comparisons and blocks that are looked at */
#define CHAIN_MAX 8u
#define LOOP_SYMS 256u /* behind those of special registers */

static bool is_one_of(const struct learn *l, uint32_t n, uint32_t self)
{
	return l->selfs[n] >> self & 1;
}

/* A node that is the value in hand and more: what is more. NONE: it is something else. */
static uint32_t split(struct learn *l, uint32_t n, uint32_t self)
{
	struct node is = l->nodes[n];
	uint32_t a, b;

	switch ((enum node_op)is.op) {
	case NODE_SELF:
		return is.imm == (int64_t)self ? learn_number(l, 0) : NONE;
	case NODE_ADD:
		if (!is_one_of(l, is.a, self)) {
			a = is.a;
			is.a = is.b;
			is.b = a;
		}
		a = is_one_of(l, is.b, self) ? NONE : split(l, is.a, self);
		return a == NONE ? NONE : learn_made_of(l, NODE_ADD, a, is.b);
	case NODE_SUB:
		a = is_one_of(l, is.b, self) ? NONE : split(l, is.a, self);
		return a == NONE ? NONE : learn_made_of(l, NODE_SUB, a, is.b);
	case NODE_UNION:
		a = split(l, is.a, self);
		b = a == NONE ? NONE : split(l, is.b, self);
		return b == NONE ? NONE : learn_made_of(l, NODE_UNION, a, b);
	case NODE_LOOP: /* behind that loop */
		if (is_one_of(l, is.b, self) || is_one_of(l, is.c, self))
			return NONE;
		a = split(l, is.a, self);
		b = learn_made_of(l, NODE_SPAN, is.c, is.b);
		return a == NONE ? NONE : learn_made_of(l, NODE_ADD, a, b);
	case NODE_LOWER:
	case NODE_HIGHER:
	case NODE_UNSIGNED:
		return split(l, is.a, self);
	default:
		return NONE;
	}
}

/* ---- what a register is written with ---- */

struct part {
	uint32_t insn, node;
	bool steps; /* node is what it adds to what was there */
};

struct parts {
	unsigned n;
	struct part p[LEARN_SEVERAL];
};

/* False: it is not understood. */
static bool parts_of(struct learn *l, value_id id, uint32_t ctx, struct parts *ret)
{
	uint32_t self = l->n_active, def[LEARN_SEVERAL];
	unsigned n = reach_defs(l, id, def);
	bool ok = true;

	ret->n = 0;
	if (self == LEARN_ACTIVE)
		return false;
	l->active[self] = id;
	l->epoch[self] = ++l->last_epoch;
	l->n_active++;
	for (unsigned i = 0; ok && i < n; i++) {
		const struct def *d = &l->defs[def[i]];
		struct part *p = &ret->p[ret->n++];

		p->insn = d->insn;
		p->node = learn_computed(l, &l->f->insns[d->insn], d->elem, ctx);
		p->steps = is_one_of(l, p->node, self);
		if (p->steps)
			p->node = split(l, p->node, self);
		ok = p->node != NONE;
	}
	l->n_active--;
	return ok;
}

/* The value before its loops count; NONE: there is none. */
static uint32_t begin_of(struct learn *l, const struct parts *p)
{
	uint32_t n = NONE;

	for (unsigned i = 0; i < p->n; i++) {
		if (!p->p[i].steps)
			n = n == NONE ? p->p[i].node
				      : learn_made_of(l, NODE_UNION, n, p->p[i].node);
	}
	return n;
}

static uint32_t loop_of(const struct learn *l, uint32_t insn)
{
	return l->nest.blocks[l->nest.of[insn]].loop;
}

/* The step in a loop: of several ways through it, any. NONE: there is none. */
static uint32_t step_in(struct learn *l, const struct parts *p, uint32_t loop)
{
	uint32_t n = NONE;

	for (unsigned i = 0; i < p->n; i++) {
		if (p->p[i].steps && loop_of(l, p->p[i].insn) == loop)
			n = n == NONE ? p->p[i].node
				      : learn_made_of(l, NODE_UNION, n, p->p[i].node);
	}
	return n;
}

/* ---- how often loops go round ---- */

struct asking {
	uint32_t loop, block, node;
};

/* A value that a loop counts, and what is added to it before it is compared. */
struct counted {
	uint32_t more, begin, step;
};

static bool is_counted(struct learn *l, value_id id, uint32_t loop, struct counted *ret)
{
	struct parts p;
	bool ok = parts_of(l, id, NONE, &p);

	ret->begin = ok ? begin_of(l, &p) : NONE;
	ret->step = ok ? step_in(l, &p, loop) : NONE;
	for (unsigned i = 0; ok && i < p.n; i++)
		ok = !p.p[i].steps || loop_of(l, p.p[i].insn) == loop;
	return ok && ret->begin != NONE && ret->step != NONE;
}

static bool follow(struct learn *l, const struct ptx_insn *in, unsigned k, uint32_t loop,
		   unsigned depth, struct counted *ret);

/* A value that is counted, and something added to it or taken from it. */
static bool follow_sum(struct learn *l, const struct ptx_insn *in, uint32_t loop,
		       unsigned depth, struct counted *ret)
{
	struct counted c = *ret;
	uint32_t more;

	for (unsigned k = 1; k <= (in->op == PTX_SUB ? 1u : 2u); k++) {
		*ret = c;
		more = learn_value(l, in, &in->o[3 - k], in->type[0], NONE);
		ret->more = learn_made_of(l, in->op == PTX_SUB ? NODE_SUB : NODE_ADD,
					  c.more, more);
		if (!learn_is_unknown(l, ret->more) &&
		    follow(l, in, k, loop, depth + 1, ret))
			return true;
	}
	return false;
}

static bool follow(struct learn *l, const struct ptx_insn *in, unsigned k, uint32_t loop,
		   unsigned depth, struct counted *ret)
{
	const struct ptx_opnd *o = &in->o[k];
	uint32_t def[LEARN_SEVERAL], at;
	value_id id;

	if (o->kind != PTX_O_REG || depth > CHAIN_MAX)
		return false;
	id = reach_of(l, o->idx, (uint32_t)(in - l->f->insns));
	if (id == NONE)
		return false;
	if (reach_defs(l, id, def) > 1)
		return is_counted(l, id, loop, ret);
	at = l->defs[def[0]].insn;
	in = &l->f->insns[at];
	if (!ptx_in_loop(&l->nest, loop, l->nest.of[at]))
		return false;
	if ((in->op == PTX_ADD || in->op == PTX_SUB) && learn_is_integer(in->type[0]))
		return follow_sum(l, in, loop, depth, ret);
	if ((in->op == PTX_MOV && in->o[1].kind == PTX_O_REG) ||
	    (in->op == PTX_CVT && learn_is_integer(in->type[1])))
		return follow(l, in, 1, loop, depth + 1, ret);
	return false;
}

static void note_trips(struct learn *l, struct asking *a, const struct ptx_insn *setp,
		       unsigned k, enum ptx_cmp cmp)
{
	struct counted c = {.more = learn_number(l, 0)};
	uint32_t from, to, n;

	if (!follow(l, setp, k, a->loop, 0, &c))
		return;
	to = learn_value(l, setp, &setp->o[5 - k], setp->type[0], NONE);
	from = learn_made_of(l, NODE_ADD, c.begin, c.more);
	if (learn_is_unknown(l, from) || learn_is_unknown(l, to))
		return;
	n = learn_node(l,
		       (struct node){.op = NODE_TRIPS,
				     .a = from,
				     .b = to,
				     .c = c.step,
				     .imm = cmp | (c.more == c.step ? TRIPS_BOTTOM : 0)});
	a->node = a->node == NONE ? n : learn_made_of(l, NODE_MIN, a->node, n);
}

static void goes_on(struct learn *l, const struct ptx_insn *setp, enum ptx_cmp cmp,
		    void *arg)
{
	if (cmp == PTX_C_NONE || cmp == PTX_C_EQ)
		return;
	note_trips(l, arg, setp, 2, cmp);
	note_trips(l, arg, setp, 3, guard_swapped(cmp));
}

/* Whether each round comes by a block. */
static bool is_in_each_round(struct learn *l, uint32_t loop, uint32_t block)
{
	const struct ptx_nest *n = &l->nest;
	uint32_t head = n->loops[loop].head;

	l->work += n->n / 64;
	for (uint32_t b = 0; b < n->n; b++) {
		if ((n->blocks[b].next[0] == head || n->blocks[b].next[1] == head) &&
		    n->blocks[b].order != PTX_NEST_NONE && ptx_in_loop(n, loop, b) &&
		    !ptx_dominates(n, block, b))
			return false;
	}
	return true;
}

/* The comparisons of a block by which control may leave the loop. */
static void ask_block(struct learn *l, struct asking *a)
{
	const struct ptx_block *b = &l->nest.blocks[a->block];
	uint32_t stays = PTX_NEST_NONE;
	unsigned in = 0;

	for (unsigned e = 0; e < 2; e++) {
		if (b->next[e] == PTX_NEST_NONE ||
		    !ptx_in_loop(&l->nest, a->loop, b->next[e]))
			continue;
		stays = b->next[e];
		in++;
	}
	if (!guard_ends(l, a->block) || in != 1 ||
	    !is_in_each_round(l, a->loop, a->block))
		return;
	guard_each(l, a->block, stays, goes_on, a);
}

static uint32_t trips_of(struct learn *l, uint32_t loop)
{
	struct trips *t = &l->trips[loop];
	struct asking a = {.loop = loop, .node = NONE};
	uint32_t base = l->base;

	if (t->known)
		return t->node;
	if (t->busy)
		return learn_unknown(l);
	t->busy = true;
	/* Whole numbers of rounds, whatever is in hand. */
	l->base = l->n_active;
	l->work += l->nest.n / 64;
	for (a.block = 0; a.block < l->nest.n && !l->full; a.block++) {
		if (l->nest.blocks[a.block].order != PTX_NEST_NONE &&
		    ptx_in_loop(&l->nest, loop, a.block))
			ask_block(l, &a);
	}
	l->base = base;
	t->busy = false;
	t->known = true;
	t->node = a.node == NONE ? learn_unknown(l) : a.node;
	return t->node;
}

/* ---- registers ---- */

static bool begins_in(const struct learn *l, const struct parts *p, uint32_t loop)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (!p->p[i].steps &&
		    ptx_in_loop(&l->nest, loop, l->nest.of[p->p[i].insn]))
			return true;
	}
	return false;
}

/* n, and what a loop adds to it, as often as it and those around it go round that do not let it
 * begin anew. */
static uint32_t count_in(struct learn *l, const struct parts *p, uint32_t n,
			 uint32_t loop, uint32_t within)
{
	uint32_t step = step_in(l, p, loop), times, outer;
	uint16_t sym = FORM_ANY;

	if (loop == PTX_NEST_NONE) /* once */
		return learn_made_of(l, NODE_UNION, n,
				     learn_made_of(l, NODE_ADD, n, step));
	times = trips_of(l, loop);
	if (loop < FORM_ANY - LOOP_SYMS)
		sym = (uint16_t)(LOOP_SYMS + loop);
	outer = begins_in(l, p, loop) ? PTX_NEST_NONE : l->nest.loops[loop].outer;
	for (; outer != PTX_NEST_NONE && !begins_in(l, p, outer);
	     outer = l->nest.loops[outer].outer) {
		times = learn_made_of(l, NODE_MUL, times, trips_of(l, outer));
		sym = FORM_ANY;
	}
	if (!ptx_is_around(&l->nest, loop, within)) {
		/* Behind it, all rounds have counted. */
		times = learn_made_of(l, NODE_ADD, times, learn_number(l, 1));
		sym = FORM_ANY;
	}
	return learn_node(
		l, (struct node){
			   .op = NODE_LOOP, .a = n, .b = times, .c = step, .sym = sym});
}

static uint32_t one_of_several(struct learn *l, value_id id, uint32_t ctx,
			       uint32_t within)
{
	struct parts p;
	uint32_t n;

	if (!parts_of(l, id, ctx, &p))
		return learn_unknown(l);
	n = begin_of(l, &p);
	if (n == NONE || learn_is_unknown(l, n))
		return learn_unknown(l);
	for (unsigned i = 0; i < p.n; i++) {
		uint32_t loop = loop_of(l, p.p[i].insn);
		bool is_first = p.p[i].steps;

		for (unsigned k = 0; k < i; k++)
			is_first &= !p.p[k].steps || loop_of(l, p.p[k].insn) != loop;
		if (is_first)
			n = count_in(l, &p, n, loop, within);
	}
	return n;
}

static uint32_t in_hand(const struct learn *l, value_id id)
{
	for (uint32_t i = l->base; i < l->n_active; i++) {
		if (l->active[i] == id)
			return i;
	}
	return NONE;
}

uint32_t learn_reg(struct learn *l, uint32_t reg, uint32_t insn, uint32_t ctx)
{
	value_id id = reach_of(l, reg, insn);
	uint32_t self, n, within = loop_of(l, insn), def[LEARN_SEVERAL];

	if (id == NONE || l->full)
		return learn_unknown(l);
	self = in_hand(l, id);
	if (self != NONE)
		return learn_node(l, (struct node){.op = NODE_SELF, .imm = self});
	n = reach_recall(l, id, ctx, within);
	if (n != NONE)
		return n;
	l->full |= ++l->work > WORK_MAX;
	if (l->full || l->depth == DEPTH_MAX)
		return learn_unknown(l);
	l->depth++;
	if (reach_defs(l, id, def) == 1) {
		const struct def *d = &l->defs[def[0]];

		n = learn_computed(l, &l->f->insns[d->insn], d->elem, ctx);
	} else {
		n = one_of_several(l, id, ctx, within);
	}
	if (!learn_is_uniform(l, n))
		n = guard_bound(l, n, id, ctx);
	l->depth--;
	reach_remember(l, id, ctx, within, n);
	return n;
}
