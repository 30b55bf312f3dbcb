/* SPDX-License-Identifier: Apache-2.0 */
/* The list of nodes while it is written: equal ones are one, and sums of numbers are made at once. */
#include "ptx/extent/learn.h"

static uint32_t hash_of(const struct node *n)
{
	uint64_t h = n->op | (uint64_t)n->bits << 8 | (uint64_t)n->sym << 16;

	h = (h ^ n->a) * 0x9e3779b97f4a7c15u;
	h = (h ^ n->b) * 0x9e3779b97f4a7c15u;
	h = (h ^ n->c) * 0x9e3779b97f4a7c15u;
	h = (h ^ (uint64_t)n->imm) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(h >> 40) % LEARN_HASH;
}

static bool is_same(const struct node *a, const struct node *b)
{
	return a->op == b->op && a->bits == b->bits && a->sym == b->sym && a->a == b->a &&
	       a->b == b->b && a->c == b->c && a->imm == b->imm;
}

static bool varies(const struct learn *l, const struct node *n)
{
	switch ((enum node_op)n->op) {
	case NODE_CONST:
	case NODE_PARAM:
		return false;
	case NODE_SREG:
		return !((n->imm >= PTX_SR_NTID_X && n->imm <= PTX_SR_NTID_Z) ||
			 (n->imm >= PTX_SR_NCTAID_X && n->imm <= PTX_SR_NCTAID_Z));
	case NODE_ADD:
	case NODE_SUB:
	case NODE_MUL:
	case NODE_AND:
	case NODE_MIN:
	case NODE_MAX:
	case NODE_DIV:
	case NODE_REM:
		return l->varies[n->a] || l->varies[n->b];
	case NODE_SHR:
	case NODE_UNSIGNED:
		return l->varies[n->a];
	default:
		return true;
	}
}

uint32_t learn_node(struct learn *l, struct node n)
{
	uint32_t h = hash_of(&n), at;

	for (; (at = l->hash[h]) != 0; h = (h + 1) % LEARN_HASH) {
		if (is_same(&l->nodes[at - 1], &n))
			return at - 1;
	}
	if (l->n_nodes == LEARN_NODES) {
		l->full = true;
		return 0;
	}
	at = l->n_nodes++;
	l->hash[h] = at + 1;
	l->nodes[at] = n;
	l->varies[at] = varies(l, &n);
	l->selfs[at] = n.op == NODE_SELF ? 1u << n.imm
					 : l->selfs[n.a] | l->selfs[n.b] | l->selfs[n.c];
	return at;
}

uint32_t learn_unknown(struct learn *l)
{
	return learn_node(l, (struct node){.op = NODE_UNKNOWN});
}

uint32_t learn_number(struct learn *l, int64_t imm)
{
	return learn_node(l, (struct node){.op = NODE_CONST, .imm = imm});
}

bool learn_is_number(const struct learn *l, uint32_t n)
{
	return l->nodes[n].op == NODE_CONST;
}

bool learn_is_unknown(const struct learn *l, uint32_t n)
{
	return l->nodes[n].op == NODE_UNKNOWN;
}

bool learn_is_uniform(const struct learn *l, uint32_t n)
{
	return !l->varies[n];
}

/* Something may be known of what these make of something unknown. */
static bool bounds(enum node_op op)
{
	return op == NODE_AND || op == NODE_REM || op == NODE_MIN || op == NODE_MAX ||
	       op == NODE_LOWER || op == NODE_HIGHER;
}

uint32_t learn_made_of(struct learn *l, enum node_op op, uint32_t a, uint32_t b)
{
	const struct node *n = l->nodes;
	int64_t sum;

	if ((learn_is_unknown(l, a) || learn_is_unknown(l, b)) && !bounds(op))
		return learn_unknown(l);
	if (op == NODE_ADD && learn_is_number(l, a) && !learn_is_number(l, b))
		return learn_made_of(l, op, b, a);
	if (op == NODE_ADD && learn_is_number(l, b)) {
		if (!n[b].imm)
			return a;
		if (learn_is_number(l, a) &&
		    !__builtin_add_overflow(n[a].imm, n[b].imm, &sum))
			return learn_number(l, sum);
		/* Numbers come last, and are one. */
		if (n[a].op == NODE_ADD && learn_is_number(l, n[a].b) &&
		    !__builtin_add_overflow(n[n[a].b].imm, n[b].imm, &sum))
			return learn_made_of(l, op, n[a].a, learn_number(l, sum));
	}
	if (op == NODE_MUL && learn_is_number(l, b) && n[b].imm == 1)
		return a;
	if (op == NODE_UNION && a == b)
		return a;
	return learn_node(l, (struct node){.op = (uint8_t)op, .a = a, .b = b});
}

uint32_t learn_with_imm(struct learn *l, enum node_op op, uint32_t a, uint32_t b,
			int64_t imm)
{
	return learn_node(l,
			  (struct node){.op = (uint8_t)op, .a = a, .b = b, .imm = imm});
}

uint32_t learn_unsigned(struct learn *l, uint32_t a, unsigned bits)
{
	if (bits >= 64)
		return a;
	return learn_node(
		l, (struct node){.op = NODE_UNSIGNED, .bits = (uint8_t)bits, .a = a});
}
