/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions of a register that reach an instruction that reads it: found on demand, backwards
 * from there. Two reads of the same ones have the same value, unless a loop goes round in between.
 */
#include <string.h>

#include "ptx/extent/learn.h"

#define NONE     LEARN_NONE
#define WORK_MAX (1u << 20) /* blocks that walks come by */
#define DEFS_MAX 256u       /* of a register that is looked at */

static uint32_t n_defs(const struct learn *l)
{
	return l->def_at[l->f->nregs];
}

static struct several *several(const struct learn *l, value_id id)
{
	return (struct several *)l->several.p + (id - n_defs(l));
}

/* Adds the definitions of a register in a block before an instruction, from the last one on; those
 * before one that is always made do not matter. True: there is such a one. */
static bool add_defs(struct learn *l, struct several *s, uint32_t block, uint32_t before)
{
	const struct ptx_block *b = &l->nest.blocks[block];

	for (uint32_t d = l->def_at[s->reg + 1]; d-- > l->def_at[s->reg];) {
		uint32_t insn = l->defs[d].insn;
		bool known = false;

		if (insn >= before || insn > b->last)
			continue;
		if (insn < b->first)
			return false;
		if (s->n > LEARN_SEVERAL)
			return true; /* too many already */
		for (unsigned i = 0; i < s->n && i < LEARN_SEVERAL; i++)
			known |= s->def[i] == d;
		if (!known && s->n < LEARN_SEVERAL)
			s->def[s->n] = d;
		s->n += !known;
		if (l->f->insns[insn].guard < 0)
			return true;
	}
	return false;
}

/* Blocks before those in hand, until each way back has met a definition. */
static void walk_back(struct learn *l, struct several *s, uint32_t block)
{
	const struct ptx_nest *n = &l->nest;
	uint32_t top = 0;

	l->last_seen++;
	l->stack[top++] = block;
	while (top && s->n <= LEARN_SEVERAL) {
		uint32_t b = l->stack[--top];

		l->work++;
		for (uint32_t e = n->before_at[b]; e < n->before_at[b + 1]; e++) {
			uint32_t from = n->before[e];

			if (l->seen[from] == l->last_seen)
				continue;
			l->seen[from] = l->last_seen;
			if (!add_defs(l, s, from, NONE))
				l->stack[top++] = from;
		}
	}
	l->full |= l->work > WORK_MAX;
}

/* The number of what was found. */
static value_id number_of(struct learn *l, struct several *s)
{
	struct several *to;

	if (!s->n || s->n > LEARN_SEVERAL)
		return NONE;
	if (s->n == 1)
		return s->def[0];
	/* In order, so that the same ones are the same. */
	for (unsigned i = 1; i < s->n; i++) {
		for (unsigned k = i; k && s->def[k - 1] > s->def[k]; k--) {
			uint32_t d = s->def[k];

			s->def[k] = s->def[k - 1];
			s->def[k - 1] = d;
		}
	}
	for (size_t i = 0; i < l->several.n; i++) {
		const struct several *o = (struct several *)l->several.p + i;

		if (o->reg == s->reg && o->n == s->n &&
		    !memcmp(o->def, s->def, s->n * sizeof(*s->def)))
			return n_defs(l) + (uint32_t)i;
	}
	to = l->several.n < LEARN_NODES ? ptx_vec_push(&l->several, sizeof(*to)) : NULL;
	if (!to) {
		l->full = true;
		return NONE;
	}
	*to = *s;
	return n_defs(l) + (uint32_t)l->several.n - 1;
}

/* The value where a block begins. */
static value_id at_entry(struct learn *l, uint32_t reg, uint32_t block)
{
	struct several s = {.reg = reg};
	uint32_t h = (reg * 0x9e3779b1u ^ block * 0x85ebca6bu) % LEARN_HASH;
	struct entry *e;

	for (; (e = &l->entries[h])->reg; h = (h + 1) % LEARN_HASH) {
		if (e->reg == reg + 1 && e->block == block)
			return e->id;
	}
	walk_back(l, &s, block);
	if (++l->n_entries > LEARN_HASH / 2)
		l->full = true;
	else
		*e = (struct entry){reg + 1, block, number_of(l, &s)};
	return l->full ? NONE : e->id;
}

value_id reach_of(struct learn *l, uint32_t reg, uint32_t insn)
{
	uint32_t n = l->def_at[reg + 1] - l->def_at[reg];
	struct several s = {.reg = reg};
	uint32_t block = l->nest.of[insn];

	if (n <= 1 || n > DEFS_MAX)
		return n == 1 ? l->def_at[reg] : NONE;
	if (add_defs(l, &s, block, insn))
		return number_of(l, &s);
	if (!s.n)
		return at_entry(l, reg, block);
	walk_back(l, &s, block);
	return number_of(l, &s);
}

unsigned reach_defs(const struct learn *l, value_id id, uint32_t *ret)
{
	const struct several *s;

	if (id < n_defs(l)) {
		*ret = id;
		return 1;
	}
	s = several(l, id);
	memcpy(ret, s->def, s->n * sizeof(*ret));
	return s->n;
}

static uint32_t *known_of(const struct learn *l, value_id id)
{
	return id < n_defs(l) ? &l->known_at[id] : &several(l, id)->known;
}

static uint32_t last_self(const struct learn *l, uint32_t node)
{
	return l->selfs[node] ? 31 - (uint32_t)__builtin_clz(l->selfs[node]) : NONE;
}

uint32_t reach_recall(const struct learn *l, value_id id, uint32_t ctx, uint32_t loop)
{
	const struct known *all = l->known.p;

	for (uint32_t at = *known_of(l, id); at; at = all[at - 1].next) {
		const struct known *k = &all[at - 1];
		uint32_t self = last_self(l, k->node);

		if (k->ctx == ctx && k->loop == loop &&
		    (self == NONE || (self >= l->base && self < l->n_active &&
				      l->epoch[self] == k->epoch)))
			return k->node;
	}
	return NONE;
}

void reach_remember(struct learn *l, value_id id, uint32_t ctx, uint32_t loop,
		    uint32_t node)
{
	struct known *k = ptx_vec_push(&l->known, sizeof(*k));
	uint32_t self = last_self(l, node);

	if (!k) {
		l->full = true;
		return;
	}
	k->ctx = ctx;
	k->loop = loop;
	k->node = node;
	k->epoch = self == NONE ? 0 : l->epoch[self];
	k->next = *known_of(l, id);
	*known_of(l, id) = (uint32_t)l->known.n;
}
