/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous copies are done when they are issued, so waiting for them is nothing.
 * mbarrier objects are 64 bits of shared memory: bits 0-19 threads expected per phase,
 * 20-39 still pending, 40-61 bytes outstanding (signed), 63 the phase's parity.
 */
#include "simt/handlers/async.h"
#include "simt/cta.h"
#include "simt/mem.h"

#define COUNT_MASK 0xfffffull
#define PENDING_AT 20
#define TX_AT      40
#define TX_BITS    22
#define PHASE      (1ull << 63)

struct mbar {
	u32 expected, pending;
	s32 tx;
	bool phase;
};

static struct mbar unpack(u64 v)
{
	return (struct mbar){
		.expected = v & COUNT_MASK,
		.pending = v >> PENDING_AT & COUNT_MASK,
		.tx = (s32)((u32)(v >> TX_AT) << (32 - TX_BITS)) >> (32 - TX_BITS),
		.phase = v & PHASE,
	};
}

static u64 pack(const struct mbar *b)
{
	return (b->expected & COUNT_MASK) | (b->pending & COUNT_MASK) << PENDING_AT |
	       ((u64)b->tx & ((1ull << TX_BITS) - 1)) << TX_AT | (b->phase ? PHASE : 0);
}

static void complete(struct mbar *b)
{
	if (b->pending == 0 && b->tx == 0) {
		b->phase = !b->phase;
		b->pending = b->expected;
	}
}

static void arrive(struct mbar *b, u32 n)
{
	b->pending -= MIN(n, b->pending);
	complete(b);
}

/* The address of lane k, and the memory there. */
static void *place(struct simt_warp *w, const struct simt_op *o, const uint8_t *r,
		   unsigned k, u32 bytes, u32 align, unsigned perm)
{
	u64 addr = (u64)o->disp;
	void *p = NULL;

	if (o->x == MEM_FRAME)
		addr += w->sp;
	else
		addr += o->y & MEM_REG32 ? SRC(u32, o->a)[k] : SRC(u64, o->a)[k];
	if (o->x != MEM_FRAME && o->y & MEM_REG32)
		addr = (u32)addr;
	if (addr & (align - 1))
		simt_raise_mem(w, o, SIMT_FAULT_MISALIGNED, k, addr, bytes,
			       perm == SIMT_PERM_WRITE);
	else if (!(p = simt_resolve(w, o->x, addr, bytes, perm, k)))
		simt_raise_mem(w, o, SIMT_FAULT_ADDRESS, k, addr, bytes,
			       perm == SIMT_PERM_WRITE);
	return p;
}

/* op->x space; op->n kind; b: count or -1; c: token's row or -1; e: displacement */
static SIMT_HANDLER(mbar_op)
{
	FOR_LANES(m, k)
	{
		u64 *p = place(w, op, r, k, 8, 8, SIMT_PERM_WRITE);
		u32 n = op->b == -1 ? 1 : SRC(u32, op->b)[k];
		struct mbar b;
		u64 old;

		if (!p)
			return NULL;
		old = *p;
		b = unpack(old);
		switch ((enum mbar_op)op->n) {
		case MBAR_INIT:
			b = (struct mbar){.expected = n, .pending = n};
			break;
		case MBAR_INVAL:
			b = (struct mbar){0};
			break;
		case MBAR_EXPECT_TX:
			b.tx += (s32)n;
			break;
		case MBAR_COMPLETE_TX:
			b.tx -= (s32)n;
			complete(&b);
			break;
		case MBAR_ARRIVE_DROP:
			b.expected -= MIN(n, b.expected);
			arrive(&b, n);
			break;
		case MBAR_ARRIVE:
			arrive(&b, n);
			break;
		case MBAR_ARRIVE_DROP_EXPECT:
			b.expected -= MIN(1u, b.expected);
			b.tx += (s32)n;
			arrive(&b, 1);
			break;
		case MBAR_ARRIVE_EXPECT:
			b.tx += (s32)n;
			arrive(&b, 1);
			break;
		}
		*p = pack(&b);
		if (op->c != -1)
			DST(u64, op->c)[k] = old;
	}
	return op + 1;
}

