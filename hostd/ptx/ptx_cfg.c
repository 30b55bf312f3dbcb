/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where diverged lanes meet again: immediate post-dominators of basic blocks, found as
 * dominators of the reversed graph by Lengauer and Tarjan's algorithm with path
 * compression, which is near-linear on any graph, however hostile.
 *
 * Two rounds. The first starts from the blocks that end in ret (in kernels exit as well)
 * and so sees every block that can return. A block from which only a trap, an exit of a
 * device function or an endless loop can be reached is not among them, and does not keep
 * the others from meeting: lanes that go there never come back. The second round does
 * the same for those blocks by themselves, with the ends of such paths, or some block of
 * each endless loop, as starting points.
 *
 * A guarded ret, exit or trap is no end of a block: lanes that take it are gone, the
 * others run on.
 */
#include <errno.h>
#include <stdlib.h>

#include "ptx/ptx_int.h"

#define NONE UINT32_MAX
#define DONE (NONE - 1) /* number of a block of the round before */

struct blocks {
	uint32_t n;        /* the root of a round is block n */
	uint32_t *first;   /* [n + 1] first instruction, of block n the end */
	uint32_t *succ_at; /* [n + 1] into succ */
	uint32_t *succ;
	uint32_t *pred_at; /* [n + 1] into pred */
	uint32_t *pred;
	uint8_t *end;    /* [n] enum block_end */
	uint32_t *ipdom; /* [n] block, or NONE */
};

enum block_end {
	GOES_ON,
	RETURNS,
	DIES
};

/* State of the algorithm; indexes are blocks, or numbers of the depth-first search. */
struct search {
	uint32_t count;   /* blocks numbered so far, the root included */
	uint32_t *num;    /* [n + 1] block -> number, NONE: not reached */
	uint32_t *vertex; /* number -> block */
	uint32_t *parent; /* number -> number */
	uint32_t *semi;   /* number -> number */
	uint32_t *idom;   /* number -> number */
	uint32_t *anc;    /* number -> number or NONE */
	uint32_t *best;   /* number -> number of least semi on the path */
	uint32_t *bucket; /* number -> first of a list */
	uint32_t *chain;  /* number -> next of the list */
	uint32_t *stack;  /* 2 (n + 1) */
};

static bool leaves(const struct ptx_insn *in, const struct ptx_func *funcs, bool entry,
		   enum block_end *ret)
{
	if (in->guard >= 0)
		return false;
	switch (in->op) {
	case PTX_RET:
		*ret = RETURNS;
		return true;
	case PTX_EXIT:
		*ret = entry ? RETURNS : DIES;
		return true;
	case PTX_TRAP:
		*ret = DIES;
		return true;
	case PTX_CALL:
		*ret = DIES;
		return in->o[0].kind == PTX_O_FUNC && funcs[in->o[0].idx].noreturn;
	default:
		return false;
	}
}

/* Calls fn for every instruction index that may follow a block's last instruction. */
static void each_target(const struct ptx_insn *insns, uint32_t last,
			const struct ptx_table *tables,
			void (*fn)(void *arg, uint32_t insn), void *arg)
{
	const struct ptx_insn *in = &insns[last];

	if (in->op == PTX_BRA) {
		fn(arg, in->o[0].idx);
	} else if (in->op == PTX_BRX_IDX) {
		const struct ptx_table *t = &tables[in->o[1].idx];

		for (uint32_t i = 0; i < t->n; i++)
			fn(arg, t->target[i]);
	}
	if ((in->op != PTX_BRA && in->op != PTX_BRX_IDX) || in->guard >= 0)
		fn(arg, last + 1);
}

static void mark_leader(void *arg, uint32_t insn)
{
	((uint8_t *)arg)[insn] = 1;
}

struct counter {
	const uint32_t *block_of;
	uint32_t *succ, nsucc; /* succ NULL: only count */
};

static void add_succ(void *arg, uint32_t insn)
{
	struct counter *c = arg;

	if (c->succ)
		c->succ[c->nsucc] = c->block_of[insn];
	c->nsucc++;
}

static void blocks_fini(struct blocks *b)
{
	free(b->first);
	free(b->succ_at);
	free(b->succ);
	free(b->pred_at);
	free(b->pred);
	free(b->end);
	free(b->ipdom);
}

