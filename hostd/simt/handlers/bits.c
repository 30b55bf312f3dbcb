/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integer instructions that do not fit the form d = f(a, b, c): carry chains, four
 * operands, logic on predicates, packing and unpacking of registers.
 */
#include "simt/handlers/row.h"

#define CC_IN  1u /* op->x */
#define CC_OUT 2u

/*
 * Carry chains: op->e is the carry word. As on GPUs, and unlike PTX's manual has it, sub
 * adds the complement and takes and leaves a carry, 1 for no borrow; code that nvcc makes
 * of 128-bit division reads with addc what sub.cc left. none: the carry if none is read.
 */
#define CARRY(name, T, WIDE, none, expr)                                                 \
	static SIMT_HANDLER(name##_##T)                                                  \
	{                                                                                \
		T *d = DST(T, op->d);                                                    \
		const T *pa = SRC(T, op->a), *pb = SRC(T, op->b);                        \
		const T *pc = SRC(T, op->c);                                             \
		uint32_t *cc = DST(uint32_t, op->e);                                     \
		uint32_t in = op->x & CC_IN ? *cc : none, out = 0;                       \
                                                                                         \
		FOR_LANES(m, i)                                                          \
		{                                                                        \
			T a = pa[i], b = pb[i], c = pc[i];                               \
			WIDE v = 0;                                                      \
                                                                                         \
			(void)c;                                                         \
			v = (expr);                                                      \
			d[i] = (T)v;                                                     \
			out |= (uint32_t)((v >> (8 * sizeof(T))) & 1) << i;              \
		}                                                                        \
		if (op->x & CC_OUT)                                                      \
			pred_store(cc, out, m);                                          \
		return op + 1;                                                           \
	}

#define CIN          (in >> i & 1)
#define MUL_LO(WIDE) ((WIDE)a * b & (((WIDE)1 << 8 * sizeof(a)) - 1))
#define MUL_HI(WIDE) ((WIDE)a * b >> 8 * sizeof(a))

typedef unsigned __int128 u128;

static inline u64 mulhi_signed32(u32 a, u32 b)
{
	return (u32)(((s64)(s32)a * (s32)b) >> 32);
}

static inline u128 mulhi_signed64(u64 a, u64 b)
{
	return (u64)(((__int128)(s64)a * (s64)b) >> 64);
}

CARRY(addc, u32, u64, 0, (u64)a + b + CIN)
CARRY(addc, u64, u128, 0, (u128)a + b + CIN)
CARRY(subc, u32, u64, SIMT_FULL, (u64)a + (u32)~b + CIN)
CARRY(subc, u64, u128, SIMT_FULL, (u128)a + (u64)~b + CIN)
CARRY(madc_lo, u32, u64, 0, MUL_LO(u64) + c + CIN)
CARRY(madc_lo, u64, u128, 0, MUL_LO(u128) + c + CIN)
CARRY(madc_hi, u32, u64, 0, MUL_HI(u64) + c + CIN)
CARRY(madc_hi, u64, u128, 0, MUL_HI(u128) + c + CIN)
CARRY(madc_his, u32, u64, 0, mulhi_signed32(a, b) + c + CIN)
CARRY(madc_his, u64, u128, 0, mulhi_signed64(a, b) + c + CIN)

/* d = b with op->e bits of a at position c */
#define BFI(T, BITS)                                                                     \
	static SIMT_HANDLER(bfi_##T)                                                     \
	{                                                                                \
		T *d = DST(T, op->d);                                                    \
		const T *a = SRC(T, op->a), *b = SRC(T, op->b);                          \
		const u32 *pos = SRC(u32, op->c), *len = SRC(u32, op->e);                \
                                                                                         \
		LANES                                                                    \
		{                                                                        \
			u32 p = pos[i] & (BITS == 32 ? 255 : ~0u);                       \
			u32 n = len[i] & (BITS == 32 ? 255 : ~0u);                       \
			T ones = n >= BITS ? ~(T)0 : ((T)1 << (n & (BITS - 1))) - 1;     \
			T mask = p >= BITS ? 0 : ones << (p & (BITS - 1));               \
			T v = (b[i] & ~mask) |                                           \
			      (p >= BITS ? 0 : a[i] << (p & (BITS - 1)) & mask);         \
                                                                                         \
			d[i] = LANE_ON(m, i) ? v : d[i];                                 \
		}                                                                        \
		return op + 1;                                                           \
	}
BFI(u32, 32)
BFI(u64, 64)

/*
 * Any function of three bits; op->y is its table. For each pair of bits of a and b the
 * function of c is one of 0, c, ~c, 1, written (c & and) ^ xor.
 */
static SIMT_HANDLER(lop3)
{
	const u32 *pa = SRC(u32, op->a), *pb = SRC(u32, op->b), *pc = SRC(u32, op->c);
	u32 *d = DST(u32, op->d), and[4], xor[4], lut = op->y;

	for (unsigned k = 0; k < 4; k++) {
		xor[k] = lut >> 2 * k & 1 ? ~0u : 0;
		and[k] = (lut >> 2 * k ^ lut >> (2 * k + 1)) & 1 ? ~0u : 0;
	}
	LANES
	{
		u32 a = pa[i], b = pb[i], c = pc[i];
		u32 f0 = (c & and[0]) ^ xor[0], f1 = (c & and[1]) ^ xor[1];
		u32 f2 = (c & and[2]) ^ xor[2], f3 = (c & and[3]) ^ xor[3];
		u32 lo = f0 ^ ((f0 ^ f1) & b), hi = f2 ^ ((f2 ^ f3) & b);
		u32 v = lo ^ ((lo ^ hi) & a);

		d[i] = LANE_ON(m, i) ? v : d[i];
	}
	return op + 1;
}

/* p = (a != 0) op->x q; q is c, op->y negates */
static SIMT_HANDLER(nonzero)
{
	const u32 *a = SRC(u32, op->a);
	uint32_t bits = LANE_BITS(a[i] != 0), q;

	q = *SRC(uint32_t, op->c) ^ (op->y ? SIMT_FULL : 0);
	if (op->x)
		bits = op->x == 1 ? bits & q : bits | q;
	pred_store(DST(uint32_t, op->d), bits, m);
	return op + 1;
}

/* Predicates are single words; op->y bits 0 and 1 negate a and b. */
#define PRED(name, expr)                                                                 \
	static SIMT_HANDLER(pred_##name)                                                 \
	{                                                                                \
		uint32_t a = *SRC(uint32_t, op->a) ^ (op->y & 1 ? SIMT_FULL : 0);        \
		uint32_t b = *SRC(uint32_t, op->b) ^ (op->y & 2 ? SIMT_FULL : 0);        \
                                                                                         \
		(void)b;                                                                 \
		pred_store(DST(uint32_t, op->d), (expr), m);                             \
		return op + 1;                                                           \
	}
PRED(and, a &b)
PRED(or, a | b)
PRED(xor, a ^ b)
PRED(not, ~a)
PRED(mov, a)

/* Elements a, b, c, e make d, lowest first. */
#define PACK2(name, D, E)                                                                \
	static SIMT_HANDLER(pack_##name)                                                 \
	{                                                                                \
		D *d = DST(D, op->d);                                                    \
		const E *a = SRC(E, op->a), *b = SRC(E, op->b);                          \
                                                                                         \
		LANES                                                                    \
		{                                                                        \
			D v = (D)((D)b[i] << (8 * sizeof(D) / 2) | a[i]);                \
			d[i] = LANE_ON(m, i) ? v : d[i];                                 \
		}                                                                        \
		return op + 1;                                                           \
	}
PACK2(16_32, u32, u16)
PACK2(32_64, u64, u32)
PACK2(64_128, u128, u64)

#define PACK4(name, D, E, SHIFT)                                                         \
	static SIMT_HANDLER(pack_##name)                                                 \
	{                                                                                \
		D *d = DST(D, op->d);                                                    \
		const E *a = SRC(E, op->a), *b = SRC(E, op->b), *c = SRC(E, op->c);      \
		const E *e = SRC(E, op->e);                                              \
		const D ones = ((D)1 << (SHIFT)) - 1;                                    \
                                                                                         \
		LANES                                                                    \
		{                                                                        \
			D v = (e[i] & ones) << (3 * (SHIFT)) |                           \
			      (c[i] & ones) << (2 * (SHIFT)) |                           \
			      (b[i] & ones) << (SHIFT) | (a[i] & ones);                  \
			d[i] = LANE_ON(m, i) ? v : d[i];                                 \
		}                                                                        \
		return op + 1;                                                           \
	}
PACK4(16_64, u64, u16, 16)
PACK4(8_32, u32, u16, 8)
PACK4(32_128, u128, u32, 32)

static SIMT_HANDLER(pack_8_16)
{
	u16 *d = DST(u16, op->d);
	const u16 *a = SRC(u16, op->a), *b = SRC(u16, op->b);

	LANES
	{
		u16 v = (u16)(b[i] << 8 | (a[i] & 255));
		d[i] = LANE_ON(m, i) ? v : d[i];
	}
	return op + 1;
}

/* d = bits op->n and up of a, as many as d has (op->x: only 8 of them) */
#define UNPACK(name, D, S)                                                               \
	static SIMT_HANDLER(unpack_##name)                                               \
	{                                                                                \
		D *d = DST(D, op->d);                                                    \
		const S *a = SRC(S, op->a);                                              \
		u32 n = op->n;                                                           \
		D ones = op->x ? 255 : ~(D)0;                                            \
                                                                                         \
		LANES                                                                    \
		{                                                                        \
			D v = (D)(a[i] >> n) & ones;                                     \
			d[i] = LANE_ON(m, i) ? v : d[i];                                 \
		}                                                                        \
		return op + 1;                                                           \
	}
UNPACK(16_16, u16, u16)
UNPACK(32_16, u16, u32)
UNPACK(64_16, u16, u64)
UNPACK(64_32, u32, u64)
UNPACK(128_32, u32, u128)
UNPACK(128_64, u64, u128)

static SIMT_HANDLER(mov_128)
{
	u128 *d = DST(u128, op->d);
	const u128 *a = SRC(u128, op->a);

	FOR_LANES(m, k)
	d[k] = a[k];
	return op + 1;
}

const struct simt_handler SIMT_ISA_NAME(simt_h_bits)[] = {
	{"addc.u32", addc_u32},
	{"addc.u64", addc_u64},
	{"subc.u32", subc_u32},
	{"subc.u64", subc_u64},
	{"madc.lo.u32", madc_lo_u32},
	{"madc.lo.u64", madc_lo_u64},
	{"madc.hi.u32", madc_hi_u32},
	{"madc.hi.u64", madc_hi_u64},
	{"madc.hi.s32", madc_his_u32},
	{"madc.hi.s64", madc_his_u64},
	{"bfi.b32", bfi_u32},
	{"bfi.b64", bfi_u64},
	{"lop3.b32", lop3},
	{"nonzero.b32", nonzero},
	{"and.pred", pred_and},
	{"or.pred", pred_or},
	{"xor.pred", pred_xor},
	{"not.pred", pred_not},
	{"mov.pred", pred_mov},
	{"pack.16.32", pack_16_32},
	{"pack.32.64", pack_32_64},
	{"pack.64.128", pack_64_128},
	{"pack.16.64", pack_16_64},
	{"pack.32.128", pack_32_128},
	{"pack.8.32", pack_8_32},
	{"pack.8.16", pack_8_16},
	{"unpack.16.16", unpack_16_16},
	{"unpack.32.16", unpack_32_16},
	{"unpack.64.16", unpack_64_16},
	{"unpack.64.32", unpack_64_32},
	{"unpack.128.32", unpack_128_32},
	{"unpack.128.64", unpack_128_64},
	{"mov.b128", mov_128},
	{NULL, NULL},
};
