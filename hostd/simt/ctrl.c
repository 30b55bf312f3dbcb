/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, joins, exits and what else steers a warp. */
#include "simt/cta.h"
#include "simt/handlers/row.h"

static const struct simt_op *out_of_memory(struct simt_warp *w, const struct simt_op *op)
{
	return simt_raise(w, op, SIMT_FAULT_MEMORY, (unsigned)__builtin_ctz(w->mask));
}

/*
 * The running split goes on at pc with mask stay; the lanes in go continue at other. All
 * meet again at reconv, or never before they leave the function if that is NULL.
 */
static const struct simt_op *part(struct simt_warp *w, const struct simt_op *op,
				  const struct simt_op *pc, uint32_t stay,
				  const struct simt_op *other, uint32_t go,
				  const struct simt_op *reconv)
{
	struct simt_split *s = w->cur;
	struct simt_join *j = s->join;

	/* lanes that leave a loop one after another share one join */
	if (reconv && !(j && j->pc == reconv && j->frame == s->frame)) {
		j = simt_join_new(w, reconv, s->frame, j, s->mask);
		if (!j)
			return out_of_memory(w, op);
	}
	s->join = j;
	if (pc == reconv && other != reconv) {
		const struct simt_op *t = pc;
		uint32_t m = stay;

		pc = other, stay = go;
		other = t, go = m;
	}
	if (reconv && other == reconv)
		j->arrived |= go;
	else
		simt_split_new(w, go, other, s->frame, j);
	s->mask = stay;
	w->mask = stay;
	return pc;
}

static SIMT_HANDLER(op_jump)
{
	return op->target;
}

/* op->d: distance to the reconvergence point, 0 for none */
static SIMT_HANDLER(op_bra)
{
	if (likely(m == w->mask))
		return op->target;
	return part(w, op, op + 1, w->mask & ~m, op->target, m,
		    op->d ? op + op->d : NULL);
}

/* Lanes with the same index go together; the others come here again. */
static SIMT_HANDLER(op_brx)
{
	const u32 *a = SRC(u32, op->a);
	uint32_t first = a[__builtin_ctz(m)];
	uint32_t same = LANE_BITS(a[i] == first) & m;

	if (first >= op->brx->n)
		return simt_raise(w, op, SIMT_FAULT_PC, (unsigned)__builtin_ctz(m));
	if (same == m)
		return op->brx->target[first];
	return part(w, op, op->brx->target[first], same, op, m & ~same, op->brx->reconv);
}

/*
 * Stands in front of every reconvergence point. Several joins may end here, the inner
 * ones first.
 */
static SIMT_HANDLER(op_join)
{
	struct simt_split *s = w->cur;

	for (;;) {
		struct simt_join *j = s->join;

		if (likely(!j || j->pc != op || j->frame != s->frame))
			return op + 1;
		j->arrived |= s->mask;
		if (j->arrived != j->expected)
			break;
		s->mask = j->expected;
		s->join = j->parent;
		w->mask = s->mask;
		simt_join_free(w, j);
	}
	simt_split_free(w, s);
	w->event = SIMT_EV_SPLIT;
	return NULL;
}

static SIMT_HANDLER(op_exit)
{
	simt_warp_exit(w, m);
	if (w->mask)
		return op + 1;
	w->event = SIMT_EV_SPLIT;
	return NULL;
}

static SIMT_HANDLER(op_trap)
{
	return simt_raise(w, op, SIMT_FAULT_TRAP, (unsigned)__builtin_ctz(m));
}

static SIMT_HANDLER(op_nop)
{
	return op + 1;
}

/* Where the lanes of a warp are told to wait there is nothing better than other work. */
static SIMT_HANDLER(op_nanosleep)
{
	w->cur->pc = op + 1;
	w->event = SIMT_EV_YIELD;
	return NULL;
}

static SIMT_HANDLER(op_activemask)
{
	u32 *d = DST(u32, op->d);

	FOR_LANES(m, k)
	d[k] = m;
	return op + 1;
}

/* Local memory that lives until the function returns; the same place in every lane. */
static SIMT_HANDLER(op_alloca)
{
	struct simt_frame *f = w->cur->frame;
	u64 most = 0, align = op->n;

	FOR_LANES(m, k)
	{
		u64 n = op->y ? SRC(u64, op->a)[k] : SRC(u32, op->a)[k];

		most = n > most ? n : most;
	}
	if (align < 16)
		align = 16;
	if (most > w->local_bytes || ALIGN_UP((u64)f->top, align) + most > w->local_bytes)
		return simt_raise(w, op, SIMT_FAULT_STACK, (unsigned)__builtin_ctz(m));
	f->top = (uint32_t)ALIGN_UP((u64)f->top, align);
	FOR_LANES(m, k)
	{
		if (op->y)
			DST(u64, op->d)[k] = f->top;
		else
			DST(u32, op->d)[k] = f->top;
	}
	f->top += (uint32_t)ALIGN_UP(most, 16);
	return op + 1;
}

static SIMT_HANDLER(op_stacksave)
{
	FOR_LANES(m, k)
	{
		if (op->y)
			DST(u64, op->d)[k] = w->cur->frame->top;
		else
			DST(u32, op->d)[k] = w->cur->frame->top;
	}
	return op + 1;
}

/* Diverged lanes share the frame: memory is given back by the return only. */
static SIMT_HANDLER(op_stackrestore)
{
	struct simt_frame *f = w->cur->frame;
	unsigned k = (unsigned)__builtin_ctz(m);
	u64 top = op->y ? SRC(u64, op->a)[k] : SRC(u32, op->a)[k];

	if (m == w->live && top >= f->sp + f->code->stack_bytes && top <= f->top)
		f->top = (uint32_t)top;
	return op + 1;
}

const struct simt_handler simt_h_ctrl[] = {
	{"jump", op_jump},
	{"bra", op_bra},
	{"brx", op_brx},
	{"join", op_join},
	{"exit", op_exit},
	{"trap", op_trap},
	{"nop", op_nop},
	{"nanosleep", op_nanosleep},
	{"activemask", op_activemask},
	{"alloca", op_alloca},
	{"stacksave", op_stacksave},
	{"stackrestore", op_stackrestore},
	{NULL, NULL},
};
