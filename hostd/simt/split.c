/* SPDX-License-Identifier: Apache-2.0 */
/* Splits, joins and frames: the bookkeeping of diverged lanes. */
#include "simt/cta.h"

struct simt_split *simt_split_new(struct simt_warp *w, uint32_t mask,
				  const struct simt_op *pc, struct simt_frame *frame,
				  struct simt_join *join)
{
	/* masks are disjoint and not empty, so there is always a slot */
	unsigned i = (unsigned)__builtin_ctz(~w->used);
	struct simt_split *s = &w->split[i];

	w->used |= 1u << i;
	s->state = SIMT_SPLIT_READY;
	s->mask = mask;
	s->pc = pc;
	s->frame = frame;
	s->join = join;
	return s;
}

void simt_split_free(struct simt_warp *w, struct simt_split *s)
{
	s->state = SIMT_SPLIT_FREE;
	w->used &= ~(1u << (s - w->split));
}

struct simt_join *simt_join_new(struct simt_warp *w, const struct simt_op *pc,
				struct simt_frame *frame, struct simt_join *parent,
				uint32_t expected)
{
	struct simt_cta *c = w->cta;
	struct simt_join *j = c->free_joins;

	if (j) {
		c->free_joins = j->next;
	} else {
		j = simt_cta_alloc(c, sizeof(*j));
		if (!j)
			return NULL;
	}
	j->pc = pc;
	j->frame = frame;
	j->callee = NULL;
	j->parent = parent;
	j->expected = expected;
	j->arrived = 0;
	j->prev = NULL;
	j->next = w->joins;
	if (j->next)
		j->next->prev = j;
	w->joins = j;
	return j;
}

void simt_join_free(struct simt_warp *w, struct simt_join *j)
{
	if (j->callee)
		simt_frame_free(w, j->callee);
	if (j->prev)
		j->prev->next = j->next;
	else
		w->joins = j->next;
	if (j->next)
		j->next->prev = j->prev;
	j->next = w->cta->free_joins;
	w->cta->free_joins = j;
}

void simt_join_release(struct simt_warp *w, struct simt_join *j)
{
	simt_split_new(w, j->arrived, j->pc, j->frame, j->parent);
	j->expected &= ~j->arrived;
	j->arrived = 0;
	if (!j->expected)
		simt_join_free(w, j);
}

void simt_join_drop(struct simt_warp *w, struct simt_join *j, const struct simt_join *end,
		    uint32_t m)
{
	while (j && j != end) {
		struct simt_join *parent = j->parent;

		j->expected &= ~m;
		if (!j->expected)
			simt_join_free(w, j);
		else if (j->arrived == j->expected)
			simt_join_release(w, j);
		j = parent;
	}
}

struct simt_frame *simt_frame_new(struct simt_warp *w, const struct simt_code *code,
				  struct simt_frame *caller)
{
	struct simt_cta *c = w->cta;
	struct simt_frame *f = c->free_frames[code->index];
	size_t head = ALIGN_UP(sizeof(*f), (size_t)64);

	if (f) {
		c->free_frames[code->index] = f->next;
	} else {
		f = simt_cta_alloc(c, head + code->frame_bytes);
		if (!f)
			return NULL;
		f->regs = (uint8_t *)f + head;
		f->code = code;
	}
	f->caller = caller;
	f->site = NULL;
	f->sp = caller ? caller->top : 0;
	f->top = f->sp + code->stack_bytes;
	return f;
}

void simt_frame_free(struct simt_warp *w, struct simt_frame *f)
{
	f->next = w->cta->free_frames[f->code->index];
	w->cta->free_frames[f->code->index] = f;
}
