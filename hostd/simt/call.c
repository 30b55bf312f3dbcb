/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and returns. A call gives the callee a frame of its own and sets up a join at the
 * return address; parameters are copied between the frames, lane by lane.
 */
#include "simt/cta.h"
#include "simt/handlers/row.h"

static uint8_t *area_of(const struct simt_warp *w, const struct simt_frame *f,
			unsigned lane)
{
	return w->local + (size_t)lane * w->local_stride + f->sp + f->code->area_off;
}

/* Copies lanes m of one value between places of two frames. */
static void move_arg(struct simt_warp *w, uint32_t m, const struct simt_frame *from,
		     const struct simt_arg *src, const struct simt_frame *to,
		     const struct simt_arg *dst)
{
	uint32_t bytes = MIN(src->bytes, dst->bytes);
	uint32_t width = src->row ? MIN(bytes, (uint32_t)src->row) : bytes;
	const uint8_t *row = NULL;

	if (dst->place == -1 && dst->row)
		return;
	if (dst->row)
		width = MIN(width, (uint32_t)dst->row);
	if (src->row)
		row = simt_src(w, from->regs, src->place);
	FOR_LANES(m, k)
	{
		const uint8_t *s = src->row ? row + (size_t)k * src->row
					    : area_of(w, from, k) + src->place;
		uint8_t *d = dst->row ? to->regs + dst->place + (size_t)k * dst->row
				      : area_of(w, to, k) + dst->place;

		memcpy(d, s, width);
	}
}

/* Starts code in a frame of its own for the lanes of the running split. */
static const struct simt_op *enter(struct simt_warp *w, const struct simt_op *op,
				   uint32_t m, const struct simt_code *code,
				   const struct simt_call *call)
{
	struct simt_split *s = w->cur;
	struct simt_frame *f = s->frame, *callee;
	struct simt_join *j;

	if ((uint64_t)f->top + code->stack_bytes > w->local_bytes)
		return simt_raise(w, op, SIMT_FAULT_STACK, (unsigned)__builtin_ctz(m));
	callee = simt_frame_new(w, code, f);
	if (!callee)
		return simt_raise(w, op, SIMT_FAULT_STACK, (unsigned)__builtin_ctz(m));
	j = simt_join_new(w, op + 1, f, s->join, m);
	if (!j) {
		simt_frame_free(w, callee);
		return simt_raise(w, op, SIMT_FAULT_STACK, (unsigned)__builtin_ctz(m));
	}
	j->callee = callee;
	callee->site = op;
	for (unsigned i = 0; i < call->num_args; i++)
		move_arg(w, m, f, &call->args[i], callee, &code->params[i]);
	s->frame = callee;
	s->join = j;
	w->regs = callee->regs;
	w->sp = callee->sp;
	return code->entry;
}

static const struct simt_op *start(struct simt_warp *w, const struct simt_op *op,
				   uint32_t m, const struct simt_code *code)
{
	if (code->builtin)
		return simt_builtin(w, op, m, code, op->call) ? op + 1 : NULL;
	return enter(w, op, m, code, op->call);
}

static SIMT_HANDLER(op_call)
{
	return start(w, op, m, op->call->code);
}

/* The lanes that call one target go, the others come here again; a join follows. */
static SIMT_HANDLER(op_calli)
{
	const u64 *a = SRC(u64, op->call->target);
	unsigned lane = (unsigned)__builtin_ctz(m);
	uint32_t same = LANE_BITS(a[i] == a[lane]) & m;
	const struct simt_code *code = simt_code_at(w->cta->prog, a[lane]);
	struct simt_split *s = w->cur;

	if (!code || code->ptx->is_entry ||
	    (op->call->proto && !ptx_sig_match(op->call->proto, code->ptx)))
		return simt_raise_mem(w, op, SIMT_FAULT_PC, lane, a[lane], 0, false);
	if (same != m) {
		struct simt_join *j = s->join;

		if (!(j && j->pc == op + 1 && j->frame == s->frame)) {
			j = simt_join_new(w, op + 1, s->frame, j, m);
			if (!j)
				return simt_raise(w, op, SIMT_FAULT_MEMORY, lane);
		}
		s->join = j;
		simt_split_new(w, m & ~same, op, s->frame, j);
		s->mask = w->mask = same;
	}
	return start(w, op, same, code);
}

static SIMT_HANDLER(op_ret)
{
	struct simt_split *s = w->cur;
	struct simt_frame *f = s->frame;
	const struct simt_call *call;
	struct simt_join *j;

	if (!f->caller) {
		simt_warp_exit(w, m);
		w->event = SIMT_EV_SPLIT;
		return NULL;
	}
	/* joins inside the function no longer concern these lanes */
	for (j = s->join; j->callee != f; j = j->parent)
		;
	if (s->join != j) {
		simt_join_drop(w, s->join, j, m);
		s->join = j;
	}
	call = f->site->call;
	for (unsigned i = 0; i < call->num_rets; i++)
		move_arg(w, m, f, &f->code->rets[i], f->caller, &call->rets[i]);
	j->arrived |= m;
	if (j->arrived != j->expected) {
		simt_split_free(w, s);
		w->event = SIMT_EV_SPLIT;
		return NULL;
	}
	s->mask = w->mask = j->expected;
	s->join = j->parent;
	s->frame = f->caller;
	w->regs = s->frame->regs;
	w->sp = s->frame->sp;
	s->pc = j->pc;
	simt_join_free(w, j); /* and f with it */
	return s->pc;
}

const struct simt_handler simt_h_call[] = {
	{"call", op_call},
	{"calli", op_calli},
	{"ret", op_ret},
	{NULL, NULL},
};
