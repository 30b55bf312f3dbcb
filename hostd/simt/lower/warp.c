/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of what threads do together: barriers, shuffles, votes. */
#include "simt/bar.h"
#include "simt/lower/lower.h"

static int32_t member_row(struct lower *l, const struct ptx_insn *in, unsigned k)
{
	if (k < in->nopnds && in->o[k].kind != PTX_O_NONE)
		return lower_src(l, &in->o[k], 32);
	return -1;
}

/* Row of a predicate operand; *ret_neg tells whether it is negated. */
static int32_t pred_row(struct lower *l, const struct ptx_opnd *o, uint8_t *ret_neg)
{
	*ret_neg = o->flags & PTX_OF_NEG ? 1 : 0;
	if (o->kind == PTX_O_REG)
		return l->row[o->idx];
	return lower_konst(l, 32, o->kind == PTX_O_IMM && o->imm ? ~0u : 0);
}

/* [d] a [b] [c] */
static int lower_bar(struct lower *l, const struct ptx_insn *in)
{
	static const uint8_t kinds[] = {
		[PTX_BAR_SYNC] = BAR_SYNC,     [PTX_BAR_ARRIVE] = BAR_ARRIVE,
		[PTX_BAR_RED_POPC] = BAR_POPC, [PTX_BAR_RED_AND] = BAR_AND,
		[PTX_BAR_RED_OR] = BAR_OR,
	};
	uint8_t kind = kinds[in->sub], neg = 0;
	int32_t a = lower_src(l, &in->o[1], 32), b = -1, c = 0, d = -1;
	struct simt_op *op;
	size_t at;
	int r;

	if (in->nopnds > 2 && in->o[2].kind != PTX_O_NONE)
		b = lower_src(l, &in->o[2], 32);
	if (kind >= BAR_POPC) {
		c = pred_row(l, &in->o[3], &neg);
		if (in->o[0].kind == PTX_O_REG)
			d = l->row[in->o[0].idx];
	}
	r = lower_guard_begin(l, true, &at);
	if (r < 0)
		return r;
	op = lower_emit(l, "bar");
	if (!op)
		return l->error;
	op->x = kind;
	op->y = neg;
	op->a = a;
	op->b = b;
	op->n = in->nopnds > 2 && in->o[2].kind != PTX_O_NONE;
	op->c = c;
	op->d = d;
	return lower_guard_end(l, true, at);
}

/* An op with a member mask at op->e (op->n = 1), guarded by a branch. */
static struct simt_op *emit_sync(struct lower *l, const char *name, int32_t member,
				 size_t *ret_at)
{
	struct simt_op *op;

	if (lower_guard_begin(l, true, ret_at) < 0)
		return NULL;
	op = lower_emit(l, "%s", name);
	if (!op)
		return NULL;
	op->e = member;
	op->n = member != -1;
	return op;
}

/* d [p] a b c [mask] */
static int lower_shfl(struct lower *l, const struct ptx_insn *in)
{
	static const char *const names[] = {[PTX_SHFL_UP] = "shfl.up",
					    [PTX_SHFL_DOWN] = "shfl.down",
					    [PTX_SHFL_BFLY] = "shfl.bfly",
					    [PTX_SHFL_IDX] = "shfl.idx"};
	int32_t a = lower_src(l, &in->o[2], 32), b = lower_src(l, &in->o[3], 32);
	int32_t c = lower_src(l, &in->o[4], 32), mask = member_row(l, in, 5);
	int32_t d = lower_dst(l, &in->o[0], 32), p = lower_pred_dst(l, &in->o[1]);
	int32_t *ext = simt_program_alloc(l->prog, 2 * sizeof(*ext));
	struct simt_op *op;
	size_t at;

	if (!ext)
		return -12;
	ext[0] = p;
	op = emit_sync(l, names[in->sub], mask, &at);
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->b = b;
	op->c = c;
	op->ext = ext;
	return lower_guard_end(l, true, at);
}

