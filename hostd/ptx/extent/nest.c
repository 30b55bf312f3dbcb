/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/extent/nest.h"
#include "ptx/rewrite/flow.h"

#define NONE       PTX_NEST_NONE
#define BLOCKS_MAX 8192u
/* Steps until the dominators are settled. */
#define WORK_MAX (16u << 20)

static bool ends_block(const struct ptx_insn *in)
{
	switch ((enum ptx_op)in->op) {
	case PTX_BRA:
	case PTX_RET:
	case PTX_EXIT:
	case PTX_TRAP:
		return true;
	default:
		return false;
	}
}

static int find_blocks(const struct ptx_func *f, struct ptx_nest *n)
{
	_cleanup_free_ uint8_t *begins = calloc(f->ninsns + 1, 1);

	n->of = calloc(f->ninsns + 1, sizeof(*n->of));
	if (!begins || !n->of)
		return -ENOMEM;
	begins[0] = 1;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		if (in->op == PTX_BRX_IDX)
			return -E2BIG;
		if (in->op == PTX_BRA)
			begins[in->o[0].idx] = 1;
		begins[i + 1] |= ends_block(in);
	}
	for (uint32_t i = 0; i < f->ninsns; i++) {
		n->n += begins[i];
		n->of[i] = n->n - 1;
	}
	if (n->n > BLOCKS_MAX)
		return -E2BIG;
	n->blocks = calloc(n->n + 1, sizeof(*n->blocks));
	if (!n->blocks)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		struct ptx_block *b = &n->blocks[n->of[i]];

		if (begins[i])
			*b = (struct ptx_block){i,   i, NONE, NONE, NONE, {NONE, NONE},
						NONE};
		b->last = i;
	}
	return 0;
}

struct leading {
	const struct ptx_nest *n;
	struct ptx_block *b;
};

static void note_next(void *arg, uint32_t insn)
{
	struct leading *l = arg;
	uint32_t to = l->n->of[insn];

	if (l->b->next[0] == NONE)
		l->b->next[0] = to;
	else if (l->b->next[0] != to)
		l->b->next[1] = to;
}

/* Postorder, without recursion: each block twice on the stack at most. */
static int order_blocks(struct ptx_nest *n, uint32_t **ret_order, uint32_t *ret_n)
{
	_cleanup_free_ uint32_t *stack = calloc(2 * (size_t)n->n + 2, sizeof(*stack));
	_cleanup_free_ uint8_t *state = calloc(n->n + 1, 1);
	uint32_t *order = calloc(n->n + 1, sizeof(*order));
	uint32_t top = 0, k = n->n;

	*ret_order = order;
	if (!stack || !state || !order)
		return -ENOMEM;
	stack[top++] = 0;
	while (top) {
		uint32_t b = stack[top - 1];

		if (state[b]) {
			top--;
			if (state[b] == 1)
				order[--k] = b;
			state[b] = 2;
			continue;
		}
		state[b] = 1;
		for (unsigned e = 0; e < 2; e++) {
			uint32_t to = n->blocks[b].next[e];

			if (to != NONE && !state[to])
				stack[top++] = to;
		}
	}
	*ret_n = n->n - k;
	memmove(order, order + k, *ret_n * sizeof(*order));
	for (uint32_t i = 0; i < *ret_n; i++)
		n->blocks[order[i]].order = i;
	return 0;
}

static uint32_t meet(const struct ptx_nest *n, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (n->blocks[a].order > n->blocks[b].order)
			a = n->blocks[a].idom;
		while (n->blocks[b].order > n->blocks[a].order)
			b = n->blocks[b].idom;
	}
	return a;
}

static int find_before(struct ptx_nest *n)
{
	uint32_t sum = 0;

	n->before_at = calloc(n->n + 2, sizeof(*n->before_at));
	n->before = calloc(2 * (size_t)n->n + 1, sizeof(*n->before));
	if (!n->before_at || !n->before)
		return -ENOMEM;
	for (uint32_t b = 0; b < n->n; b++) {
		for (unsigned e = 0; e < 2; e++) {
			uint32_t to = n->blocks[b].next[e];

			if (to != NONE && n->blocks[b].order != NONE)
				n->before_at[to + 1]++;
		}
	}
	for (uint32_t b = 0; b <= n->n; b++)
		n->before_at[b] = sum += n->before_at[b];
	for (uint32_t b = n->n; b-- > 0;) {
		for (unsigned e = 0; e < 2; e++) {
			uint32_t to = n->blocks[b].next[e];

			if (to != NONE && n->blocks[b].order != NONE)
				n->before[--n->before_at[to + 1]] = b;
		}
	}
	/* Each begins now where the one before it ended. */
	for (uint32_t b = 0; b < n->n; b++)
		n->before_at[b] = n->before_at[b + 1];
	n->before_at[n->n] = sum;
	for (uint32_t b = 0; b < n->n; b++) {
		if (n->before_at[b + 1] - n->before_at[b] == 1)
			n->blocks[b].from = n->before[n->before_at[b]];
	}
	return 0;
}

