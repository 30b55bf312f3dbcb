/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/rewrite/flow.h"
#include "ptx/rewrite/live.h"

/* Words that are looked at before it is given up. */
#define WORK_MAX (512ull << 20)

struct live {
	const struct ptx_module *m;
	const struct ptx_func *f;
	size_t words;
	uint32_t
		*row_of; /* of each instruction that begins a basic block; 0: none does */
	uint64_t *rows;  /* what is alive before these */
	uint64_t *now;
	uint64_t work;
};

size_t ptx_live_words(const struct ptx_func *f)
{
	return f->nregs / 64 + 1;
}

static uint64_t *row(const struct live *l, uint32_t i)
{
	return l->rows + (l->row_of[i] - 1) * l->words;
}

static void kill(struct live *l, uint32_t reg)
{
	l->now[reg / 64] &= ~(1ull << (reg % 64));
}

static void use(struct live *l, uint32_t reg)
{
	l->now[reg / 64] |= 1ull << (reg % 64);
}

static void kill_opnd(struct live *l, const struct ptx_opnd *o)
{
	if (o->kind == PTX_O_REG)
		kill(l, o->idx);
	for (unsigned i = 0; o->kind == PTX_O_VEC && i < o->n; i++)
		kill_opnd(l, &o->elem[i]);
}

static void use_opnd(struct live *l, const struct ptx_opnd *o)
{
	if (o->kind == PTX_O_REG || o->kind == PTX_O_MEM)
		use(l, o->idx);
	for (unsigned i = 0; o->kind == PTX_O_VEC && i < o->n; i++)
		use_opnd(l, &o->elem[i]);
}

static void step(struct live *l, const struct ptx_insn *in)
{
	unsigned written = ptx_written(in);
	bool carries = in->op == PTX_ADDC || in->op == PTX_SUBC || in->op == PTX_MADC;

	for (unsigned k = 0; in->guard < 0 && k < in->nopnds; k++) {
		if (written >> k & 1)
			kill_opnd(l, &in->o[k]);
	}
	if (in->flags & PTX_F_CC && in->guard < 0)
		kill(l, l->f->nregs);
	if (carries)
		use(l, l->f->nregs);
	for (unsigned k = 0; k < in->nopnds; k++) {
		if (!(written >> k & 1) || in->o[k].kind == PTX_O_MEM)
			use_opnd(l, &in->o[k]);
	}
	if (in->guard >= 0)
		use(l, (uint32_t)in->guard);
}

static void add_next(void *arg, uint32_t next)
{
	struct live *l = arg;
	const uint64_t *from = row(l, next);

	for (size_t w = 0; w < l->words; w++)
		l->now[w] |= from[w];
	l->work += l->words;
}

/* Whether control goes elsewhere than to i + 1, or to there from elsewhere. */
static bool ends_block(const struct live *l, uint32_t i)
{
	const struct ptx_insn *in = &l->f->insns[i];

	switch (in->op) {
	case PTX_BRA:
	case PTX_BRX_IDX:
	case PTX_RET:
	case PTX_EXIT:
	case PTX_TRAP:
	case PTX_CALL:
		return true;
	default:
		return i + 1 < l->f->ninsns && l->row_of[i + 1];
	}
}

/* Returns whether something has changed. */
static bool pass(struct live *l)
{
	bool changed = false;

	for (uint32_t i = l->f->ninsns; i-- > 0 && l->work < WORK_MAX;) {
		if (ends_block(l, i)) {
			memset(l->now, 0, l->words * sizeof(*l->now));
			ptx_each_next(l->m, l->f, i, add_next, l);
		}
		step(l, &l->f->insns[i]);
		l->work++;
		if (!l->row_of[i] ||
		    !memcmp(row(l, i), l->now, l->words * sizeof(*l->now)))
			continue;
		memcpy(row(l, i), l->now, l->words * sizeof(*l->now));
		changed = true;
	}
	return changed;
}

static void mark_next(void *arg, uint32_t next)
{
	((uint32_t *)arg)[next] = 1;
}

/* Every instruction that control goes to from one that may go elsewhere, too, has a row. */
static int make_rows(struct live *l, const uint32_t *at, uint32_t n)
{
	uint32_t rows = 0;

	for (uint32_t i = 0; i < l->f->ninsns; i++) {
		if (ends_block(l, i))
			ptx_each_next(l->m, l->f, i, mark_next, l->row_of);
	}
	for (uint32_t k = 0; k < n; k++)
		l->row_of[at[k]] = 1;
	for (uint32_t i = 0; i < l->f->ninsns; i++) {
		if (l->row_of[i])
			l->row_of[i] = ++rows;
	}
	if (rows * l->words > WORK_MAX / 8)
		return -E2BIG;
	l->rows = calloc(rows * l->words + 1, sizeof(*l->rows));
	return l->rows ? 0 : -ENOMEM;
}

static int live(struct live *l, const uint32_t *at, uint32_t n, uint64_t **ret)
{
	int r;

	l->row_of = calloc(l->f->ninsns + 1, sizeof(*l->row_of));
	l->now = calloc(l->words, sizeof(*l->now));
	if (!l->row_of || !l->now)
		return -ENOMEM;
	r = make_rows(l, at, n);
	if (r < 0)
		return r;
	while (pass(l)) {
		if (l->work >= WORK_MAX)
			return -E2BIG;
	}
	*ret = calloc(n * l->words + 1, sizeof(**ret));
	for (uint32_t k = 0; *ret && k < n; k++)
		memcpy(*ret + k * l->words, row(l, at[k]), l->words * sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

int ptx_live(const struct ptx_module *m, const struct ptx_func *f, const uint32_t *at,
	     uint32_t n, uint64_t **ret)
{
	struct live l = {.m = m, .f = f, .words = ptx_live_words(f)};
	int r = live(&l, at, n, ret);

	free(l.row_of);
	free(l.rows);
	free(l.now);
	return r;
}