/* d a [mask] */
static int lower_vote(struct lower *l, const struct ptx_insn *in)
{
	static const char *const names[] = {[PTX_VOTE_ALL] = "vote.all",
					    [PTX_VOTE_ANY] = "vote.any",
					    [PTX_VOTE_UNI] = "vote.uni",
					    [PTX_VOTE_BALLOT] = "vote.ballot"};
	uint8_t neg;
	int32_t a = pred_row(l, &in->o[1], &neg), mask = member_row(l, in, 2), d;
	struct simt_op *op;
	size_t at;

	if (in->sub == PTX_VOTE_BALLOT)
		d = lower_dst(l, &in->o[0], 32);
	else
		d = in->o[0].kind == PTX_O_REG ? l->row[in->o[0].idx] : lower_temp(l, 1);
	op = emit_sync(l, names[in->sub], mask, &at);
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->y = neg;
	return lower_guard_end(l, true, at);
}

/* d [p] a mask */
static int lower_match(struct lower *l, const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]);
	int32_t a = lower_src(l, &in->o[2], bits), mask = member_row(l, in, 3);
	int32_t d = lower_dst(l, &in->o[0], 32), p = lower_pred_dst(l, &in->o[1]);
	struct simt_op *op;
	size_t at;

	op = emit_sync(l, "match", mask, &at);
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->c = p;
	op->x = in->sub;
	op->y = bits == 64;
	return lower_guard_end(l, true, at);
}

/* d a mask */
static int lower_redux(struct lower *l, const struct ptx_insn *in)
{
	int32_t a = lower_src(l, &in->o[1], 32), mask = member_row(l, in, 2);
	int32_t d = lower_dst(l, &in->o[0], 32);
	struct simt_op *op;
	size_t at;

	if (!lower_is_int(in->type[0]))
		return lower_refuse(l, "redux of floats");
	op = emit_sync(l, "redux", mask, &at);
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->x = in->sub;
	op->y = in->type[0] == PTX_T_S32;
	return lower_guard_end(l, true, at);
}

/* d|_ p mask */
static int lower_elect(struct lower *l, const struct ptx_insn *in)
{
	int32_t mask = member_row(l, in, 2), d = lower_dst(l, &in->o[0], 32);
	int32_t p = lower_pred_dst(l, &in->o[1]);
	struct simt_op *op;
	size_t at;

	op = emit_sync(l, "elect", mask, &at);
	if (!op)
		return l->error;
	op->d = d;
	op->c = p;
	return lower_guard_end(l, true, at);
}

static int lower_cluster(struct lower *l, const struct ptx_insn *in)
{
	struct simt_op *op;
	size_t at;
	int r = lower_guard_begin(l, true, &at);

	if (r < 0)
		return r;
	op = lower_emit(l, in->sub ? "cluster.wait" : "cluster.arrive");
	if (!op)
		return l->error;
	return lower_guard_end(l, true, at);
}

int lower_warp(struct lower *l, const struct ptx_insn *in)
{
	struct simt_op *op;
	size_t at;
	int32_t d, mask;

	switch (in->op) {
	case PTX_BAR:
		return lower_bar(l, in);
	case PTX_BAR_WARP:
		mask = member_row(l, in, 0);
		op = emit_sync(l, "bar.warp", mask, &at);
		return op ? lower_guard_end(l, true, at) : l->error;
	case PTX_BARRIER_CLUSTER:
		return lower_cluster(l, in);
	case PTX_SHFL:
		return lower_shfl(l, in);
	case PTX_VOTE:
		return lower_vote(l, in);
	case PTX_MATCH:
		return lower_match(l, in);
	case PTX_REDUX:
		return lower_redux(l, in);
	case PTX_ELECT:
		return lower_elect(l, in);
	default:
		d = lower_dst(l, &in->o[0], 32);
		op = lower_emit(l, "activemask");
		if (!op)
			return l->error;
		op->d = d;
		return 0;
	}
}
