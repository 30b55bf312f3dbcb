/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange between the lanes of a warp. op->e is the row of member masks (op->n = 0: the
 * old forms without one, for whatever lanes are here).
 */
#include "simt/handlers/row.h"

#include "ptx/ptx_isa.h"

/* Lanes to wait for: all that any lane names. */
static inline uint32_t members(const struct simt_warp *w, const struct simt_op *op,
			       uint32_t m, const uint8_t *r)
{
	const u32 *e;
	u32 all = 0;

	if (!op->n)
		return m;
	e = SRC(u32, op->e);
	LANES all |= LANE_ON(m, i) ? e[i] : 0;
	return all;
}

/* The members of lane k that are here. */
static inline uint32_t group_of(const struct simt_warp *w, const struct simt_op *op,
				uint32_t m, const uint8_t *r, unsigned k)
{
	return op->n ? SRC(u32, op->e)[k] & m : m;
}

#define SYNC                                                                             \
	do {                                                                             \
		if (unlikely(!simt_wsync(w, op, members(w, op, m, r), m)))               \
			return NULL;                                                     \
	} while (0)

/* Where lane i reads from, and whether that is inside its segment. */
#define SHFL(name, index, inside)                                                        \
	static SIMT_HANDLER(shfl_##name)                                                 \
	{                                                                                \
		u32 a[SIMT_WARP], *d = DST(u32, op->d);                                  \
		const u32 *pb = SRC(u32, op->b), *pc = SRC(u32, op->c);                  \
		u32 v[SIMT_WARP], in[SIMT_WARP];                                         \
		uint32_t bits = 0;                                                       \
                                                                                         \
		SYNC;                                                                    \
		memcpy(a, SRC(u32, op->a), sizeof(a));                                   \
		for (s32 i = 0; i < SIMT_WARP; i++) {                                    \
			s32 b = pb[i] & 31, cval = pc[i] & 31, seg = pc[i] >> 8 & 31;    \
			s32 max = (i & seg) | (cval & ~seg), min = i & seg, j;           \
                                                                                         \
			(void)min;                                                       \
			j = (index);                                                     \
			in[i] = (inside);                                                \
			v[i] = a[(in[i] ? j : i) & 31];                                  \
		}                                                                        \
		LANES d[i] = LANE_ON(m, i) ? v[i] : d[i];                                \
		if (op->ext[0] >= 0) {                                                   \
			bits = LANE_BITS(in[i]);                                         \
			pred_store(DST(uint32_t, op->ext[0]), bits, m);                  \
		}                                                                        \
		return op + 1;                                                           \
	}
SHFL(up, i - b, j >= max)
SHFL(down, i + b, j <= max)
SHFL(bfly, i ^ b, j <= max)
SHFL(idx, min | (b & ~seg), j <= max)

/* The value of the predicate in each lane, as bits. */
static inline uint32_t vote_bits(const struct simt_warp *w, const struct simt_op *op,
				 const uint8_t *r)
{
	return *SRC(uint32_t, op->a) ^ (op->y ? SIMT_FULL : 0);
}

#define VOTE(name, result)                                                               \
	static SIMT_HANDLER(vote_##name)                                                 \
	{                                                                                \
		uint32_t p, out = 0;                                                     \
                                                                                         \
		SYNC;                                                                    \
		p = vote_bits(w, op, r);                                                 \
		FOR_LANES(m, k)                                                          \
		{                                                                        \
			uint32_t g = group_of(w, op, m, r, k);                           \
                                                                                         \
			out |= (uint32_t)(result) << k;                                  \
		}                                                                        \
		pred_store(DST(uint32_t, op->d), out, m);                                \
		return op + 1;                                                           \
	}
VOTE(all, (p & g) == g)
VOTE(any, (p & g) != 0)
VOTE(uni, (p & g) == g || (p & g) == 0)

static SIMT_HANDLER(vote_ballot)
{
	u32 *d = DST(u32, op->d);
	uint32_t p;

	SYNC;
	p = vote_bits(w, op, r) & m;
	FOR_LANES(m, k)
	d[k] = p & group_of(w, op, m, r, k);
	return op + 1;
}

/* op->x: all; op->y: 64 bits; op->c: predicate of all, or -1 */
static SIMT_HANDLER(match)
{
	u32 out[SIMT_WARP] = {0}, *d = DST(u32, op->d);
	uint32_t p = 0;

	SYNC;
	FOR_LANES(m, k)
	{
		uint32_t g = group_of(w, op, m, r, k), same = 0;
		u64 v = op->y ? SRC(u64, op->a)[k] : SRC(u32, op->a)[k];

		FOR_LANES(g, j)
		same |= (uint32_t)((op->y ? SRC(u64, op->a)[j] : SRC(u32, op->a)[j]) == v)
			<< j;
		p |= (uint32_t)(same == g) << k;
		out[k] = op->x && same != g ? 0 : same;
	}
	FOR_LANES(m, k)
	d[k] = out[k];
	if (op->c >= 0)
		pred_store(DST(uint32_t, op->c), p, m);
	return op + 1;
}

static u32 redux_one(unsigned sub, bool sgn, u32 x, u32 y)
{
	switch (sub) {
	case PTX_ATOM_ADD:
		return x + y;
	case PTX_ATOM_AND:
		return x & y;
	case PTX_ATOM_OR:
		return x | y;
	case PTX_ATOM_XOR:
		return x ^ y;
	case PTX_ATOM_MIN:
		return sgn ? ((s32)x < (s32)y ? x : y) : x < y ? x : y;
	default:
		return sgn ? ((s32)x > (s32)y ? x : y) : x > y ? x : y;
	}
}

/* op->x: operation, op->y: signed */
static SIMT_HANDLER(redux)
{
	u32 out[SIMT_WARP] = {0}, *d = DST(u32, op->d);
	const u32 *a = SRC(u32, op->a);
	uint32_t left = m;

	SYNC;
	while (left) {
		unsigned first = (unsigned)__builtin_ctz(left);
		uint32_t g = group_of(w, op, m, r, first) | 1u << first, all = g;
		u32 v = a[first];

		g &= ~(1u << first);
		FOR_LANES(g, k)
		v = redux_one(op->x, op->y, v, a[k]);
		FOR_LANES(all, k)
		out[k] = v;
		left &= ~all;
	}
	FOR_LANES(m, k)
	d[k] = out[k];
	return op + 1;
}

/* One lane of the members: the lowest. */
static SIMT_HANDLER(elect)
{
	u32 *d = DST(u32, op->d);
	uint32_t p = 0;

	SYNC;
	FOR_LANES(m, k)
	{
		uint32_t g = group_of(w, op, m, r, k);
		unsigned leader = g ? (unsigned)__builtin_ctz(g) : k;

		d[k] = leader;
		p |= (uint32_t)(leader == k) << k;
	}
	if (op->c >= 0)
		pred_store(DST(uint32_t, op->c), p, m);
	return op + 1;
}

static SIMT_HANDLER(bar_warp)
{
	SYNC;
	return op + 1;
}

const struct simt_handler SIMT_ISA_NAME(simt_h_warp)[] = {
	{"shfl.up", shfl_up},
	{"shfl.down", shfl_down},
	{"shfl.bfly", shfl_bfly},
	{"shfl.idx", shfl_idx},
	{"vote.all", vote_all},
	{"vote.any", vote_any},
	{"vote.uni", vote_uni},
	{"vote.ballot", vote_ballot},
	{"match", match},
	{"redux", redux},
	{"elect", elect},
	{"bar.warp", bar_warp},
	{NULL, NULL},
};
