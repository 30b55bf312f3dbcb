/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of asynchronous copies and mbarriers. */
#include <errno.h>

#include "simt/handlers/async.h"
#include "simt/lower/lower.h"
#include "simt/mem.h"

static bool there(const struct ptx_insn *in, unsigned k)
{
	return k < in->nopnds && in->o[k].kind != PTX_O_NONE;
}

static int address(struct lower *l, const struct ptx_opnd *o, unsigned space,
		   struct simt_op *op)
{
	struct lower_addr a;
	int r = lower_address(l, o, space, 8, &a);

	if (r < 0)
		return r;
	op->a = a.a;
	op->x = a.x;
	op->y = a.y & MEM_REG32;
	op->disp = a.disp;
	return 0;
}

/* A(shared) A(global) size [srcsize|ignore] [policy] */
static int lower_cp_async(struct lower *l, const struct ptx_insn *in)
{
	struct simt_copy *q = simt_program_alloc(l->prog, sizeof(*q));
	struct simt_op *op;
	int r;

	if (!q)
		return -ENOMEM;
	if (in->o[2].kind != PTX_O_IMM ||
	    (in->o[2].imm != 4 && in->o[2].imm != 8 && in->o[2].imm != 16))
		return lower_refuse(l, "size");
	q->bytes = (uint32_t)in->o[2].imm;
	q->size = q->ignore = -1;
	if (there(in, 3) && in->flags & PTX_F_IGNORE_SRC) {
		q->ignore = in->o[3].kind == PTX_O_REG
				    ? l->row[in->o[3].idx]
				    : lower_konst(l, 32, in->o[3].imm ? ~0u : 0);
		q->ignore_neg = in->o[3].flags & PTX_OF_NEG;
	} else if (there(in, 3)) {
		q->size = lower_src(l, &in->o[3], 32);
	}
	r = address(l, &in->o[0], PTX_S_SHARED, &q->dst);
	if (r == 0)
		r = address(l, &in->o[1], PTX_S_GLOBAL, &q->src);
	if (r < 0)
		return r;
	op = lower_emit(l, "cp.async");
	if (!op)
		return l->error;
	op->ext = (const int32_t *)(const void *)q;
	return 0;
}

/* A(dst) A(src) size [A mbar] [mask|policy] [policy] */
static int lower_bulk(struct lower *l, const struct ptx_insn *in)
{
	struct simt_copy *q = simt_program_alloc(l->prog, sizeof(*q));
	struct simt_op *op;
	int r;

	if (!q)
		return -ENOMEM;
	q->size = lower_src(l, &in->o[2], 32);
	r = address(l, &in->o[0], in->space, &q->dst);
	if (r == 0)
		r = address(l, &in->o[1], in->space2, &q->src);
	if (r == 0 && there(in, 3)) {
		q->has_mbar = true;
		r = address(l, &in->o[3], PTX_S_SHARED_CLUSTER, &q->mbar);
	}
	if (r < 0)
		return r;
	q->multicast = in->flags & PTX_F_MULTICAST;
	if (q->multicast)
		q->mask = lower_src(l, &in->o[4], 16);
	op = lower_emit(l, "cp.bulk");
	if (!op)
		return l->error;
	op->ext = (const int32_t *)(const void *)q;
	return 0;
}

/* addr and count are the indexes of these operands, token that of the result or -1 */
static int emit_mbar(struct lower *l, const struct ptx_insn *in, enum mbar_op kind,
		     unsigned addr, int count, int token)
{
	struct simt_op at = {0}, *op;
	int32_t b = -1, c = -1;
	int r = address(l, &in->o[addr], in->space == PTX_S_NONE ? PTX_S_NONE : in->space,
			&at);

	if (r < 0)
		return r;
	if (count >= 0 && there(in, (unsigned)count))
		b = lower_src(l, &in->o[count], 32);
	if (token >= 0 && in->o[token].kind == PTX_O_REG)
		c = l->row[in->o[token].idx];
	op = lower_emit(l, "mbar");
	if (!op)
		return l->error;
	op->a = at.a;
	op->x = at.x;
	op->y = at.y;
	op->disp = at.disp;
	op->b = b;
	op->c = c;
	op->n = kind;
	return 0;
}

static int lower_arrive(struct lower *l, const struct ptx_insn *in)
{
	bool drop = in->op == PTX_MBAR_ARRIVE_DROP, expect = in->flags & PTX_F_EXPECT_TX;

	return emit_mbar(l, in,
			 expect ? (drop ? MBAR_ARRIVE_DROP_EXPECT : MBAR_ARRIVE_EXPECT)
			 : drop ? MBAR_ARRIVE_DROP
				: MBAR_ARRIVE,
			 1, 2, 0);
}

/* p A state|parity [hint] */
static int lower_wait(struct lower *l, const struct ptx_insn *in)
{
	bool parity = in->flags & PTX_F_PARITY;
	int32_t b = lower_src(l, &in->o[2], parity ? 32 : 64),
		d = lower_pred_dst(l, &in->o[0]);
	struct simt_op at = {0}, *op;
	int r = address(l, &in->o[1], in->space, &at);

	if (r < 0)
		return r;
	if (d < 0)
		d = lower_temp(l, 1);
	op = lower_emit(l, "mbar.wait");
	if (!op)
		return l->error;
	op->a = at.a;
	op->x = at.x;
	op->y = at.y;
	op->disp = at.disp;
	op->b = b;
	op->d = d;
	op->n = parity;
	return 0;
}

static int emit_nop(struct lower *l)
{
	return lower_emit(l, "nop") ? 0 : l->error;
}

int lower_async(struct lower *l, const struct ptx_insn *in)
{
	struct simt_op *op;
	int32_t a, d;

	switch (in->op) {
	case PTX_CP_ASYNC:
		return lower_cp_async(l, in);
	case PTX_CP_ASYNC_MBAR_ARRIVE: /* otherwise one more and one less: nothing */
		if (!(in->flags & PTX_F_NOINC))
			return emit_nop(l);
		return emit_mbar(l, in, MBAR_ARRIVE, 0, -1, -1);
	case PTX_CP_BULK:
		return lower_bulk(l, in);
	case PTX_CP_REDUCE_BULK:
		return lower_refuse(l, "bulk reduction");
	case PTX_MBAR_INIT:
		return emit_mbar(l, in, MBAR_INIT, 0, 1, -1);
	case PTX_MBAR_INVAL:
		return emit_mbar(l, in, MBAR_INVAL, 0, -1, -1);
	case PTX_MBAR_EXPECT_TX:
		return emit_mbar(l, in, MBAR_EXPECT_TX, 0, 1, -1);
	case PTX_MBAR_COMPLETE_TX:
		return emit_mbar(l, in, MBAR_COMPLETE_TX, 0, 1, -1);
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
		return lower_arrive(l, in);
	case PTX_MBAR_TEST_WAIT:
	case PTX_MBAR_TRY_WAIT:
		return lower_wait(l, in);
	case PTX_MBAR_PENDING_COUNT:
		a = lower_src(l, &in->o[1], 64);
		d = lower_dst(l, &in->o[0], 32);
		op = lower_emit(l, "mbar.pending");
		if (!op)
			return l->error;
		op->a = a;
		op->d = d;
		return 0;
	default: /* commits and waits: copies are done already */
		return emit_nop(l);
	}
}