static int invert(struct blocks *b)
{
	uint32_t nsucc = b->succ_at[b->n];

	b->pred_at = calloc(b->n + 2, sizeof(uint32_t));
	b->pred = calloc(nsucc + 1, sizeof(uint32_t));
	if (!b->pred_at || !b->pred)
		return -ENOMEM;
	for (uint32_t i = 0; i < nsucc; i++)
		b->pred_at[b->succ[i] + 2]++;
	for (uint32_t i = 2; i <= b->n + 1; i++)
		b->pred_at[i] += b->pred_at[i - 1];
	for (uint32_t v = 0; v < b->n; v++) {
		for (uint32_t i = b->succ_at[v]; i < b->succ_at[v + 1]; i++)
			b->pred[b->pred_at[b->succ[i] + 1]++] = v;
	}
	return 0;
}

/* Splits n instructions; block_of[i] is instruction i's block. */
static int blocks_init(struct blocks *b, const struct ptx_insn *insns, uint32_t n,
		       const struct ptx_table *tables, const struct ptx_func *funcs,
		       bool entry, uint32_t *block_of)
{
	_cleanup_free_ uint8_t *leader = calloc((size_t)n + 1, 1);
	struct counter c = {.block_of = block_of};
	enum block_end end;

	if (!leader)
		return -ENOMEM;
	leader[0] = 1;
	for (uint32_t i = 0; i < n; i++) {
		if (insns[i].op == PTX_BRA || insns[i].op == PTX_BRX_IDX) {
			each_target(insns, i, tables, mark_leader, leader);
			leader[i + 1] = 1;
		} else if (leaves(&insns[i], funcs, entry, &end)) {
			leader[i + 1] = 1;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		b->n += leader[i];
		block_of[i] = b->n - 1;
	}
	b->first = calloc(b->n + 1, sizeof(uint32_t));
	b->succ_at = calloc(b->n + 1, sizeof(uint32_t));
	b->end = calloc(b->n, 1);
	b->ipdom = malloc(b->n * sizeof(uint32_t));
	if (!b->first || !b->succ_at || !b->end || !b->ipdom)
		return -ENOMEM;
	for (uint32_t i = n; i-- > 0;)
		b->first[block_of[i]] = i;
	b->first[b->n] = n;
	/* Once to count the edges, once to write them down. */
	for (int pass = 0; pass < 2; pass++) {
		c.nsucc = 0;
		for (uint32_t v = 0; v < b->n; v++) {
			uint32_t last = b->first[v + 1] - 1;

			b->succ_at[v] = c.nsucc;
			if (leaves(&insns[last], funcs, entry, &end))
				b->end[v] = end;
			else
				each_target(insns, last, tables, add_succ, &c);
		}
		b->succ_at[b->n] = c.nsucc;
		if (!pass)
			c.succ = b->succ = calloc(c.nsucc + 1, sizeof(uint32_t));
		if (!b->succ)
			return -ENOMEM;
	}
	return invert(b);
}

static void search_fini(struct search *s)
{
	free(s->num); /* one allocation for all */
}

static int search_init(struct search *s, uint32_t n)
{
	size_t m = (size_t)n + 1;
	uint32_t *p = malloc(m * 11 * sizeof(uint32_t));

	if (!p)
		return -ENOMEM;
	s->num = p;
	s->vertex = p + m;
	s->parent = p + 2 * m;
	s->semi = p + 3 * m;
	s->idom = p + 4 * m;
	s->anc = p + 5 * m;
	s->best = p + 6 * m;
	s->bucket = p + 7 * m;
	s->chain = p + 8 * m;
	s->stack = p + 9 * m;
	for (size_t i = 0; i < m; i++)
		s->num[i] = NONE;
	return 0;
}

static uint32_t number(struct search *s, uint32_t block, uint32_t parent)
{
	uint32_t i = s->count++;

	s->num[block] = i;
	s->vertex[i] = block;
	s->parent[i] = parent;
	s->semi[i] = s->best[i] = i;
	s->anc[i] = s->bucket[i] = s->chain[i] = NONE;
	return i;
}

/* Numbers everything that reaches a block, which hangs below the root. The walk must be
 * a true depth-first one: the stack holds block and next edge. */
static void reach(struct search *s, const struct blocks *b, uint32_t block, uint32_t root)
{
	uint32_t top = 0;

	if (s->num[block] != NONE)
		return;
	number(s, block, root);
	s->stack[top++] = block;
	s->stack[top++] = b->pred_at[block];
	while (top) {
		uint32_t v = s->stack[top - 2], e = s->stack[top - 1];

		if (e == b->pred_at[v + 1]) {
			top -= 2;
			continue;
		}
		s->stack[top - 1]++;
		if (s->num[b->pred[e]] != NONE)
			continue;
		number(s, b->pred[e], s->num[v]);
		s->stack[top++] = b->pred[e];
		s->stack[top++] = b->pred_at[b->pred[e]];
	}
}

/* The number of least semidominator on the path from v up in the forest. */
static uint32_t eval(struct search *s, uint32_t v)
{
	uint32_t top = 0, u = v;

	if (s->anc[v] == NONE)
		return v;
	while (s->anc[s->anc[u]] != NONE) {
		s->stack[top++] = u;
		u = s->anc[u];
	}
	while (top) {
		uint32_t w = s->stack[--top], a = s->anc[w];

		if (s->semi[s->best[a]] < s->semi[s->best[w]])
			s->best[w] = s->best[a];
		s->anc[w] = s->anc[a];
	}
	return s->best[v];
}

/* Dominators of the numbers [root, count), of which starts[] are the root's children. */
static void dominators(struct search *s, const struct blocks *b, uint32_t root,
		       const uint8_t *start)
{
	for (uint32_t w = s->count - 1; w > root; w--) {
		uint32_t v = s->vertex[w], p = s->parent[w];

		if (start[v])
			s->semi[w] = root;
		for (uint32_t i = b->succ_at[v]; i < b->succ_at[v + 1]; i++) {
			uint32_t x = s->num[b->succ[i]];

			/* Successors that never come back are of no round, or a later
			 * one. */
			if (x == NONE || x < root)
				continue;
			x = eval(s, x);
			if (s->semi[x] < s->semi[w])
				s->semi[w] = s->semi[x];
		}
		s->chain[w] = s->bucket[s->semi[w]];
		s->bucket[s->semi[w]] = w;
		s->anc[w] = p;
		for (uint32_t x = s->bucket[p]; x != NONE; x = s->chain[x]) {
			uint32_t u = eval(s, x);

			s->idom[x] = s->semi[u] < s->semi[x] ? u : p;
		}
		s->bucket[p] = NONE;
	}
	for (uint32_t w = root + 1; w < s->count; w++) {
		if (s->idom[w] != s->semi[w])
			s->idom[w] = s->idom[s->idom[w]];
		b->ipdom[s->vertex[w]] =
			s->idom[w] == root ? NONE : s->vertex[s->idom[w]];
	}
}

static int post_dominators(struct blocks *b)
{
	_cleanup_free_ uint8_t *start = calloc(b->n, 1);
	_cleanup_(search_fini) struct search s = {0};

	if (!start || search_init(&s, b->n) < 0)
		return -ENOMEM;
	for (int round = 0; round < 2; round++) {
		uint32_t root;

		/* Over what the round before did not number. */
		s.count = 0;
		root = number(&s, b->n, 0);
		for (uint32_t v = 0; v < b->n; v++) {
			if (s.num[v] == NONE && b->end[v] == (round ? DIES : RETURNS)) {
				start[v] = 1;
				reach(&s, b, v, root);
			}
		}
		for (uint32_t v = b->n; round && v-- > 0;) {
			if (s.num[v] == NONE) {
				start[v] = 1;
				reach(&s, b, v, root);
			}
		}
		dominators(&s, b, root, start);
		/* Done with these: a block that returns has no successors in round two
		 * that matter, and none of round two leads to one of round one. */
		for (uint32_t w = 1; w < s.count; w++)
			s.num[s.vertex[w]] = NONE - 1;
	}
	return 0;
}

int ptx_cfg(struct ptx_insn *insns, uint32_t n, const struct ptx_table *tables,
	    const struct ptx_func *funcs, bool is_entry)
{
	_cleanup_free_ uint32_t *block_of = malloc((size_t)n * sizeof(uint32_t));
	_cleanup_(blocks_fini) struct blocks b = {0};
	int r;

	if (!block_of)
		return -ENOMEM;
	r = blocks_init(&b, insns, n, tables, funcs, is_entry, block_of);
	if (r == 0)
		r = post_dominators(&b);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t d = b.ipdom[block_of[i]];

		if ((insns[i].op == PTX_BRA && insns[i].guard >= 0) ||
		    insns[i].op == PTX_BRX_IDX)
			insns[i].reconv = d == NONE ? -1 : (int32_t)b.first[d];
	}
	return 0;
}
