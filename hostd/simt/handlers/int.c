/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic, logic, shifts and bit fields. */
#include "simt/handlers/row.h"

/* By zero, quotient and remainder are all ones, as on the hardware (an H200). Doubles
 * hold both 32-bit operands exactly and the quotient is at least 2^-33 (relative) away
 * from the next integer, so its truncation is exact; unlike div it is vector code. */
static inline u32 div_u32(u32 a, u32 b)
{
	return b ? (u32)(s64)((double)a / (double)b) : ~0u;
}

static inline u32 rem_u32(u32 a, u32 b)
{
	return b ? a - b * div_u32(a, b) : ~0u;
}

static inline s32 div_s32(s32 a, s32 b)
{
	return b ? (s32)(s64)((double)a / (double)b) : -1;
}

static inline s32 rem_s32(s32 a, s32 b)
{
	return b ? (s32)((u32)a - (u32)b * (u32)div_s32(a, b)) : -1;
}

static inline u16 div_u16(u16 a, u16 b)
{
	return b ? a / b : 0xffff;
}

static inline u16 rem_u16(u16 a, u16 b)
{
	return b ? a % b : 0xffff;
}

static inline s16 div_s16(s16 a, s16 b)
{
	return b ? (s16)(a / b) : -1;
}

static inline s16 rem_s16(s16 a, s16 b)
{
	return b ? (s16)(a % b) : -1;
}

static inline u64 div_u64(u64 a, u64 b)
{
	return b ? a / b : ~0ull;
}

static inline u64 rem_u64(u64 a, u64 b)
{
	return b ? a % b : ~0ull;
}

static inline s64 div_s64(s64 a, s64 b)
{
	if (b == -1) /* the smallest number has no negative */
		return (s64) - (u64)a;
	return b ? a / b : -1;
}

static inline s64 rem_s64(s64 a, s64 b)
{
	if (b == -1)
		return 0;
	return b ? a % b : -1;
}

static inline u64 mulhi_u64(u64 a, u64 b)
{
	return (u64)(((unsigned __int128)a * b) >> 64);
}

static inline s64 mulhi_s64(s64 a, s64 b)
{
	return (s64)(((__int128)a * b) >> 64);
}

static inline s32 sat_s32(s64 v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s32)v;
}

static inline u32 ext24_u32(u32 a)
{
	return a & 0xffffff;
}

static inline s32 ext24_s32(s32 a)
{
	return (s32)((u32)a << 8) >> 8;
}

static inline u32 add_x2(u32 a, u32 b)
{
	return ((a + (b & 0xffff0000)) & 0xffff0000) | ((a + b) & 0xffff);
}

static inline u32 pack16(u32 lo, u32 hi)
{
	return (lo & 0xffff) | hi << 16;
}

static inline u32 min_u16x2(u32 a, u32 b)
{
	return pack16((u16)a < (u16)b ? a : b, a >> 16 < b >> 16 ? a >> 16 : b >> 16);
}

static inline u32 max_u16x2(u32 a, u32 b)
{
	return pack16((u16)a > (u16)b ? a : b, a >> 16 > b >> 16 ? a >> 16 : b >> 16);
}

static inline u32 min_s16x2(u32 a, u32 b)
{
	return pack16((s16)a < (s16)b ? a : b,
		      (s32)a >> 16 < (s32)b >> 16 ? a >> 16 : b >> 16);
}

static inline u32 max_s16x2(u32 a, u32 b)
{
	return pack16((s16)a > (s16)b ? a : b,
		      (s32)a >> 16 > (s32)b >> 16 ? a >> 16 : b >> 16);
}

static inline s32 relu_s32(s32 a)
{
	return a > 0 ? a : 0;
}

static inline u32 relu_s16x2(u32 a)
{
	return max_s16x2(a, 0);
}

static inline u32 shf_l(u32 a, u32 b, u32 n)
{
	return (u32)((((u64)b << 32 | a) << n) >> 32);
}

