/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for registers. PTX names a new register for almost every value; rows are given to
 * those that live at the same time only, so that a frame stays in the cache.
 *
 * Every lane is a thread of its own with its own column, so the usual liveness of a
 * single thread decides, whatever other lanes do. That holds as long as rows of different
 * width never overlap, hence the classes. Registers that live across blocks of the flow
 * graph are found by the usual backward analysis; the rest, the great majority, are seen
 * in one pass. Each register then takes the span between its first and its last position
 * as one interval, and rows are dealt out in order of beginning.
 *
 * Instruction i reads at position 2 i + 1 and writes at 2 i + 2; a row may be read for
 * the last time and written anew by one instruction if its handler reads a lane before it
 * writes it.
 */
#include <errno.h>
#include <stdlib.h>

#include "simt/lower/lower.h"

#define NUM_CLASSES 5
#define MAX_BITS    (1ull << 28) /* of the analysis; beyond that no row is shared */
#define MAX_FRAME   (1 << 24)

struct reg {
	uint32_t begin, end; /* positions; end 0: never seen */
	uint32_t block;      /* of the last occurrence */
	uint32_t global;     /* index among those that cross blocks, plus 1 */
	bool defined;        /* in that block, on all paths */
	bool crosses;
};

struct rows {
	struct lower *l;
	const struct ptx_func *f;
	uint8_t *leader;
	uint32_t *block; /* of each instruction */
	uint32_t *first; /* instruction of each block, and one more */
	uint32_t num_blocks;
	struct reg *reg;
	uint32_t num_global, words;
	uint64_t *gen, *kill, *in;
	uint32_t *global_reg;
	uint32_t *next;     /* lists of registers by beginning */
	uint32_t *by_begin; /* heads, by position */
	uint32_t *next_end, *by_end;
};

typedef void visit_fn(struct rows *q, uint32_t insn, uint32_t reg, bool def,
		      bool partial);

/* ---- operands ---- */

/* Handlers that read a lane of every source before they write that lane. */
static bool may_overlay(const struct ptx_insn *in)
{
	if (in->op <= PTX_COPYSIGN)
		return true;
	switch (in->op) {
	case PTX_AND:
	case PTX_OR:
	case PTX_XOR:
	case PTX_NOT:
	case PTX_CNOT:
	case PTX_SHL:
	case PTX_SHR:
	case PTX_SHF:
	case PTX_PRMT:
	case PTX_POPC:
	case PTX_CLZ:
	case PTX_BFIND:
	case PTX_BREV:
	case PTX_BFE:
	case PTX_BFI:
	case PTX_SELP:
		return true;
	case PTX_MOV:
		return in->o[0].kind != PTX_O_VEC;
	case PTX_LD:
		return in->o[0].kind != PTX_O_VEC;
	case PTX_SETP:
		return lower_is_int(in->type[0]) || in->type[0] == PTX_T_F32 ||
		       in->type[0] == PTX_T_F64;
	default:
		return false;
	}
}

static void visit_opnd(struct rows *q, uint32_t i, const struct ptx_opnd *o, bool def,
		       bool want_def, bool partial, visit_fn *fn)
{
	switch (o->kind) {
	case PTX_O_REG:
		if (def == want_def)
			fn(q, i, o->idx, def, partial);
		break;
	case PTX_O_MEM:
		if (!want_def)
			fn(q, i, o->idx, false, partial);
		break;
	case PTX_O_VEC:
		for (unsigned k = 0; k < o->n; k++)
			visit_opnd(q, i, &o->elem[k], def, want_def, partial, fn);
		break;
	default:
		break;
	}
}

/* Calls fn for every register that instruction i reads, then for those it writes. */
static void visit(struct rows *q, uint32_t i, visit_fn *fn)
{
	const struct ptx_insn *in = &q->f->insns[i];
	unsigned dst = ptx_written(in);
	bool partial = in->guard >= 0;

	for (unsigned k = 0; k < in->nopnds; k++)
		visit_opnd(q, i, &in->o[k], dst >> k & 1, false, partial, fn);
	if (partial)
		fn(q, i, (uint32_t)in->guard, false, true);
	if (in->op == PTX_RET)
		for (uint32_t k = 0; k < q->f->nrets; k++)
			if (q->f->rets[k].reg >= 0)
				fn(q, i, (uint32_t)q->f->rets[k].reg, false, partial);
	for (unsigned k = 0; k < in->nopnds; k++)
		visit_opnd(q, i, &in->o[k], dst >> k & 1, true, partial, fn);
}

/* ---- blocks ---- */

static bool ends_block(const struct ptx_insn *in)
{
	return in->op == PTX_BRA || in->op == PTX_BRX_IDX || in->op == PTX_RET ||
	       in->op == PTX_EXIT || in->op == PTX_TRAP;
}

