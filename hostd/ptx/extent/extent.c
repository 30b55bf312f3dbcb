/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/extent/form.h"
#include "ptx/extent/node.h"

/* Strips of an access; more are one. */
#define STRIPS_MAX 4096u

struct launch {
	const struct ptx_extent *e;
	const char *params;
	size_t size;
	const struct ptx_grid *shape;
	uint64_t grain;
	ptx_extent_fn *fn;
	void *arg;
};

/* ---- nodes ---- */

static uint64_t read_word(const struct launch *l, uint64_t offset, unsigned bytes)
{
	uint64_t v = 0;

	if (offset <= l->size && bytes <= l->size - offset)
		memcpy(&v, l->params + offset, bytes);
	return v;
}

static void param(const struct launch *l, const struct node *n, struct form *ret)
{
	uint64_t v = read_word(l, (uint64_t)n->imm, n->bits / 8);
	unsigned unused = 64 - n->bits;

	form_const(ret, (int64_t)(v << unused) >> unused);
}

static void sreg(const struct launch *l, enum ptx_sreg sr, struct form *ret)
{
	const struct ptx_grid *g = l->shape;
	uint64_t threads = (uint64_t)g->threads[0] * g->threads[1] * g->threads[2];

	switch (sr) {
	case PTX_SR_TID_X:
	case PTX_SR_TID_Y:
	case PTX_SR_TID_Z:
		form_sym(ret, (uint16_t)sr, 1, g->threads[sr - PTX_SR_TID_X]);
		break;
	case PTX_SR_CTAID_X:
	case PTX_SR_CTAID_Y:
	case PTX_SR_CTAID_Z:
		form_sym(ret, (uint16_t)sr, 1, g->blocks[sr - PTX_SR_CTAID_X]);
		break;
	case PTX_SR_NTID_X:
	case PTX_SR_NTID_Y:
	case PTX_SR_NTID_Z:
		form_const(ret, g->threads[sr - PTX_SR_NTID_X]);
		break;
	case PTX_SR_NCTAID_X:
	case PTX_SR_NCTAID_Y:
	case PTX_SR_NCTAID_Z:
		form_const(ret, g->blocks[sr - PTX_SR_NCTAID_X]);
		break;
	case PTX_SR_LANEID:
		form_sym(ret, (uint16_t)sr, 1, MIN(threads, (uint64_t)32));
		break;
	case PTX_SR_WARPID:
		form_sym(ret, (uint16_t)sr, 1, (threads + 31) / 32);
		break;
	default:
		form_unknown(ret);
	}
}

/* How often a loop goes round at most. */
static void trips(const struct node *n, const struct form *v, struct form *ret)
{
	int64_t step = form_lo(&v[n->c]), way, rounds;
	enum ptx_cmp cmp = (enum ptx_cmp)(n->imm & (TRIPS_BOTTOM - 1));
	bool down = form_hi(&v[n->c]) < 0;
	struct form apart;

	form_sub(&apart, &v[n->b], &v[n->a]);
	if (down)
		step = form_hi(&v[n->c]) == INT64_MIN ? 0 : -form_hi(&v[n->c]);
	way = down ? form_lo(&apart) : form_hi(&apart);
	form_range(ret, 0, INT64_MAX);
	if (step <= 0 || way == INT64_MIN || way == INT64_MAX)
		return;
	way = down ? -way : way;
	if (down ? cmp == PTX_C_LT || cmp == PTX_C_LE
		 : cmp == PTX_C_GT || cmp == PTX_C_GE)
		return;
	/* A thread that would have to go round all numbers does not come there. */
	if (way < 0 && cmp == PTX_C_NE) {
		form_const(ret, 0);
		return;
	}
	rounds = way < 0 ? 0 : MIN(way / step, (int64_t)FORM_COUNT_MAX);
	if (way >= 0 && (cmp == PTX_C_LE || cmp == PTX_C_GE || way % step))
		rounds++;
	form_const(ret, rounds + !!(n->imm & TRIPS_BOTTOM));
}

/* From nothing to step * times. */
static void span(const struct form *step, int64_t times, struct form *ret)
{
	struct form all, far;

	form_const(&all, times);
	form_mul(&far, step, &all);
	form_range(ret, MIN(form_lo(&far), (int64_t)0), MAX(form_hi(&far), (int64_t)0));
}

static void loop(const struct node *n, const struct form *v, struct form *ret)
{
	const struct form *step = &v[n->c];
	int64_t times = form_hi(&v[n->b]);
	struct form more;

	if (times <= 0) {
		form_const(ret, 0);
		ret->flags = FORM_EMPTY;
		return;
	}
	if (times == INT64_MAX)
		form_range(&more, form_lo(step) >= 0 ? 0 : INT64_MIN,
			   form_hi(step) <= 0 ? 0 : INT64_MAX);
	else if (form_is_const(step))
		form_sym(&more, n->sym, step->c, (uint64_t)times);
	else
		span(step, times - 1, &more);
	form_add(ret, &v[n->a], &more);
}

/* A form cut off where another one ends, or begins. */
static void bounded(const struct node *n, const struct form *v, struct form *ret)
{
	int64_t end = n->op == NODE_LOWER ? form_hi(&v[n->b]) : form_lo(&v[n->b]);

	if (end == INT64_MAX || end == INT64_MIN ||
	    __builtin_add_overflow(end, n->imm, &end))
		end = n->op == NODE_LOWER ? INT64_MAX : INT64_MIN;
	if (n->op == NODE_LOWER)
		form_at_most(ret, &v[n->a], end);
	else
		form_at_least(ret, &v[n->a], end);
}