static inline u32 shf_r(u32 a, u32 b, u32 n)
{
	return (u32)(((u64)b << 32 | a) >> n);
}

static inline u32 popc_32(u32 a)
{
	a -= (a >> 1) & 0x55555555;
	a = (a & 0x33333333) + ((a >> 2) & 0x33333333);
	a = (a + (a >> 4)) & 0x0f0f0f0f;
	return (a * 0x01010101) >> 24;
}

static inline u32 brev_32(u32 a)
{
	a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
	a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
	a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(a);
}

/* The 32-bit forms look at eight bits of position and length, the 64-bit ones at all.
 * Bits beyond the top read as zero, or as the sign of the field's last existing bit. */
static inline u32 bfe_u32(u32 a, u32 pos, u32 len)
{
	u64 v = pos > 31 ? 0 : (u64)a >> pos;

	return (u32)(len > 31 ? v : v & ((1ull << len) - 1));
}

static inline u64 bfe_u64(u64 a, u32 pos, u32 len)
{
	u64 v = pos > 63 ? 0 : a >> pos;

	return len > 63 ? v : v & ((1ull << len) - 1);
}

static inline s32 bfe_s32(s32 a, u32 pos, u32 len)
{
	s32 v = a >> (pos > 31 ? 31 : pos);
	u32 drop = len > 31 ? 0 : 32 - len;

	return len == 0 ? 0 : (s32)((u32)v << (drop & 31)) >> (drop & 31);
}

static inline s64 bfe_s64(s64 a, u32 pos, u32 len)
{
	s64 v = a >> (pos > 63 ? 63 : pos);
	u32 drop = len > 63 ? 0 : 64 - len;

	return len == 0 ? 0 : (s64)((u64)v << (drop & 63)) >> (drop & 63);
}

static inline u32 prmt_byte(u64 ab, u32 sel)
{
	u32 byte = (u32)(ab >> (8 * (sel & 7))) & 255;

	return sel & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}

static inline u32 prmt_index(u32 a, u32 b, u32 sel)
{
	u64 ab = (u64)b << 32 | a;

	return prmt_byte(ab, sel) | prmt_byte(ab, sel >> 4) << 8 |
	       prmt_byte(ab, sel >> 8) << 16 | prmt_byte(ab, sel >> 12) << 24;
}

/* The named modes as selectors of the index mode; s is 0 to 3. */
static inline u32 prmt_f4e(u32 s)
{
	return 0x3210 + 0x1111 * s;
}

static inline u32 prmt_b4e(u32 s)
{
	return (s & 7) | ((s - 1) & 7) << 4 | ((s - 2) & 7) << 8 | ((s - 3) & 7) << 12;
}

static inline u32 prmt_rc8(u32 s)
{
	return 0x1111 * s;
}

static inline u32 prmt_ecl(u32 s)
{
	return s | (s > 1 ? s : 1) << 4 | (s > 2 ? s : 2) << 8 | 3 << 12;
}

static inline u32 prmt_ecr(u32 s)
{
	return (s < 1 ? s : 0) | (s < 1 ? s : 1) << 4 | (s < 2 ? s : 2) << 8 | s << 12;
}

static inline u32 prmt_rc16(u32 s)
{
	return s & 1 ? 0x3232 : 0x1010;
}

static inline u32 szext_u32(u32 a, u32 n)
{
	return n > 31 ? a : a & ((1u << (n & 31)) - 1);
}

static inline s32 szext_s32(s32 a, u32 n)
{
	u32 drop = 32 - n;

	return n > 31 ? a : n == 0 ? 0 : (s32)((u32)a << (drop & 31)) >> (drop & 31);
}

static inline u32 bmsk(u32 pos, u32 len)
{
	u64 ones = (1ull << len) - 1;

	return (u32)(ones << pos);
}