/* p = the phase of token (or parity) b is over. op->n: parity */
static SIMT_HANDLER(mbar_wait)
{
	uint32_t bits = 0;

	FOR_LANES(m, k)
	{
		const u64 *p = place(w, op, r, k, 8, 8, SIMT_PERM_READ);
		bool phase;

		if (!p)
			return NULL;
		phase = op->n ? SRC(u32, op->b)[k] & 1
			      : (SRC(u64, op->b)[k] & PHASE) != 0;
		bits |= (uint32_t)(phase != unpack(*p).phase) << k;
	}
	pred_store(DST(uint32_t, op->d), bits, m);
	return simt_polled(w, op, bits & m);
}

static SIMT_HANDLER(mbar_pending)
{
	FOR_LANES(m, k)
	DST(u32, op->d)[k] = unpack(SRC(u64, op->a)[k]).pending;
	return op + 1;
}

/* ---- copies ---- */

static const struct simt_copy *copy_of(const struct simt_op *op)
{
	return (const struct simt_copy *)(const void *)op->ext;
}

static SIMT_HANDLER(cp_async)
{
	const struct simt_copy *q = copy_of(op);
	uint32_t drop = 0;

	if (q->ignore != -1)
		drop = *SRC(uint32_t, q->ignore) ^ (q->ignore_neg ? SIMT_FULL : 0);
	FOR_LANES(m, k)
	{
		u32 n = q->size == -1 ? q->bytes : SRC(u32, q->size)[k];
		u8 *d = place(w, &q->dst, r, k, q->bytes, q->bytes, SIMT_PERM_WRITE);
		const u8 *s = NULL;

		n = LANE_ON(drop, k) ? 0 : MIN(n, q->bytes);
		if (!d)
			return NULL;
		if (n && !(s = place(w, &q->src, r, k, n, q->bytes, SIMT_PERM_READ)))
			return NULL;
		if (n)
			memcpy(d, s, n);
		memset(d + n, 0, q->bytes - n);
	}
	return op + 1;
}

static bool signal_copy(struct simt_warp *w, const struct simt_copy *q, const uint8_t *r,
			unsigned k, u32 n, s64 shift)
{
	struct simt_op at = q->mbar;
	struct mbar b;
	u64 *p;

	at.disp += shift;
	p = place(w, &at, r, k, 8, 8, SIMT_PERM_WRITE);
	if (!p)
		return false;
	b = unpack(*p);
	b.tx -= (s32)n;
	complete(&b);
	*p = pack(&b);
	return true;
}

/* One bulk copy, shift bytes further: that is how other blocks' shared memory is found.
 */
static bool copy_bulk(struct simt_warp *w, const struct simt_copy *q, const uint8_t *r,
		      unsigned k, u32 n, s64 shift)
{
	struct simt_op to = q->dst;
	const u8 *s;
	u8 *d;

	to.disp += shift;
	d = place(w, &to, r, k, n, 16, SIMT_PERM_WRITE);
	if (!d)
		return false;
	s = place(w, &q->src, r, k, n, 16, SIMT_PERM_READ);
	if (!s)
		return false;
	memmove(d, s, n);
	return !q->has_mbar || signal_copy(w, q, r, k, n, shift);
}

static SIMT_HANDLER(cp_bulk)
{
	const struct simt_copy *q = copy_of(op);

	FOR_LANES(m, k)
	{
		u32 n = SRC(u32, q->size)[k];
		u32 blocks = q->multicast ? SRC(u16, q->mask)[k] : 0;

		if (n % 16) {
			simt_raise(w, op, SIMT_FAULT_MISALIGNED, k);
			return NULL;
		}
		if (!q->multicast && !copy_bulk(w, q, r, k, n, 0))
			return NULL;
		FOR_LANES(blocks, b)
		{
			/* from an address of this block's own window */
			if (!copy_bulk(w, q, r, k, n,
				       (s64)((b + 1) * SIMT_SHARED_STRIDE)))
				return NULL;
		}
	}
	return op + 1;
}

const struct simt_handler simt_h_async[] = {
	{"mbar", mbar_op},      {"mbar.wait", mbar_wait}, {"mbar.pending", mbar_pending},
	{"cp.async", cp_async}, {"cp.bulk", cp_bulk},     {NULL, NULL},
};