static void find_blocks(struct rows *q)
{
	const struct ptx_func *f = q->f;
	uint32_t n = 0;

	q->leader[0] = 1;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		if (in->op == PTX_BRA)
			q->leader[in->o[0].idx] = 1;
		if (ends_block(in))
			q->leader[i + 1] = 1;
	}
	for (uint32_t t = 0; t < f->ntables; t++)
		for (uint32_t k = 0; k < f->tables[t].n; k++)
			q->leader[f->tables[t].target[k]] = 1;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		if (q->leader[i])
			q->first[n++] = i;
		q->block[i] = n - 1;
	}
	q->first[n] = f->ninsns;
	q->num_blocks = n;
}

/* ---- which registers cross blocks ---- */

static void see(struct rows *q, uint32_t i, uint32_t r, bool def, bool partial)
{
	struct reg *g = &q->reg[r];
	uint32_t b = q->block[i] + 1;

	if (g->block && g->block != b)
		g->crosses = true;
	if (g->block != b) {
		g->block = b;
		g->defined = false;
	}
	if (def && !partial)
		g->defined = true;
	else if (!g->defined)
		g->crosses = true; /* what it was before the block counts */
}

static int number_globals(struct rows *q)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->f->ninsns; i++)
		visit(q, i, see);
	for (uint32_t r = 0; r < q->f->nregs; r++)
		if (q->reg[r].crosses)
			q->reg[r].global = ++n;
	q->num_global = n;
	q->words = (n + 63) / 64;
	if ((uint64_t)q->words * 64 * q->num_blocks > MAX_BITS)
		return -E2BIG;
	return 0;
}

static void local_sets(struct rows *q, uint32_t i, uint32_t r, bool def, bool partial)
{
	uint32_t g = q->reg[r].global, b = q->block[i];
	uint64_t bit;
	size_t at;

	if (!g--)
		return;
	at = (size_t)b * q->words + g / 64;
	bit = 1ull << g % 64;
	if (!def && !(q->kill[at] & bit))
		q->gen[at] |= bit;
	if (def && !partial)
		q->kill[at] |= bit;
}

/* live-out of b, word w */
static uint64_t live_out(const struct rows *q, uint32_t b, uint32_t w)
{
	uint32_t last = q->first[b + 1] - 1;
	const struct ptx_insn *in = &q->f->insns[last];
	uint64_t v = 0;
	bool falls = in->guard >= 0 || !ends_block(in);

	if (in->op == PTX_BRA)
		v |= q->in[(size_t)q->block[in->o[0].idx] * q->words + w];
	if (in->op == PTX_BRX_IDX) {
		const struct ptx_table *t = &q->f->tables[in->o[1].idx];

		for (uint32_t k = 0; k < t->n; k++)
			v |= q->in[(size_t)q->block[t->target[k]] * q->words + w];
	}
	if (falls && b + 1 < q->num_blocks)
		v |= q->in[(size_t)(b + 1) * q->words + w];
	return v;
}

static void flow(struct rows *q)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t b = q->num_blocks; b-- > 0;)
			for (uint32_t w = 0; w < q->words; w++) {
				size_t at = (size_t)b * q->words + w;
				uint64_t v =
					q->gen[at] | (live_out(q, b, w) & ~q->kill[at]);

				changed |= v != q->in[at];
				q->in[at] = v;
			}
	}
}

/* ---- intervals ---- */

static void extend(struct reg *g, uint32_t pos)
{
	g->begin = g->end ? MIN(g->begin, pos) : pos;
	g->end = MAX(g->end, pos);
}

static void occur(struct rows *q, uint32_t i, uint32_t r, bool def, bool partial)
{
	const struct ptx_insn *in = &q->f->insns[i];
	bool early = !def && in->guard != (int32_t)r && may_overlay(in);

	(void)partial;
	extend(&q->reg[r], early ? 2 * i + 1 : 2 * i + 2);
}

static void extend_bits(struct rows *q, uint64_t bits, uint32_t w, uint32_t pos)
{
	for (; bits; bits &= bits - 1)
		extend(&q->reg[q->global_reg[w * 64 + (uint32_t)__builtin_ctzll(bits)]],
		       pos);
}

static void intervals(struct rows *q)
{
	const struct ptx_func *f = q->f;

	for (uint32_t i = 0; i < f->ninsns; i++)
		visit(q, i, occur);
	for (uint32_t r = 0; r < f->nregs; r++)
		if (q->reg[r].global)
			q->global_reg[q->reg[r].global - 1] = r;
	for (uint32_t b = 0; b < q->num_blocks; b++)
		for (uint32_t w = 0; w < q->words; w++) {
			extend_bits(q, q->in[(size_t)b * q->words + w], w,
				    2 * q->first[b] + 1);
			extend_bits(q, live_out(q, b, w), w, 2 * q->first[b + 1]);
		}
	/* parameters are there from the beginning */
	for (uint32_t k = 0; k < f->nparams; k++)
		if (f->params[k].reg >= 0)
			extend(&q->reg[f->params[k].reg], 1);
	/* values that nobody wrote before they are read exist all the time before */
	for (uint32_t r = 0; r < f->nregs; r++) {
		uint32_t g = q->reg[r].global;

		if (g-- && q->words && q->in[g / 64] >> g % 64 & 1)
			extend(&q->reg[r], 1);
	}
}