/* The place of the offset-th set bit, counted from base; all ones if there is none. */
static u32 fns(u32 mask, u32 base, s32 offset)
{
	u32 rest;

	if (offset == INT32_MIN) /* which has no magnitude; so on an H200 */
		return 0;
	if (base > 31)
		return ~0u;
	if (offset == 0)
		return mask >> base & 1 ? base : ~0u;
	if (offset > 0) {
		rest = mask & (SIMT_FULL << base);
		while (rest && --offset > 0)
			rest &= rest - 1;
		return rest ? (u32)__builtin_ctz(rest) : ~0u;
	}
	rest = mask & (SIMT_FULL >> (31 - base));
	while (rest && ++offset < 0)
		rest ^= 1u << (31 - __builtin_clz(rest));
	return rest ? 31 - (u32)__builtin_clz(rest) : ~0u;
}

static inline u32 dp4a(u32 a, u32 b, int sa, int sb)
{
	u32 sum = 0;

	for (int k = 0; k < 32; k += 8) {
		u32 x = sa ? (u32)(s32)(s8)(a >> k) : a >> k & 255;
		u32 y = sb ? (u32)(s32)(s8)(b >> k) : b >> k & 255;

		sum += x * y;
	}
	return sum;
}

/* Two halves of a with the two low bytes of b. */
static inline u32 dp2a(u32 a, u32 b, int sa, int sb)
{
	u32 sum = 0;

	for (int k = 0; k < 2; k++) {
		u32 x = sa ? (u32)(s32)(s16)(a >> 16 * k) : a >> 16 * k & 0xffff;
		u32 y = sb ? (u32)(s32)(s8)(b >> 8 * k) : b >> 8 * k & 255;

		sum += x * y;
	}
	return sum;
}

