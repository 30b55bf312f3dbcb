/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: for lanes of the same warp (the member masks of .sync instructions), and for
 * threads of the block (bar, barrier).
 *
 * A block's barrier counts threads. A warp's exited or never existing lanes count with
 * the first lane of that warp that comes.
 */
#include "simt/bar.h"
#include "simt/cta.h"
#include "simt/handlers/row.h"

/* ---- lanes of a warp ---- */

/* Runs the instruction at which s waits, for all lanes that wait at the same place. */
static bool sync_group(struct simt_warp *w, uint32_t ready, struct simt_split *s)
{
	const struct simt_op *op = s->pc, *next;
	struct simt_frame *f = s->frame;
	uint32_t m = 0, group = 0, mask = w->mask, sp = w->sp;
	uint8_t *regs = w->regs;

	FOR_LANES(ready, i)
	{
		struct simt_split *t = &w->split[i];

		if (t->pc == op && t->frame == f) {
			m |= t->mask;
			group |= 1u << i;
		}
	}
	w->forced = true;
	w->mask = m;
	w->regs = f->regs;
	w->sp = f->sp;
	next = op->fn(w, op, m, f->regs);
	w->forced = false;
	w->mask = mask;
	w->regs = regs;
	w->sp = sp;
	if (!next)
		return false; /* a fault: of mma with bad addresses, say */
	FOR_LANES(group, i)
	{
		w->split[i].state = SIMT_SPLIT_READY;
		w->split[i].pc = next;
	}
	return true;
}

void simt_wsync_check(struct simt_warp *w)
{
	uint32_t came = 0, ready = 0;

	FOR_LANES(w->used, i)
	{
		if (w->split[i].state == SIMT_SPLIT_WSYNC)
			came |= w->split[i].mask;
	}
	FOR_LANES(w->used, i)
	{
		struct simt_split *s = &w->split[i];

		if (s->state == SIMT_SPLIT_WSYNC && !(s->member & w->live & ~came))
			ready |= 1u << i;
	}
	if (!ready)
		return;
	FOR_LANES(ready, i)
	{
		struct simt_split *s = &w->split[i];

		if (s->state == SIMT_SPLIT_WSYNC && !sync_group(w, ready, s))
			return;
	}
	simt_warp_merge(w);
}

bool simt_wsync(struct simt_warp *w, const struct simt_op *op, uint32_t member,
		uint32_t m)
{
	struct simt_split *s = w->cur;

	if (w->forced || !(member & w->live & ~m))
		return true;
	s->state = SIMT_SPLIT_WSYNC;
	s->member = member;
	s->pc = op;
	w->event = SIMT_EV_SPLIT;
	simt_wsync_check(w);
	return false;
}

/* ---- threads of a block ---- */

static uint32_t bar_expected(const struct simt_cta *c, const struct simt_bar *b)
{
	return b->want ? b->want : c->live_warps * SIMT_WARP;
}

static void bar_result(struct simt_warp *w, const struct simt_bar *b,
		       struct simt_split *s)
{
	uint8_t *r = s->frame->regs;

	if (s->dst < 0)
		return;
	if (s->dst_kind == BAR_POPC) {
		FOR_LANES(s->mask, k)
		DST(u32, s->dst)[k] = b->popc;
	} else {
		bool v = s->dst_kind == BAR_AND ? b->and : b->or ;

		pred_store(DST(uint32_t, s->dst), v ? SIMT_FULL : 0, s->mask);
	}
}

/* Lets everybody go if enough have come. */
static void bar_check(struct simt_cta *c, unsigned id)
{
	struct simt_bar *b = &c->bar[id];

	if (!b->count || b->count < bar_expected(c, b))
		return;
	for (unsigned k = 0; k < c->num_warps; k++) {
		struct simt_warp *w = &c->warps[k];
		bool any = false;

		FOR_LANES(w->used, i)
		{
			struct simt_split *s = &w->split[i];

			if (s->state != SIMT_SPLIT_BAR || s->bar != id)
				continue;
			bar_result(w, b, s);
			s->state = SIMT_SPLIT_READY;
			any = true;
		}
		if (any && (w->used & (w->used - 1)))
			simt_warp_merge(w);
		b->mask[k] = 0;
	}
	b->phase++;
	b->count = 0;
	b->want = 0;
	b->popc = 0;
	b->and = true;
	b->or = false;
}

void simt_bar_exit(struct simt_warp *w, uint32_t m, uint32_t live_before)
{
	struct simt_cta *c = w->cta;

	for (unsigned id = 0; id < SIMT_NUM_BARS; id++) {
		struct simt_bar *b = &c->bar[id];

		if (!b->count)
			continue;
		if (b->mask[w->index])
			b->count += (uint32_t)__builtin_popcount(m & live_before);
		bar_check(c, id);
	}
}

static void bar_arrive(struct simt_warp *w, struct simt_bar *b, uint32_t m)
{
	uint32_t *mask = &b->mask[w->index];

	if (!*mask)
		b->count += (uint32_t)__builtin_popcount(~w->live);
	b->count += (uint32_t)__builtin_popcount(m);
	*mask |= m;
}

/* op->x: kind; a: number of the barrier, b: threads or -1, c: predicate, d: result */
static SIMT_HANDLER(op_bar)
{
	struct simt_cta *c = w->cta;
	struct simt_split *s = w->cur;
	unsigned lane = (unsigned)__builtin_ctz(m);
	uint32_t id = SRC(u32, op->a)[lane];
	uint32_t want = op->n ? SRC(u32, op->b)[lane] : 0;
	struct simt_bar *b = &c->bar[id % SIMT_NUM_BARS];

	if (id >= SIMT_NUM_BARS || want % SIMT_WARP || want > SIMT_MAX_BLOCK_THREADS ||
	    (op->n && !want))
		return simt_raise(w, op, SIMT_FAULT_INSTR, lane);
	if (want)
		b->want = want;
	if (op->x >= BAR_POPC) {
		uint32_t p = *SRC(uint32_t, op->c) ^ (op->y ? SIMT_FULL : 0);

		b->popc += (uint32_t)__builtin_popcount(p & m);
		b->and = b->and &&(p & m) == m;
		b->or = b->or || (p & m);
	}
	bar_arrive(w, b, m);
	s->pc = op + 1;
	if (op->x == BAR_ARRIVE) {
		bar_check(c, id);
		return op + 1;
	}
	s->state = SIMT_SPLIT_BAR;
	s->bar = (uint8_t)id;
	s->dst = op->x >= BAR_POPC ? op->d : -1;
	s->dst_kind = op->x;
	bar_check(c, id);
	w->event = SIMT_EV_SPLIT;
	return NULL;
}

const struct simt_handler simt_h_bar[] = {
	{"bar", op_bar},
	{NULL, NULL},
};