static void value(const struct launch *l, const struct node *n, const struct form *v,
		  struct form *ret)
{
	const struct form *a = &v[n->a], *b = &v[n->b];

	switch ((enum node_op)n->op) {
	case NODE_AWAY:
		form_const(ret, 0);
		ret->flags = FORM_AWAY;
		break;
	case NODE_CONST:
		form_const(ret, n->imm);
		break;
	case NODE_PARAM:
		param(l, n, ret);
		break;
	case NODE_SREG:
		sreg(l, (enum ptx_sreg)n->imm, ret);
		break;
	case NODE_RANGE:
		form_range(ret, 0, n->imm);
		break;
	case NODE_ADD:
		form_add(ret, a, b);
		break;
	case NODE_SUB:
		form_sub(ret, a, b);
		break;
	case NODE_MUL:
		form_mul(ret, a, b);
		break;
	case NODE_SHR:
		form_shr(ret, a, (unsigned)n->imm);
		break;
	case NODE_DIV:
		form_div(ret, a, b);
		break;
	case NODE_REM:
		form_rem(ret, a, b);
		break;
	case NODE_AND:
		form_and(ret, a, b);
		break;
	case NODE_OR:
		form_or(ret, a, b);
		break;
	case NODE_XOR:
		form_xor(ret, a, b);
		break;
	case NODE_MIN:
		form_min(ret, a, b);
		break;
	case NODE_MAX:
		form_max(ret, a, b);
		break;
	case NODE_UNION:
		form_union(ret, a, b);
		break;
	case NODE_UNSIGNED:
		form_unsigned(ret, a, n->bits);
		break;
	case NODE_LOWER:
	case NODE_HIGHER:
		bounded(n, v, ret);
		break;
	case NODE_ANY:
		form_range(ret, form_lo(a), form_hi(a));
		break;
	case NODE_TRIPS:
		trips(n, v, ret);
		break;
	case NODE_LOOP:
		loop(n, v, ret);
		break;
	case NODE_SPAN:
		if (form_hi(b) == INT64_MAX)
			form_unknown(ret);
		else
			span(a, form_hi(b), ret);
		break;
	case NODE_UNKNOWN:
	case NODE_SELF:
		form_unknown(ret);
		break;
	}
}

/* ---- accesses ---- */

static void tell_words(const struct launch *l, uint64_t words)
{
	for (; words; words &= words - 1) {
		uint32_t at = l->e->word[__builtin_ctzll(words)];

		l->fn(l->arg, read_word(l, at, sizeof(uint64_t)), 0);
	}
}

/* Tells strips of so many bytes each, of the terms from the first to the n-th. */
static void tell_strips(const struct launch *l, const struct form *f, unsigned first,
			uint64_t addr, uint64_t bytes)
{
	uint64_t i[FORM_TERMS] = {0};
	unsigned k = first;

	while (k < f->n || first == f->n) {
		l->fn(l->arg, addr, bytes);
		for (k = first; k < f->n; k++) {
			addr += (uint64_t)f->t[k].coef;
			if (++i[k] < f->t[k].count)
				break;
			addr -= (uint64_t)f->t[k].coef * f->t[k].count;
			i[k] = 0;
		}
		if (k == f->n)
			return;
	}
}

/* Strips of the terms from the k-th on. */
static uint64_t strips_of(const struct form *f, unsigned k)
{
	uint64_t n = 1;

	for (; k < f->n; k++) {
		if (__builtin_mul_overflow(n, (uint64_t)f->t[k].count, &n))
			return UINT64_MAX;
	}
	return n;
}

/* Parts closer than the grain are one strip. */
static void tell(const struct launch *l, const struct access *a, struct form f)
{
	uint64_t bytes = (uint64_t)(a->hi - a->lo);
	unsigned k = 0;

	if (!form_is_bounded(&f) || !form_sort(&f)) {
		tell_words(l, a->words);
		return;
	}
	while (k < f.n && (uint64_t)f.t[k].coef <= bytes + l->grain) {
		bytes += (uint64_t)f.t[k].coef * (f.t[k].count - 1);
		k++;
	}
	for (; strips_of(&f, k) > STRIPS_MAX; k++)
		bytes += (uint64_t)f.t[k].coef * (f.t[k].count - 1);
	tell_strips(l, &f, k, (uint64_t)f.c + (uint64_t)a->lo, bytes);
}

void ptx_extent_each(const struct ptx_extent *e, const void *params, size_t size,
		     const struct ptx_grid *shape, uint64_t grain, ptx_extent_fn *fn,
		     void *arg)
{
	const struct launch l = {e, params, size, shape, grain, fn, arg};
	struct form v[NODES_MAX];

	for (uint32_t i = 0; i < e->n_nodes; i++)
		value(&l, &e->nodes[i], v, &v[i]);
	for (uint32_t i = 0; i < e->n_accesses; i++) {
		const struct access *a = &e->accesses[i];

		if (!(v[a->node].flags & (FORM_EMPTY | FORM_AWAY)))
			tell(&l, a, v[a->node]);
	}
	tell_words(&l, e->open);
}

void ptx_extent_counts(const struct ptx_extent *e, unsigned *ret_all, unsigned *ret_known)
{
	*ret_all = e->all;
	*ret_known = e->known;
}

bool ptx_extent_follows(const struct ptx_extent *e)
{
	return e->follows;
}

size_t ptx_extent_bytes(const struct ptx_extent *e)
{
	return sizeof(*e) + e->n_nodes * sizeof(*e->nodes) +
	       e->n_accesses * sizeof(*e->accesses);
}

void ptx_extent_free(struct ptx_extent *e)
{
	if (!e)
		return;
	free(e->nodes);
	free(e->accesses);
	free(e);
}