#define LIST(R1, R2, R3)                                                                 \
	R2("add.u16", h_add_u16, u16, u16, u16, a + b)                                   \
	R2("sub.u16", h_sub_u16, u16, u16, u16, a - b)                                   \
	R2("mul.lo.u16", h_mul_lo_u16, u16, u16, u16, (u64)a *b)                         \
	R3("mad.lo.u16", h_mad_lo_u16, u16, u16, u16, u16, (u64)a *b + c)                \
	R2("mul.hi.u16", h_mul_hi_u16, u16, u16, u16, ((u32)a * b) >> 16)                \
	R3("mad.hi.u16", h_mad_hi_u16, u16, u16, u16, u16,                               \
	   (u16)(((u32)a * b) >> 16) + (u16)c)                                           \
	R2("mul.wide.u16", h_mul_wide_u16, u32, u16, u16, (u32)a *(u32)b)                \
	R3("mad.wide.u16", h_mad_wide_u16, u32, u16, u16, u32,                           \
	   (u32)((u32)a * (u32)b) + (u32)c)                                              \
	R2("div.u16", h_div_u16, u16, u16, u16, div_u16(a, b))                           \
	R2("rem.u16", h_rem_u16, u16, u16, u16, rem_u16(a, b))                           \
	R2("min.u16", h_min_u16, u16, u16, u16, a < b ? a : b)                           \
	R2("max.u16", h_max_u16, u16, u16, u16, a > b ? a : b)                           \
	R3("sad.u16", h_sad_u16, u16, u16, u16, u16,                                     \
	   (u16)c + (a > b ? (u16)a - (u16)b : (u16)b - (u16)a))                         \
	R2("mul.hi.s16", h_mul_hi_s16, s16, s16, s16, ((s32)a * b) >> 16)                \
	R3("mad.hi.s16", h_mad_hi_s16, s16, s16, s16, s16,                               \
	   (u16)(((s32)a * b) >> 16) + (u16)c)                                           \
	R2("mul.wide.s16", h_mul_wide_s16, s32, s16, s16, (s32)a *(s32)b)                \
	R3("mad.wide.s16", h_mad_wide_s16, s32, s16, s16, s32,                           \
	   (u32)((s32)a * (s32)b) + (u32)c)                                              \
	R2("div.s16", h_div_s16, s16, s16, s16, div_s16(a, b))                           \
	R2("rem.s16", h_rem_s16, s16, s16, s16, rem_s16(a, b))                           \
	R2("min.s16", h_min_s16, s16, s16, s16, a < b ? a : b)                           \
	R2("max.s16", h_max_s16, s16, s16, s16, a > b ? a : b)                           \
	R3("sad.s16", h_sad_s16, s16, s16, s16, s16,                                     \
	   (u16)c + (a > b ? (u16)a - (u16)b : (u16)b - (u16)a))                         \
	R1("abs.s16", h_abs_s16, u16, s16, a < 0 ? -(u16)a : (u16)a)                     \
	R1("neg.s16", h_neg_s16, u16, u16, -a)                                           \
	R2("and.b16", h_and_b16, u16, u16, u16, a &b)                                    \
	R2("or.b16", h_or_b16, u16, u16, u16, a | b)                                     \
	R2("xor.b16", h_xor_b16, u16, u16, u16, a ^ b)                                   \
	R1("not.b16", h_not_b16, u16, u16, ~a)                                           \
	R1("cnot.b16", h_cnot_b16, u16, u16, a == 0)                                     \
	R2("shl.b16", h_shl_b16, u16, u16, u32, b > 15 ? 0 : a << (b & 15))              \
	R2("shr.u16", h_shr_u16, u16, u16, u32, b > 15 ? 0 : a >> (b & 15))              \
	R2("shr.s16", h_shr_s16, s16, s16, u32, a >> (b > 15 ? 15 : b))                  \
	R2("add.u32", h_add_u32, u32, u32, u32, a + b)                                   \
	R2("sub.u32", h_sub_u32, u32, u32, u32, a - b)                                   \
	R2("mul.lo.u32", h_mul_lo_u32, u32, u32, u32, a *b)                              \
	R3("mad.lo.u32", h_mad_lo_u32, u32, u32, u32, u32, a *b + c)                     \
	R2("mul.hi.u32", h_mul_hi_u32, u32, u32, u32, ((u64)a * b) >> 32)                \
	R3("mad.hi.u32", h_mad_hi_u32, u32, u32, u32, u32,                               \
	   (u32)(((u64)a * b) >> 32) + (u32)c)                                           \
	R2("mul.wide.u32", h_mul_wide_u32, u64, u32, u32, (u64)a *(u64)b)                \
	R3("mad.wide.u32", h_mad_wide_u32, u64, u32, u32, u64,                           \
	   (u64)((u64)a * (u64)b) + (u64)c)                                              \
	R2("div.u32", h_div_u32, u32, u32, u32, div_u32(a, b))                           \
	R2("rem.u32", h_rem_u32, u32, u32, u32, rem_u32(a, b))                           \
	R2("min.u32", h_min_u32, u32, u32, u32, a < b ? a : b)                           \
	R2("max.u32", h_max_u32, u32, u32, u32, a > b ? a : b)                           \
	R3("sad.u32", h_sad_u32, u32, u32, u32, u32,                                     \
	   (u32)c + (a > b ? (u32)a - (u32)b : (u32)b - (u32)a))                         \
	R2("mul.hi.s32", h_mul_hi_s32, s32, s32, s32, ((s64)a * b) >> 32)                \
	R3("mad.hi.s32", h_mad_hi_s32, s32, s32, s32, s32,                               \
	   (u32)(((s64)a * b) >> 32) + (u32)c)                                           \
	R2("mul.wide.s32", h_mul_wide_s32, s64, s32, s32, (s64)a *(s64)b)                \
	R3("mad.wide.s32", h_mad_wide_s32, s64, s32, s32, s64,                           \
	   (u64)((s64)a * (s64)b) + (u64)c)                                              \
	R2("div.s32", h_div_s32, s32, s32, s32, div_s32(a, b))                           \
	R2("rem.s32", h_rem_s32, s32, s32, s32, rem_s32(a, b))                           \
	R2("min.s32", h_min_s32, s32, s32, s32, a < b ? a : b)                           \
	R2("max.s32", h_max_s32, s32, s32, s32, a > b ? a : b)                           \
	R3("sad.s32", h_sad_s32, s32, s32, s32, s32,                                     \
	   (u32)c + (a > b ? (u32)a - (u32)b : (u32)b - (u32)a))                         \
	R1("abs.s32", h_abs_s32, u32, s32, a < 0 ? -(u32)a : (u32)a)                     \
	R1("neg.s32", h_neg_s32, u32, u32, -a)                                           \
	R2("and.b32", h_and_b32, u32, u32, u32, a &b)                                    \
	R2("or.b32", h_or_b32, u32, u32, u32, a | b)                                     \
	R2("xor.b32", h_xor_b32, u32, u32, u32, a ^ b)                                   \
	R1("not.b32", h_not_b32, u32, u32, ~a)                                           \
	R1("cnot.b32", h_cnot_b32, u32, u32, a == 0)                                     \
	R2("shl.b32", h_shl_b32, u32, u32, u32, b > 31 ? 0 : a << (b & 31))              \
	R2("shr.u32", h_shr_u32, u32, u32, u32, b > 31 ? 0 : a >> (b & 31))              \
	R2("shr.s32", h_shr_s32, s32, s32, u32, a >> (b > 31 ? 31 : b))                  \
	R2("add.u64", h_add_u64, u64, u64, u64, a + b)                                   \
	R2("sub.u64", h_sub_u64, u64, u64, u64, a - b)                                   \
	R2("mul.lo.u64", h_mul_lo_u64, u64, u64, u64, (u64)a *b)                         \
	R3("mad.lo.u64", h_mad_lo_u64, u64, u64, u64, u64, (u64)a *b + c)                \
	R2("mul.hi.u64", h_mul_hi_u64, u64, u64, u64, mulhi_u64(a, b))                   \
	R3("mad.hi.u64", h_mad_hi_u64, u64, u64, u64, u64,                               \
	   (u64)(mulhi_u64(a, b)) + (u64)c)                                              \
	R2("div.u64", h_div_u64, u64, u64, u64, div_u64(a, b))                           \
	R2("rem.u64", h_rem_u64, u64, u64, u64, rem_u64(a, b))                           \
	R2("min.u64", h_min_u64, u64, u64, u64, a < b ? a : b)                           \
	R2("max.u64", h_max_u64, u64, u64, u64, a > b ? a : b)                           \
	R3("sad.u64", h_sad_u64, u64, u64, u64, u64,                                     \
	   (u64)c + (a > b ? (u64)a - (u64)b : (u64)b - (u64)a))                         \
	R2("mul.hi.s64", h_mul_hi_s64, s64, s64, s64, mulhi_s64(a, b))                   \
	R3("mad.hi.s64", h_mad_hi_s64, s64, s64, s64, s64,                               \
	   (u64)(mulhi_s64(a, b)) + (u64)c)                                              \
	R2("div.s64", h_div_s64, s64, s64, s64, div_s64(a, b))                           \
	R2("rem.s64", h_rem_s64, s64, s64, s64, rem_s64(a, b))                           \
	R2("min.s64", h_min_s64, s64, s64, s64, a < b ? a : b)                           \
	R2("max.s64", h_max_s64, s64, s64, s64, a > b ? a : b)                           \
	R3("sad.s64", h_sad_s64, s64, s64, s64, s64,                                     \
	   (u64)c + (a > b ? (u64)a - (u64)b : (u64)b - (u64)a))                         \
	R1("abs.s64", h_abs_s64, u64, s64, a < 0 ? -(u64)a : (u64)a)                     \
	R1("neg.s64", h_neg_s64, u64, u64, -a)                                           \
	R2("and.b64", h_and_b64, u64, u64, u64, a &b)                                    \
	R2("or.b64", h_or_b64, u64, u64, u64, a | b)                                     \
	R2("xor.b64", h_xor_b64, u64, u64, u64, a ^ b)                                   \
	R1("not.b64", h_not_b64, u64, u64, ~a)                                           \
	R1("cnot.b64", h_cnot_b64, u64, u64, a == 0)                                     \
	R2("shl.b64", h_shl_b64, u64, u64, u32, b > 63 ? 0 : a << (b & 63))              \
	R2("shr.u64", h_shr_u64, u64, u64, u32, b > 63 ? 0 : a >> (b & 63))              \
	R2("shr.s64", h_shr_s64, s64, s64, u32, a >> (b > 63 ? 63 : b))                  \
	R2("add.sat.s32", h_add_sat_s32, s32, s32, s32, sat_s32((s64)a + b))             \
	R2("sub.sat.s32", h_sub_sat_s32, s32, s32, s32, sat_s32((s64)a - b))             \
	R3("mad.hi.sat.s32", h_mad_hi_sat_s32, s32, s32, s32, s32,                       \
	   sat_s32((((s64)a * b) >> 32) + c))                                            \
	R2("mul24.lo.u32", h_mul24_lo_u32, u32, u32, u32,                                \
	   ((u64)ext24_u32(a) * ext24_u32(b)))                                           \
	R2("mul24.hi.u32", h_mul24_hi_u32, u32, u32, u32,                                \
	   ((u64)ext24_u32(a) * ext24_u32(b)) >> 16)                                     \
	R3("mad24.lo.u32", h_mad24_lo_u32, u32, u32, u32, u32,                           \
	   (u64)((u64)ext24_u32(a) * ext24_u32(b)) + (u64)c)                             \
	R3("mad24.hi.u32", h_mad24_hi_u32, u32, u32, u32, u32,                           \
	   (u64)(((u64)ext24_u32(a) * ext24_u32(b)) >> 16) + (u64)c)                     \
	R2("mul24.lo.s32", h_mul24_lo_s32, s32, s32, s32,                                \
	   ((s64)ext24_s32(a) * ext24_s32(b)))                                           \
	R2("mul24.hi.s32", h_mul24_hi_s32, s32, s32, s32,                                \
	   ((s64)ext24_s32(a) * ext24_s32(b)) >> 16)                                     \
	R3("mad24.lo.s32", h_mad24_lo_s32, s32, s32, s32, s32,                           \
	   (u64)((s64)ext24_s32(a) * ext24_s32(b)) + (u64)c)                             \
	R3("mad24.hi.s32", h_mad24_hi_s32, s32, s32, s32, s32,                           \
	   (u64)(((s64)ext24_s32(a) * ext24_s32(b)) >> 16) + (u64)c)                     \
	R3("mad24.hi.sat.s32", h_mad24_hi_sat_s32, s32, s32, s32, s32,                   \
	   sat_s32((s64)(s32)(((s64)ext24_s32(a) * ext24_s32(b)) >> 16) + c))            \
	R2("add.u16x2", h_add_u16x2, u32, u32, u32, add_x2(a, b))                        \
	R2("min.u16x2", h_min_u16x2, u32, u32, u32, min_u16x2(a, b))                     \
	R2("min.s16x2", h_min_s16x2, u32, u32, u32, min_s16x2(a, b))                     \
	R2("min.relu.s32", h_min_relu_s32, s32, s32, s32, relu_s32(a < b ? a : b))       \
	R2("min.relu.s16x2", h_min_relu_s16x2, u32, u32, u32,                            \
	   relu_s16x2(min_s16x2(a, b)))                                                  \
	R2("max.u16x2", h_max_u16x2, u32, u32, u32, max_u16x2(a, b))                     \
	R2("max.s16x2", h_max_s16x2, u32, u32, u32, max_s16x2(a, b))                     \
	R2("max.relu.s32", h_max_relu_s32, s32, s32, s32, relu_s32(a > b ? a : b))       \
	R2("max.relu.s16x2", h_max_relu_s16x2, u32, u32, u32,                            \
	   relu_s16x2(max_s16x2(a, b)))                                                  \
	R3("shf.l.clamp", h_shf_l_clamp, u32, u32, u32, u32,                             \
	   shf_l(a, b, c > 32 ? 32 : c))                                                 \
	R3("shf.l.wrap", h_shf_l_wrap, u32, u32, u32, u32, shf_l(a, b, c & 31))          \
	R3("shf.r.clamp", h_shf_r_clamp, u32, u32, u32, u32,                             \
	   shf_r(a, b, c > 32 ? 32 : c))                                                 \
	R3("shf.r.wrap", h_shf_r_wrap, u32, u32, u32, u32, shf_r(a, b, c & 31))          \
	R1("popc.b32", h_popc_b32, u32, u32, popc_32(a))                                 \
	R1("popc.b64", h_popc_b64, u32, u64, (u32)__builtin_popcountll(a))               \
	R1("clz.b32", h_clz_b32, u32, u32, a ? (u32)__builtin_clz(a) : 32)               \
	R1("clz.b64", h_clz_b64, u32, u64, a ? (u32)__builtin_clzll(a) : 64)             \
	R1("brev.b32", h_brev_b32, u32, u32, brev_32(a))                                 \
	R1("brev.b64", h_brev_b64, u64, u64,                                             \
	   (u64)brev_32((u32)a) << 32 | brev_32((u32)(a >> 32)))                         \
	R1("bfind.u32", h_bfind_u32, u32, u32, a ? 31 - (u32)__builtin_clz(a) : ~0u)     \
	R1("bfind.shiftamt.u32", h_bfind_shiftamt_u32, u32, u32,                         \
	   a ? (u32)__builtin_clz(a) : ~0u)                                              \
	R3("bfe.u32", h_bfe_u32, u32, u32, u32, u32, bfe_u32(a, b & 255, c & 255))       \
	R1("bfind.s32", h_bfind_s32, u32, s32,                                           \
	   (a < 0 ? ~(u32)a : (u32)a)                                                    \
		   ? 31 - (u32)__builtin_clz((a < 0 ? ~(u32)a : (u32)a))                 \
		   : ~0u)                                                                \
	R1("bfind.shiftamt.s32", h_bfind_shiftamt_s32, u32, s32,                         \
	   (a < 0 ? ~(u32)a : (u32)a) ? (u32)__builtin_clz((a < 0 ? ~(u32)a : (u32)a))   \
				      : ~0u)                                             \
	R3("bfe.s32", h_bfe_s32, s32, s32, u32, u32, bfe_s32(a, b & 255, c & 255))       \
	R1("bfind.u64", h_bfind_u64, u32, u64, a ? 63 - (u32)__builtin_clzll(a) : ~0u)   \
	R1("bfind.shiftamt.u64", h_bfind_shiftamt_u64, u32, u64,                         \
	   a ? (u32)__builtin_clzll(a) : ~0u)                                            \
	R3("bfe.u64", h_bfe_u64, u64, u64, u32, u32, bfe_u64(a, b, c))                   \
	R1("bfind.s64", h_bfind_s64, u32, s64,                                           \
	   (a < 0 ? ~(u64)a : (u64)a)                                                    \
		   ? 63 - (u32)__builtin_clzll((a < 0 ? ~(u64)a : (u64)a))               \
		   : ~0u)                                                                \
	R1("bfind.shiftamt.s64", h_bfind_shiftamt_s64, u32, s64,                         \
	   (a < 0 ? ~(u64)a : (u64)a) ? (u32)__builtin_clzll((a < 0 ? ~(u64)a : (u64)a)) \
				      : ~0u)                                             \
	R3("bfe.s64", h_bfe_s64, s64, s64, u32, u32, bfe_s64(a, b, c))                   \
	R3("prmt.b32", h_prmt_b32, u32, u32, u32, u32, prmt_index(a, b, c))              \
	R3("prmt.f4e.b32", h_prmt_f4e_b32, u32, u32, u32, u32,                           \
	   prmt_index(a, b, prmt_f4e(c & 3)))                                            \
	R3("prmt.b4e.b32", h_prmt_b4e_b32, u32, u32, u32, u32,                           \
	   prmt_index(a, b, prmt_b4e(c & 3)))                                            \
	R3("prmt.rc8.b32", h_prmt_rc8_b32, u32, u32, u32, u32,                           \
	   prmt_index(a, b, prmt_rc8(c & 3)))                                            \
	R3("prmt.ecl.b32", h_prmt_ecl_b32, u32, u32, u32, u32,                           \
	   prmt_index(a, b, prmt_ecl(c & 3)))                                            \
	R3("prmt.ecr.b32", h_prmt_ecr_b32, u32, u32, u32, u32,                           \
	   prmt_index(a, b, prmt_ecr(c & 3)))                                            \
	R3("prmt.rc16.b32", h_prmt_rc16_b32, u32, u32, u32, u32,                         \
	   prmt_index(a, b, prmt_rc16(c & 3)))                                           \
	R2("szext.clamp.u32", h_szext_clamp_u32, u32, u32, u32,                          \
	   szext_u32(a, b > 32 ? 32 : b))                                                \
	R2("szext.wrap.u32", h_szext_wrap_u32, u32, u32, u32, szext_u32(a, b & 31))      \
	R2("szext.clamp.s32", h_szext_clamp_s32, s32, s32, u32,                          \
	   szext_s32(a, b > 32 ? 32 : b))                                                \
	R2("szext.wrap.s32", h_szext_wrap_s32, s32, s32, u32, szext_s32(a, b & 31))      \
	R2("bmsk.clamp.b32", h_bmsk_clamp_b32, u32, u32, u32,                            \
	   bmsk(a > 32 ? 32 : a, b > 32 ? 32 : b))                                       \
	R2("bmsk.wrap.b32", h_bmsk_wrap_b32, u32, u32, u32, bmsk(a & 31, b & 31))        \
	R3("fns.b32", h_fns_b32, u32, u32, u32, s32, fns(a, b, c))                       \
	R3("dp4a.u32.u32", h_dp4a_u32_u32, u32, u32, u32, u32, c + dp4a(a, b, 0, 0))     \
	R3("dp2a.lo.u32.u32", h_dp2a_lo_u32_u32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b, 0, 0))                                                         \
	R3("dp2a.hi.u32.u32", h_dp2a_hi_u32_u32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b >> 16, 0, 0))                                                   \
	R3("dp4a.u32.s32", h_dp4a_u32_s32, u32, u32, u32, u32, c + dp4a(a, b, 0, 1))     \
	R3("dp2a.lo.u32.s32", h_dp2a_lo_u32_s32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b, 0, 1))                                                         \
	R3("dp2a.hi.u32.s32", h_dp2a_hi_u32_s32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b >> 16, 0, 1))                                                   \
	R3("dp4a.s32.u32", h_dp4a_s32_u32, u32, u32, u32, u32, c + dp4a(a, b, 1, 0))     \
	R3("dp2a.lo.s32.u32", h_dp2a_lo_s32_u32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b, 1, 0))                                                         \
	R3("dp2a.hi.s32.u32", h_dp2a_hi_s32_u32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b >> 16, 1, 0))                                                   \
	R3("dp4a.s32.s32", h_dp4a_s32_s32, u32, u32, u32, u32, c + dp4a(a, b, 1, 1))     \
	R3("dp2a.lo.s32.s32", h_dp2a_lo_s32_s32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b, 1, 1))                                                         \
	R3("dp2a.hi.s32.s32", h_dp2a_hi_s32_s32, u32, u32, u32, u32,                     \
	   c + dp2a(a, b >> 16, 1, 1))                                                   \
	R1("mov.b16", h_mov_b16, u16, u16, a)                                            \
	R1("mov.b32", h_mov_b32, u32, u32, a)                                            \
	R1("mov.b64", h_mov_b64, u64, u64, a)

SIMT_TABLE(simt_h_int, LIST)
