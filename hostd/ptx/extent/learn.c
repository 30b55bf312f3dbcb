/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a kernel's PTX: what each address is made of (value.c), and where parameters go that are
 * part of an address, or given away. A register is what the instructions make that have written it
 * (reach.c). If one of them makes it of what it was before, a loop counts it (loop.c); else it is any
 * of them. Where control comes by branches that compare a register with something, that bounds it
 * (guard.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/extent/learn.h"

#define ROUNDS_MAX 32u /* until it is settled which parameters are in which registers */

/* ---- parameters in registers ---- */

/* The bit of the word of the parameters at an offset; 0: there are too many, and all is given up. */
static uint64_t word_bit(struct learn *l, struct ptx_extent *e, int64_t offset)
{
	unsigned i = 0;

	while (i < e->n_words && e->word[i] != (uint32_t)offset / 8 * 8)
		i++;
	if (i == e->n_words && i < LEARN_WORDS)
		e->word[e->n_words++] = (uint32_t)offset / 8 * 8;
	l->full |= i == LEARN_WORDS;
	return i < LEARN_WORDS ? 1ull << i : 0;
}

static uint64_t taint_of(const struct learn *l, const struct ptx_opnd *o)
{
	uint64_t t = 0;

	if (o->kind == PTX_O_REG || o->kind == PTX_O_MEM)
		return l->taint[o->idx];
	for (unsigned i = 0; o->kind == PTX_O_VEC && i < o->n; i++)
		t |= taint_of(l, &o->elem[i]);
	return t;
}

static bool add_taint(struct learn *l, const struct ptx_opnd *o, uint64_t t)
{
	bool more = false;

	for (unsigned i = 0; o->kind == PTX_O_VEC && i < o->n; i++)
		more |= add_taint(l, &o->elem[i], t);
	if (o->kind != PTX_O_REG || !(t & ~l->taint[o->idx]))
		return more;
	l->taint[o->idx] |= t;
	return true;
}

static bool taint_loaded(struct learn *l, struct ptx_extent *e, const struct ptx_insn *in)
{
	const struct ptx_opnd *d = &in->o[0];
	unsigned bytes = ptx_type_bits(in->type[0]) / 8;
	bool more = false;

	if (in->o[1].kind != PTX_O_KPARAM)
		return bytes == 8 && add_taint(l, d, LEARN_LOADED);
	if (bytes < 4 || in->o[1].off < 0 || in->o[1].off >= PTX_MAX_PARAM_BYTES)
		return false;
	if (d->kind == PTX_O_REG)
		return add_taint(l, d, word_bit(l, e, in->o[1].off));
	for (unsigned i = 0; d->kind == PTX_O_VEC && i < d->n; i++)
		more |= add_taint(l, &d->elem[i],
				  word_bit(l, e, in->o[1].off + (int64_t)i * bytes));
	return more;
}

/* Whether what an instruction makes of an operand that is an address is one, too. */
static bool keeps_address(const struct ptx_insn *in, unsigned k)
{
	switch ((enum ptx_op)in->op) {
	case PTX_MOV:
	case PTX_CVTA:
	case PTX_ADD:
	case PTX_SUB:
	case PTX_AND:
	case PTX_OR:
	case PTX_SELP:
		return true;
	case PTX_MAD:
		return k == 3;
	default:
		return false;
	}
}

/* Into what an instruction writes goes what it reads. */
static bool taint_insn(struct learn *l, struct ptx_extent *e, const struct ptx_insn *in)
{
	unsigned written = ptx_written(in);
	uint64_t t = 0;
	bool more = false;

	if (in->op == PTX_LD || in->op == PTX_LDU)
		return taint_loaded(l, e, in);
	for (unsigned k = 0; k < in->nopnds; k++) {
		if (!(written >> k & 1))
			t |= taint_of(l, &in->o[k]) &
			     ~(keeps_address(in, k) ? 0 : LEARN_LOADED);
	}
	for (unsigned k = 0; t && k < in->nopnds; k++) {
		if (written >> k & 1)
			more |= add_taint(l, &in->o[k], t);
	}
	return more;
}

static void find_taint(struct learn *l, struct ptx_extent *e)
{
	bool more = true;

	for (unsigned round = 0; more && !l->full; round++) {
		more = false;
		for (uint32_t i = 0; i < l->f->ninsns; i++)
			more |= taint_insn(l, e, &l->f->insns[i]);
		l->full |= round == ROUNDS_MAX;
	}
}

/* ---- accesses ---- */

/* Words in what an instruction gives away, so that nobody knows who reaches memory by it. A number
 * from memory that is stored there again is none. */
static uint64_t given_away(const struct learn *l, const struct ptx_insn *in)
{
	uint64_t t = 0;

	switch ((enum ptx_op)in->op) {
	case PTX_ST:
	case PTX_RED:
		return taint_of(l, &in->o[1]) & ~LEARN_LOADED;
	case PTX_ATOM:
		for (unsigned k = 2; k < in->nopnds; k++)
			t |= taint_of(l, &in->o[k]);
		return t & ~LEARN_LOADED;
	case PTX_CALL:
	case PTX_WMMA_LOAD:
	case PTX_WMMA_STORE:
	case PTX_CP_BULK:
	case PTX_CP_REDUCE_BULK:
		for (unsigned k = 0; k < in->nopnds; k++)
			t |= taint_of(l, &in->o[k]);
		return t;
	default:
		return 0;
	}
}

/* The operand by which an instruction reaches memory, and how much of it; NULL: it does not. */
static const struct ptx_opnd *reaches(const struct ptx_insn *in, uint64_t *ret_bytes)
{
	bool is_global = in->space == PTX_S_GLOBAL || in->space == PTX_S_NONE;

	*ret_bytes = (uint64_t)MAX(in->vec, (uint8_t)1) * ptx_type_bits(in->type[0]) / 8;
	switch ((enum ptx_op)in->op) {
	case PTX_LD:
	case PTX_LDU:
	case PTX_ATOM:
		return is_global ? &in->o[1] : NULL;
	case PTX_ST:
	case PTX_RED:
		return is_global ? &in->o[0] : NULL;
	case PTX_CP_ASYNC:
		*ret_bytes = 16; /* at most */
		return &in->o[1];
	default:
		return NULL;
	}
}

/* Accesses that are closer than this are one. */
#define CLOSE (1 << 20)
/* No program means numbers in an address that are larger. */
#define FAR (INT64_MAX / 8)

/* Somebody reaches memory by these words, nobody knows how far. */
static void note_open(struct ptx_extent *e, uint64_t words)
{
	e->open |= words & ~LEARN_LOADED;
	e->follows |= words & LEARN_LOADED;
}

static void note_access(struct learn *l, struct ptx_extent *e, struct access a)
{
	const struct node *n = &l->nodes[a.node];

	if (n->op == NODE_ADD && learn_is_number(l, n->b)) {
		int64_t by = l->nodes[n->b].imm;

		a.node = n->a;
		if (by > FAR || by < -FAR) {
			note_open(e, a.words);
			return;
		}
		a.lo += by;
		a.hi += by;
	}
	for (uint32_t i = 0; i < e->n_accesses; i++) {
		struct access *o = &e->accesses[i];

		if (o->node != a.node || a.lo > o->hi + CLOSE || a.hi < o->lo - CLOSE)
			continue;
		o->lo = MIN(o->lo, a.lo);
		o->hi = MAX(o->hi, a.hi);
		o->words |= a.words;
		return;
	}
	if (e->n_accesses == ACCESSES_MAX) {
		l->full = true;
		return;
	}
	e->accesses[e->n_accesses++] = a;
}

static void look_at(struct learn *l, struct ptx_extent *e, uint32_t i)
{
	const struct ptx_insn *in = &l->f->insns[i];
	uint32_t block = l->nest.of[i], n;
	uint64_t bytes;
	const struct ptx_opnd *o = reaches(in, &bytes);

	if (l->nest.blocks[block].order == PTX_NEST_NONE)
		return;
	note_open(e, given_away(l, in));
	for (unsigned k = 0; k < in->nopnds; k++)
		l->full |= in->o[k].kind == PTX_O_KPARAM && in->op != PTX_LD;
	if (!o || o->kind != PTX_O_MEM)
		return;
	e->all++;
	n = learn_reg(l, o->idx, i, l->ctx[block]);
	if (learn_is_unknown(l, n) || o->off > FAR || o->off < -FAR) {
		note_open(e, l->taint[o->idx]);
		return;
	}
	e->known++;
	note_access(l, e,
		    (struct access){n, o->off, o->off + (int64_t)bytes,
				    l->taint[o->idx] & ~LEARN_LOADED});
}

/* ---- all of it ---- */

static void def_opnd(struct learn *l, const struct ptx_opnd *o, uint32_t insn,
		     uint32_t elem, bool counts)
{
	for (unsigned i = 0; o->kind == PTX_O_VEC && i < o->n; i++)
		def_opnd(l, &o->elem[i], insn, i, counts);
	if (o->kind != PTX_O_REG)
		return;
	if (counts)
		l->def_at[o->idx + 1]++;
	else
		l->defs[--l->def_at[o->idx + 1]] = (struct def){insn, elem};
}

static void each_def(struct learn *l, bool counts)
{
	for (uint32_t i = l->f->ninsns; i-- > 0;) {
		const struct ptx_insn *in = &l->f->insns[i];

		for (unsigned k = 0; k < in->nopnds; k++) {
			if (ptx_written(in) >> k & 1)
				def_opnd(l, &in->o[k], i, 0, counts);
		}
	}
}

static int find_defs(struct learn *l)
{
	uint32_t sum = 0;

	l->def_at = calloc(l->f->nregs + 2, sizeof(*l->def_at));
	if (!l->def_at)
		return -ENOMEM;
	each_def(l, true);
	for (uint32_t r = 0; r <= l->f->nregs; r++)
		l->def_at[r] = sum += l->def_at[r];
	l->defs = calloc(sum + 1, sizeof(*l->defs));
	if (!l->defs)
		return -ENOMEM;
	each_def(l, false);
	/* Each begins now where the one before it ended. */
	for (uint32_t r = 0; r < l->f->nregs; r++)
		l->def_at[r] = l->def_at[r + 1];
	l->def_at[l->f->nregs] = sum;
	return 0;
}

static int learn_init(struct learn *l)
{
	int r = ptx_nest(l->m, l->f, &l->nest);

	if (r == 0)
		r = guard_contexts(l);
	if (r == 0)
		r = find_defs(l);
	if (r < 0)
		return r;
	l->known_at = calloc(l->def_at[l->f->nregs] + 1u, sizeof(*l->known_at));
	l->entries = calloc(LEARN_HASH, sizeof(*l->entries));
	l->stack = calloc(l->nest.n + 1, sizeof(*l->stack));
	l->seen = calloc(l->nest.n + 1, sizeof(*l->seen));
	l->trips = calloc(l->nest.n_loops + 1, sizeof(*l->trips));
	l->taint = calloc(l->f->nregs + 1, sizeof(*l->taint));
	l->nodes = calloc(LEARN_NODES, sizeof(*l->nodes));
	l->selfs = calloc(LEARN_NODES, sizeof(*l->selfs));
	l->varies = calloc(LEARN_NODES, sizeof(*l->varies));
	l->hash = calloc(LEARN_HASH, sizeof(*l->hash));
	if (!l->known_at || !l->trips || !l->taint || !l->nodes || !l->selfs ||
	    !l->varies || !l->hash || !l->entries || !l->stack || !l->seen)
		return -ENOMEM;
	(void)learn_unknown(
		l); /* the first, which a node is made of that is made of none */
	return r;
}

static void learn_fini(struct learn *l)
{
	ptx_nest_fini(&l->nest);
	ptx_vec_fini(&l->known);
	ptx_vec_fini(&l->several);
	free(l->entries);
	free(l->stack);
	free(l->seen);
	free(l->ctx);
	free(l->def_at);
	free(l->defs);
	free(l->known_at);
	free(l->trips);
	free(l->taint);
	free(l->nodes);
	free(l->selfs);
	free(l->varies);
	free(l->hash);
}

/* Keeps the nodes that accesses are made of. */
static int keep_nodes(struct learn *l, struct ptx_extent *e)
{
	_cleanup_free_ uint32_t *to = calloc(l->n_nodes + 1, sizeof(*to));
	uint32_t n = 1;

	if (!to)
		return -ENOMEM;
	to[0] = 1;
	for (uint32_t i = 0; i < e->n_accesses; i++)
		to[e->accesses[i].node] = 1;
	for (uint32_t i = l->n_nodes; i-- > 0;) {
		if (to[i])
			to[l->nodes[i].a] = to[l->nodes[i].b] = to[l->nodes[i].c] = 1;
	}
	for (uint32_t i = 1; i < l->n_nodes; i++)
		to[i] = to[i] ? n++ : 0;
	to[0] = 0;
	if (n > NODES_MAX)
		return -E2BIG;
	e->nodes = calloc(n, sizeof(*e->nodes));
	if (!e->nodes)
		return -ENOMEM;
	for (uint32_t i = 1; i < l->n_nodes; i++) {
		struct node at = l->nodes[i];

		if (!to[i])
			continue;
		at.a = to[at.a];
		at.b = to[at.b];
		at.c = to[at.c];
		e->nodes[to[i]] = at;
	}
	e->n_nodes = n;
	for (uint32_t i = 0; i < e->n_accesses; i++)
		e->accesses[i].node = to[e->accesses[i].node];
	return 0;
}

static int learn(struct learn *l, struct ptx_extent *e)
{
	int r = learn_init(l);
	struct access *kept;

	e->accesses = calloc(ACCESSES_MAX, sizeof(*e->accesses));
	if (r < 0 || !e->accesses)
		return r < 0 ? r : -ENOMEM;
	find_taint(l, e);
	for (uint32_t i = 0; i < l->f->ninsns && !l->full; i++)
		look_at(l, e, i);
	if (l->full)
		return -E2BIG;
	kept = realloc(e->accesses, (e->n_accesses + 1) * sizeof(*kept));
	if (kept)
		e->accesses = kept;
	return keep_nodes(l, e);
}

struct ptx_extent *ptx_extent_new(const struct ptx_module *m, const struct ptx_func *f)
{
	_cleanup_(learn_fini) struct learn l = {.m = m, .f = f};
	struct ptx_extent *e = calloc(1, sizeof(*e));

	if (e && f->has_body && f->is_entry && !f->param_addr_taken && learn(&l, e) == 0)
		return e;
	ptx_extent_free(e);
	return NULL;
}