static unsigned class_of(unsigned bits)
{
	return bits == 1 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : 4;
}

static int32_t new_row(struct lower *l, unsigned bits)
{
	int32_t row = l->frame;

	/* predicates are words side by side, rows begin at cache lines */
	if (bits == 1) {
		if (l->pred_left == 0) {
			l->pred_next = l->frame;
			l->pred_left = 16;
			l->frame += 64;
		}
		l->pred_left--;
		row = l->pred_next;
		l->pred_next += 4;
	} else {
		l->frame += (int32_t)bits / 8 * SIMT_WARP;
	}
	return row;
}

static int deal(struct rows *q)
{
	const struct ptx_func *f = q->f;
	struct lower *l = q->l;
	uint32_t end = 2 * f->ninsns + 2, live = 0, most = 0;
	/* free rows of each class: stacks linked through the registers that had them */
	uint32_t free_row[NUM_CLASSES] = {0};

	for (uint32_t r = f->nregs; r-- > 0;) {
		struct reg *g = &q->reg[r];

		if (!g->end) /* never used, yet it must have a row of its class */
			g->begin = g->end = end;
		q->next[r] = q->by_begin[g->begin];
		q->by_begin[g->begin] = r + 1;
		q->next_end[r] = q->by_end[g->end];
		q->by_end[g->end] = r + 1;
	}
	for (uint32_t pos = 0; pos <= end; pos++) {
		for (uint32_t r = q->by_begin[pos]; r--; r = q->next[r]) {
			unsigned bits = lower_reg_bits(l, r), c = class_of(bits);
			uint32_t from = free_row[c];

			if (from--) {
				free_row[c] = q->next_end[from];
				l->row[r] = l->row[from];
			} else {
				l->row[r] = new_row(l, bits);
			}
			live += bits / 32;
			if (l->frame > MAX_FRAME)
				return lower_refuse(l, "too many registers");
		}
		most = MAX(most, live);
		for (uint32_t r = q->by_end[pos], next; r--; r = next) {
			unsigned bits = lower_reg_bits(l, r), c = class_of(bits);

			next = q->next_end[r];
			q->next_end[r] = free_row[c];
			free_row[c] = r + 1;
			live -= bits / 32;
		}
	}
	l->code->live_regs = most;
	return 0;
}

static int alloc_rows(struct rows *q)
{
	const struct ptx_func *f = q->f;
	size_t bits = (size_t)q->words * q->num_blocks + 1,
	       pos = 2 * (size_t)f->ninsns + 4;

	q->gen = calloc(bits, 8);
	q->kill = calloc(bits, 8);
	q->in = calloc(bits, 8);
	q->global_reg = calloc(q->num_global + 1, 4);
	q->next = calloc(f->nregs + 1, 4);
	q->next_end = calloc(f->nregs + 1, 4);
	q->by_begin = calloc(pos, 4);
	q->by_end = calloc(pos, 4);
	return q->gen && q->kill && q->in && q->global_reg && q->next && q->next_end &&
			       q->by_begin && q->by_end
		       ? 0
		       : -ENOMEM;
}

/* A row for each register, whatever its life. */
static int plain(struct lower *l)
{
	for (uint32_t i = 0; i < l->func->nregs; i++) {
		l->row[i] = new_row(l, lower_reg_bits(l, i));
		if (l->frame > MAX_FRAME)
			return lower_refuse(l, "too many registers");
	}
	l->code->live_regs = 255;
	return 0;
}

int lower_rows(struct lower *l)
{
	const struct ptx_func *f = l->func;
	struct rows q = {
		.l = l,
		.f = f,
		.leader = calloc(f->ninsns + 2, 1),
		.block = calloc(f->ninsns + 2, 4),
		.first = calloc(f->ninsns + 2, 4),
		.reg = calloc(f->nregs + 1, sizeof(*q.reg)),
	};
	int r = q.leader && q.block && q.first && q.reg ? 0 : -ENOMEM;

	l->insn = &f->insns[0];
	if (r == 0) {
		find_blocks(&q);
		r = number_globals(&q);
	}
	if (r == -E2BIG) {
		r = plain(l);
	} else if (r == 0) {
		r = alloc_rows(&q);
		if (r == 0) {
			for (uint32_t i = 0; i < f->ninsns; i++)
				visit(&q, i, local_sets);
			flow(&q);
			intervals(&q);
			r = deal(&q);
		}
	}
	free(q.leader);
	free(q.block);
	free(q.first);
	free(q.reg);
	free(q.gen);
	free(q.kill);
	free(q.in);
	free(q.global_reg);
	free(q.next);
	free(q.next_end);
	free(q.by_begin);
	free(q.by_end);
	return r;
}