/* Numbers blocks so that those that one dominates follow it: first come sizes, from the leaves up. */
static void number_dominated(struct ptx_nest *n, const uint32_t *order, uint32_t n_order)
{
	for (uint32_t i = n_order; i-- > 0;) {
		struct ptx_block *b = &n->blocks[order[i]];

		b->dom_end++;
		if (b->idom != NONE)
			n->blocks[b->idom].dom_end += b->dom_end;
	}
	for (uint32_t i = 0; i < n_order; i++) {
		struct ptx_block *b = &n->blocks[order[i]];
		struct ptx_block *up = b->idom == NONE ? NULL : &n->blocks[b->idom];
		uint32_t size = b->dom_end;

		/* Above, dom_end is where the next one begins until all have been given theirs. */
		b->dom_first = up ? up->dom_end : 0;
		if (up)
			up->dom_end += size;
		b->dom_end = b->dom_first + 1;
	}
}

static int find_dominators(struct ptx_nest *n, const uint32_t *order, uint32_t n_order)
{
	bool changed = true;
	uint32_t work = 0;

	n->blocks[0].idom = 0;
	while (changed) {
		changed = false;
		for (uint32_t i = 1; i < n_order; i++) {
			uint32_t b = order[i], dom = NONE;

			for (uint32_t e = n->before_at[b]; e < n->before_at[b + 1]; e++) {
				uint32_t from = n->before[e];

				if (n->blocks[from].idom == NONE)
					continue;
				dom = dom == NONE ? from : meet(n, dom, from);
				work++;
			}
			changed |= dom != n->blocks[b].idom;
			n->blocks[b].idom = dom;
		}
		if (work > WORK_MAX)
			return -E2BIG;
	}
	n->blocks[0].idom = NONE;
	number_dominated(n, order, n_order);
	return 0;
}

bool ptx_dominates(const struct ptx_nest *n, uint32_t a, uint32_t b)
{
	const struct ptx_block *of = &n->blocks[a];
	uint32_t at = n->blocks[b].dom_first;

	return a == b || (of->order != NONE && n->blocks[b].order != NONE &&
			  at >= of->dom_first && at < of->dom_end);
}

bool ptx_is_around(const struct ptx_nest *n, uint32_t loop, uint32_t inner)
{
	while (inner != loop && inner != NONE)
		inner = n->loops[inner].outer;
	return inner == loop;
}

bool ptx_in_loop(const struct ptx_nest *n, uint32_t loop, uint32_t block)
{
	return ptx_is_around(n, loop, n->blocks[block].loop);
}

/* The blocks from which the head is reached without leaving by it: body[b] says so. */
static void walk_back(const struct ptx_nest *n, uint32_t head, uint8_t *body,
		      uint32_t *stack)
{
	uint32_t top = 0;

	memset(body, 0, n->n);
	body[head] = 1;
	for (uint32_t e = n->before_at[head]; e < n->before_at[head + 1]; e++) {
		uint32_t from = n->before[e];

		if (ptx_dominates(n, head, from) && !body[from]) {
			body[from] = 1;
			stack[top++] = from;
		}
	}
	while (top) {
		uint32_t b = stack[--top];

		for (uint32_t e = n->before_at[b]; e < n->before_at[b + 1]; e++) {
			uint32_t from = n->before[e];

			if (!body[from]) {
				body[from] = 1;
				stack[top++] = from;
			}
		}
	}
}

static bool goes_round(const struct ptx_nest *n, uint32_t head)
{
	for (uint32_t e = n->before_at[head]; e < n->before_at[head + 1]; e++) {
		if (ptx_dominates(n, head, n->before[e]))
			return true;
	}
	return false;
}

/* Heads come in reverse postorder, so a loop comes behind those around it, whose blocks it takes
 * over. */
static int find_loops(struct ptx_nest *n, const uint32_t *order, uint32_t n_order)
{
	_cleanup_free_ uint8_t *body = calloc(n->n + 1, 1);
	_cleanup_free_ uint32_t *stack = calloc(n->n + 1, sizeof(*stack));
	uint64_t work = 0;

	n->loops = calloc(n->n + 1, sizeof(*n->loops));
	if (!body || !stack || !n->loops)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_order; i++) {
		struct ptx_nest_loop *l = &n->loops[n->n_loops];

		if (!goes_round(n, order[i]))
			continue;
		l->head = order[i];
		l->outer = n->blocks[order[i]].loop;
		walk_back(n, order[i], body, stack);
		for (uint32_t b = 0; b < n->n; b++) {
			if (body[b])
				n->blocks[b].loop = n->n_loops;
		}
		n->n_loops++;
		work += n->n;
		if (work > WORK_MAX)
			return -E2BIG;
	}
	return 0;
}

static int nest(const struct ptx_module *m, const struct ptx_func *f, struct ptx_nest *n)
{
	_cleanup_free_ uint32_t *order = NULL;
	uint32_t n_order = 0;
	int r = find_blocks(f, n);

	for (uint32_t b = 0; r == 0 && b < n->n; b++) {
		struct leading l = {n, &n->blocks[b]};

		ptx_each_next(m, f, n->blocks[b].last, note_next, &l);
	}
	if (r == 0)
		r = order_blocks(n, &order, &n_order);
	if (r == 0)
		r = find_before(n);
	if (r == 0)
		r = find_dominators(n, order, n_order);
	return r == 0 ? find_loops(n, order, n_order) : r;
}

int ptx_nest(const struct ptx_module *m, const struct ptx_func *f, struct ptx_nest *ret)
{
	int r;

	*ret = (struct ptx_nest){0};
	r = nest(m, f, ret);
	if (r < 0)
		ptx_nest_fini(ret);
	return r;
}

void ptx_nest_fini(struct ptx_nest *n)
{
	free(n->blocks);
	free(n->of);
	free(n->before_at);
	free(n->before);
	free(n->loops);
	*n = (struct ptx_nest){0};
}
