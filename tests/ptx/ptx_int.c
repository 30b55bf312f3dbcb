/* SPDX-License-Identifier: Apache-2.0 */
/* Integer instructions against 128-bit arithmetic. */
#include <criterion/criterion.h>

#include "base/macros.h"
#include "check.h"

typedef __int128 s128;
typedef unsigned __int128 u128;

#define U16 (u16)
#define S16 (s16)
#define U32 (u32)
#define S32 (s32)
#define S64 (s64)

static s64 sat32(s128 v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s64)v;
}

static s64 sx24(u64 v)
{
	return (s32)((u32)v << 8) >> 8;
}

static u64 div_u(u64 a, u64 b, unsigned bits)
{
	(void)bits;
	return b ? a / b : ~0ull;
}

static s64 div_s(s64 a, s64 b)
{
	return b ? (s64)((s128)a / b) : -1;
}

static s64 rem_s(s64 a, s64 b)
{
	return b ? (s64)((s128)a % b) : -1; /* as an H200 */
}

static u64 shl(u64 a, u32 n, unsigned bits)
{
	return n >= bits ? 0 : a << n;
}

static u64 shr_u(u64 a, u32 n, unsigned bits)
{
	return n >= bits ? 0 : a >> n;
}

static s64 shr_s(s64 a, u32 n, unsigned bits)
{
	return n >= bits ? a >> (bits - 1) : a >> n;
}

static unsigned popc(u64 v)
{
	unsigned n = 0;

	for (; v; v >>= 1)
		n += v & 1;
	return n;
}

static unsigned clz(u64 v, unsigned bits)
{
	unsigned n = 0;

	while (n < bits && !(v >> (bits - 1 - n) & 1))
		n++;
	return n;
}

static u64 brev(u64 v, unsigned bits)
{
	u64 r = 0;

	for (unsigned i = 0; i < bits; i++)
		r |= (v >> i & 1) << (bits - 1 - i);
	return r;
}

/* The algorithms of the PTX manual, bit by bit. */
static u64 bfe(u64 a, u32 b, u32 c, unsigned bits, bool sgn)
{
	u64 pos = bits == 32 ? b & 255 : b, len = bits == 32 ? c & 255 : c,
	    msb = bits - 1;
	u64 sbit = !sgn || len == 0 ? 0 : a >> MIN(pos + len - 1, msb) & 1, d = 0;

	for (unsigned i = 0; i <= msb; i++)
		d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sbit) << i;
	return d;
}

static u64 bfi(u64 a, u64 b, u32 c, u32 d, unsigned bits)
{
	u64 pos = bits == 32 ? c & 255 : c, len = bits == 32 ? d & 255 : d;

	for (unsigned i = 0; i < len && pos + i < bits; i++)
		b = (b & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
	return b;
}

static u32 bfind(u64 a, unsigned bits, bool sgn, bool shift)
{
	u32 d = ~0u;

	if (sgn && a >> (bits - 1) & 1)
		a = ~a;
	for (unsigned i = 0; i < bits; i++)
		if (a >> i & 1)
			d = i;
	return shift && d != ~0u ? bits - 1 - d : d;
}

static u32 lop3(u32 a, u32 b, u32 c, unsigned lut)
{
	u32 d = 0;

	for (unsigned i = 0; i < 32; i++)
		d |= (lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1u)
		     << i;
	return d;
}

static u32 prmt(u64 ab, u32 sel)
{
	u32 d = 0;

	for (unsigned i = 0; i < 4; i++) {
		u32 s = sel >> 4 * i & 15, v = ab >> 8 * (s & 7) & 255;

		d |= (s & 8 ? (v & 128 ? 255 : 0) : v) << 8 * i;
	}
	return d;
}

static u32 prmt_mode(u64 ab, u32 c, const u16 *sel)
{
	return prmt(ab, sel[c & 3]);
}

static const u16 f4e[] = {0x3210, 0x4321, 0x5432, 0x6543};
static const u16 b4e[] = {0x5670, 0x6701, 0x7012, 0x0123};
static const u16 rc8[] = {0x0000, 0x1111, 0x2222, 0x3333};
static const u16 ecl[] = {0x3210, 0x3211, 0x3222, 0x3333};
static const u16 ecr[] = {0x0000, 0x1110, 0x2210, 0x3210};
static const u16 rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};

static u64 dp4a(u32 a, u32 b, u32 c, bool sa, bool sb)
{
	s64 d = c;

	for (int i = 0; i < 32; i += 8)
		d += (sa ? (s8)(a >> i) : (s64)(u8)(a >> i)) *
		     (sb ? (s8)(b >> i) : (s64)(u8)(b >> i));
	return d;
}

static u64 dp2a(u32 a, u32 b, u32 c, bool sa, bool sb)
{
	s64 d = c;

	for (int i = 0; i < 2; i++)
		d += (sa ? (s16)(a >> 16 * i) : (s64)(u16)(a >> 16 * i)) *
		     (sb ? (s8)(b >> 8 * i) : (s64)(u8)(b >> 8 * i));
	return d;
}

static u64 fns(u32 mask, u32 base, s32 offset)
{
	s64 count = (offset < 0 ? -(s64)offset : offset) - 1;
	s32 pos = (s32)base, inc = offset > 0 ? 1 : -1;

	if (offset == INT32_MIN)
		return 0;
	if (base > 31)
		return ~0u;
	if (offset == 0)
		return mask >> base & 1 ? base : ~0u;
	while (pos >= 0 && pos < 32) {
		if (mask >> pos & 1) {
			if (count == 0)
				return pos;
			count--;
		}
		pos += inc;
	}
	return ~0u;
}

#define BY_WIDTH(X)                                                                      \
	X(add_u16, "add.u16 %d, %a, %b;", "www-", a + b)                                 \
	X(add_s32, "add.s32 %d, %a, %b;", "iii-", a + b)                                 \
	X(add_u64, "add.u64 %d, %a, %b;", "lll-", a + b)                                 \
	X(add_imm, "add.s32 %d, %a, -7;", "ii--", a - 7)                                 \
	X(sub_s16, "sub.s16 %d, %a, %b;", "www-", a - b)                                 \
	X(sub_u32, "sub.u32 %d, %a, %b;", "iii-", a - b)                                 \
	X(sub_s64, "sub.s64 %d, %a, %b;", "lll-", a - b)                                 \
	X(add_sat, "add.sat.s32 %d, %a, %b;", "iii-", sat32((s128)S32 a + S32 b))        \
	X(sub_sat, "sub.sat.s32 %d, %a, %b;", "iii-", sat32((s128)S32 a - S32 b))        \
	X(add_x2, "add.u16x2 %d, %a, %b;", "iii-",                                       \
	  ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16)                            \
	X(mullo16, "mul.lo.s16 %d, %a, %b;", "www-", a *b)                               \
	X(mullo32, "mul.lo.s32 %d, %a, %b;", "iii-", a *b)                               \
	X(mullo64, "mul.lo.s64 %d, %a, %b;", "lll-", a *b)                               \
	X(mulhi_u16, "mul.hi.u16 %d, %a, %b;", "www-", a *b >> 16)                       \
	X(mulhi_s16, "mul.hi.s16 %d, %a, %b;", "www-", (S16 a * S16 b) >> 16)            \
	X(mulhi_u32, "mul.hi.u32 %d, %a, %b;", "iii-", a *b >> 32)                       \
	X(mulhi_s32, "mul.hi.s32 %d, %a, %b;", "iii-", ((s64)S32 a * S32 b) >> 32)       \
	X(mulhi_u64, "mul.hi.u64 %d, %a, %b;", "lll-", (u128)a *b >> 64)                 \
	X(mulhi_s64, "mul.hi.s64 %d, %a, %b;", "lll-", ((s128)S64 a * S64 b) >> 64)      \
	X(mulw_u16, "mul.wide.u16 %d, %a, %b;", "iww-", a *b)                            \
	X(mulw_s16, "mul.wide.s16 %d, %a, %b;", "iww-", S16 a *S16 b)                    \
	X(mulw_u32, "mul.wide.u32 %d, %a, %b;", "lii-", a *b)                            \
	X(mulw_s32, "mul.wide.s32 %d, %a, %b;", "lii-", (s64)S32 a *S32 b)               \
	X(madlo16, "mad.lo.u16 %d, %a, %b, %c;", "wwww", a *b + c)                       \
	X(madlo32, "mad.lo.s32 %d, %a, %b, %c;", "iiii", a *b + c)                       \
	X(madlo64, "mad.lo.u64 %d, %a, %b, %c;", "llll", a *b + c)                       \
	X(madhi_u32, "mad.hi.u32 %d, %a, %b, %c;", "iiii", (a * b >> 32) + c)            \
	X(madhi_s32, "mad.hi.s32 %d, %a, %b, %c;", "iiii",                               \
	  (((s64)S32 a * S32 b) >> 32) + c)                                              \
	X(madhi_sat, "mad.hi.sat.s32 %d, %a, %b, %c;", "iiii",                           \
	  sat32((((s64)S32 a * S32 b) >> 32) + (s128)S32 c))                             \
	X(madhi_s64, "mad.hi.s64 %d, %a, %b, %c;", "llll",                               \
	  (u64)(((s128)S64 a * S64 b) >> 64) + c)                                        \
	X(madw_u16, "mad.wide.u16 %d, %a, %b, %c;", "iwwi", a *b + c)                    \
	X(madw_s32, "mad.wide.s32 %d, %a, %b, %c;", "liil",                              \
	  (u64)((s64)S32 a * S32 b) + c)                                                 \
	X(madw_u32, "mad.wide.u32 %d, %a, %b, %c;", "liil", a *b + c)                    \
	X(mul24lo, "mul24.lo.u32 %d, %a, %b;", "iii-", (a & 0xffffff) * (b & 0xffffff))  \
	X(mul24hi, "mul24.hi.s32 %d, %a, %b;", "iii-", (sx24(a) * sx24(b)) >> 16)        \
	X(mad24lo, "mad24.lo.s32 %d, %a, %b, %c;", "iiii", sx24(a) * sx24(b) + c)        \
	X(mad24hi, "mad24.hi.u32 %d, %a, %b, %c;", "iiii",                               \
	  ((a & 0xffffff) * (b & 0xffffff) >> 16) + c)                                   \
	X(mad24sat, "mad24.hi.sat.s32 %d, %a, %b, %c;", "iiii",                          \
	  sat32((s32)((sx24(a) * sx24(b)) >> 16) + (s128)S32 c))                         \
	X(div_u16, "div.u16 %d, %a, %b;", "www-", div_u(a, b, 16))                       \
	X(div_s16, "div.s16 %d, %a, %b;", "www-", div_s(S16 a, S16 b))                   \
	X(div_u32, "div.u32 %d, %a, %b;", "iii-", div_u(a, b, 32))                       \
	X(div_s32, "div.s32 %d, %a, %b;", "iii-", div_s(S32 a, S32 b))                   \
	X(div_u64, "div.u64 %d, %a, %b;", "lll-", div_u(a, b, 64))                       \
	X(div_s64, "div.s64 %d, %a, %b;", "lll-", div_s(S64 a, S64 b))                   \
	X(rem_u16, "rem.u16 %d, %a, %b;", "www-", b ? a % b : ~0ull)                     \
	X(rem_s16, "rem.s16 %d, %a, %b;", "www-", rem_s(S16 a, S16 b))                   \
	X(rem_u32, "rem.u32 %d, %a, %b;", "iii-", b ? a % b : ~0ull)                     \
	X(rem_s32, "rem.s32 %d, %a, %b;", "iii-", rem_s(S32 a, S32 b))                   \
	X(rem_u64, "rem.u64 %d, %a, %b;", "lll-", b ? a % b : ~0ull)                     \
	X(rem_s64, "rem.s64 %d, %a, %b;", "lll-", rem_s(S64 a, S64 b))                   \
	X(abs_s16, "abs.s16 %d, %a;", "ww--", S16 a < 0 ? -a : a)                        \
	X(abs_s32, "abs.s32 %d, %a;", "ii--", S32 a < 0 ? -a : a)                        \
	X(abs_s64, "abs.s64 %d, %a;", "ll--", S64 a < 0 ? -a : a)                        \
	X(neg_s16, "neg.s16 %d, %a;", "ww--", -a)                                        \
	X(neg_s32, "neg.s32 %d, %a;", "ii--", -a)                                        \
	X(neg_s64, "neg.s64 %d, %a;", "ll--", -a)                                        \
	X(min_u16, "min.u16 %d, %a, %b;", "www-", MIN(a, b))                             \
	X(min_s16, "min.s16 %d, %a, %b;", "www-", MIN(S16 a, S16 b))                     \
	X(max_u32, "max.u32 %d, %a, %b;", "iii-", MAX(a, b))                             \
	X(max_s32, "max.s32 %d, %a, %b;", "iii-", MAX(S32 a, S32 b))                     \
	X(min_u32, "min.u32 %d, %a, %b;", "iii-", MIN(a, b))                             \
	X(min_s32, "min.s32 %d, %a, %b;", "iii-", MIN(S32 a, S32 b))                     \
	X(max_relu, "max.relu.s32 %d, %a, %b;", "iii-", MAX(MAX(S32 a, S32 b), 0))       \
	X(min_u64, "min.u64 %d, %a, %b;", "lll-", MIN(a, b))                             \
	X(max_s64, "max.s64 %d, %a, %b;", "lll-", MAX(S64 a, S64 b))                     \
	X(min_x2, "min.s16x2 %d, %a, %b;", "iii-",                                       \
	  (u16)MIN(S16 a, S16 b) | (u64)(u16)MIN(S16(a >> 16), S16(b >> 16)) << 16)      \
	X(max_x2, "max.u16x2 %d, %a, %b;", "iii-",                                       \
	  MAX(U16 a, U16 b) | (u64)MAX(a >> 16, b >> 16) << 16)                          \
	X(sad_u16, "sad.u16 %d, %a, %b, %c;", "wwww", c + (a > b ? a - b : b - a))       \
	X(sad_s32, "sad.s32 %d, %a, %b, %c;", "iiii",                                    \
	  c + (S32 a > S32 b ? a - b : b - a))                                           \
	X(sad_u64, "sad.u64 %d, %a, %b, %c;", "llll", c + (a > b ? a - b : b - a))

#define BITS(X)                                                                          \
	X(and16, "and.b16 %d, %a, %b;", "www-", a &b)                                    \
	X(or32, "or.b32 %d, %a, %b;", "iii-", a | b)                                     \
	X(xor64, "xor.b64 %d, %a, %b;", "lll-", a ^ b)                                   \
	X(not16, "not.b16 %d, %a;", "ww--", ~a)                                          \
	X(not64, "not.b64 %d, %a;", "ll--", ~a)                                          \
	X(cnot32, "cnot.b32 %d, %a;", "ii--", a == 0)                                    \
	X(cnot64, "cnot.b64 %d, %a;", "ll--", a == 0)                                    \
	X(shl16, "shl.b16 %d, %a, %b;", "wws-", shl(a, b, 16))                           \
	X(shl32, "shl.b32 %d, %a, %b;", "iis-", shl(a, b, 32))                           \
	X(shl64, "shl.b64 %d, %a, %b;", "lls-", shl(a, b, 64))                           \
	X(shr_u16, "shr.u16 %d, %a, %b;", "wws-", shr_u(a, b, 16))                       \
	X(shr_s16, "shr.s16 %d, %a, %b;", "wws-", shr_s(S16 a, b, 16))                   \
	X(shr_u32, "shr.u32 %d, %a, %b;", "iis-", shr_u(a, b, 32))                       \
	X(shr_s32, "shr.s32 %d, %a, %b;", "iis-", shr_s(S32 a, b, 32))                   \
	X(shr_b32, "shr.b32 %d, %a, %b;", "iis-", shr_u(a, b, 32))                       \
	X(shr_u64, "shr.u64 %d, %a, %b;", "lls-", shr_u(a, b, 64))                       \
	X(shr_s64, "shr.s64 %d, %a, %b;", "lls-", shr_s(a, b, 64))                       \
	X(shf_lc, "shf.l.clamp.b32 %d, %a, %b, %c;", "iiis",                             \
	  (b << 32 | a) << MIN(c, 32u) >> 32)                                            \
	X(shf_lw, "shf.l.wrap.b32 %d, %a, %b, %c;", "iiis",                              \
	  (b << 32 | a) << (c & 31) >> 32)                                               \
	X(shf_rc, "shf.r.clamp.b32 %d, %a, %b, %c;", "iiis",                             \
	  (b << 32 | a) >> MIN(c, 32u))                                                  \
	X(shf_rw, "shf.r.wrap.b32 %d, %a, %b, %c;", "iiis", (b << 32 | a) >> (c & 31))   \
	X(popc32, "popc.b32 %d, %a;", "ii--", popc(a))                                   \
	X(popc64, "popc.b64 %d, %a;", "il--", popc(a))                                   \
	X(clz32, "clz.b32 %d, %a;", "ii--", clz(a, 32))                                  \
	X(clz64, "clz.b64 %d, %a;", "il--", clz(a, 64))                                  \
	X(brev32, "brev.b32 %d, %a;", "ii--", brev(a, 32))                               \
	X(brev64, "brev.b64 %d, %a;", "ll--", brev(a, 64))                               \
	X(bfind_u32, "bfind.u32 %d, %a;", "ii--", bfind(a, 32, false, false))            \
	X(bfind_s32, "bfind.s32 %d, %a;", "ii--", bfind(a, 32, true, false))             \
	X(bfind_u64, "bfind.u64 %d, %a;", "il--", bfind(a, 64, false, false))            \
	X(bfind_s64, "bfind.shiftamt.s64 %d, %a;", "il--", bfind(a, 64, true, true))     \
	X(bfind_sh, "bfind.shiftamt.u32 %d, %a;", "ii--", bfind(a, 32, false, true))     \
	X(bfe_u32, "bfe.u32 %d, %a, %b, %c;", "iiss", bfe(a, b, c, 32, false))           \
	X(bfe_s32, "bfe.s32 %d, %a, %b, %c;", "iiss", bfe(a, b, c, 32, true))            \
	X(bfe_u64, "bfe.u64 %d, %a, %b, %c;", "llss", bfe(a, b, c, 64, false))           \
	X(bfe_s64, "bfe.s64 %d, %a, %b, %c;", "llss", bfe(a, b, c, 64, true))            \
	X(bfi32, "bfi.b32 %d, %a, %b, %c, 11;", "iiis", bfi(a, b, c, 11, 32))            \
	X(bfi32p, "bfi.b32 %d, %a, %b, 5, %c;", "iiis", bfi(a, b, 5, c, 32))             \
	X(bfi64, "bfi.b64 %d, %a, %b, %c, 33;", "llls", bfi(a, b, c, 33, 64))            \
	X(bfi64p, "bfi.b64 %d, %a, %b, 7, %c;", "llls", bfi(a, b, 7, c, 64))             \
	X(lop3_e2, "lop3.b32 %d, %a, %b, %c, 0xe2;", "iiii", lop3(a, b, c, 0xe2))        \
	X(lop3_96, "lop3.b32 %d, %a, %b, %c, 0x96;", "iiii", lop3(a, b, c, 0x96))        \
	X(lop3_1b, "lop3.b32 %d, %a, %b, %c, 0x1b;", "iiii", lop3(a, b, c, 0x1b))        \
	X(lop3_80, "lop3.b32 %d, %a, %b, %c, 0x80;", "iiii", lop3(a, b, c, 0x80))        \
	X(prmt_i, "prmt.b32 %d, %a, %b, %c;", "iiii", prmt(b << 32 | a, c))              \
	X(prmt_f4e, "prmt.b32.f4e %d, %a, %b, %c;", "iiii",                              \
	  prmt_mode(b << 32 | a, c, f4e))                                                \
	X(prmt_b4e, "prmt.b32.b4e %d, %a, %b, %c;", "iiii",                              \
	  prmt_mode(b << 32 | a, c, b4e))                                                \
	X(prmt_rc8, "prmt.b32.rc8 %d, %a, %b, %c;", "iiii",                              \
	  prmt_mode(b << 32 | a, c, rc8))                                                \
	X(prmt_ecl, "prmt.b32.ecl %d, %a, %b, %c;", "iiii",                              \
	  prmt_mode(b << 32 | a, c, ecl))                                                \
	X(prmt_ecr, "prmt.b32.ecr %d, %a, %b, %c;", "iiii",                              \
	  prmt_mode(b << 32 | a, c, ecr))                                                \
	X(prmt_rc16, "prmt.b32.rc16 %d, %a, %b, %c;", "iiii",                            \
	  prmt_mode(b << 32 | a, c, rc16))                                               \
	X(szext_u, "szext.clamp.u32 %d, %a, %b;", "iis-",                                \
	  b >= 32 ? a : a & ((1ull << b) - 1))                                           \
	X(szext_s, "szext.wrap.s32 %d, %a, %b;", "iis-",                                 \
	  (b & 31) == 0 ? 0 : S32(U32 a << (32 - (b & 31))) >> (32 - (b & 31)))          \
	X(bmsk_c, "bmsk.clamp.b32 %d, %a, %b;", "iss-",                                  \
	  a >= 32 ? 0 : (u64)((u128)((1ull << MIN(b, 32u)) - 1) << a))                   \
	X(bmsk_w, "bmsk.wrap.b32 %d, %a, %b;", "iss-",                                   \
	  ((1ull << (b & 31)) - 1) << (a & 31))                                          \
	X(fns, "fns.b32 %d, %a, %b, %c;", "iisi", fns(a, b, c))                          \
	X(fns5, "fns.b32 %d, %a, %b, 5;", "iis-", fns(a, b, 5))                          \
	X(fnsm3, "fns.b32 %d, %a, %b, -3;", "iis-", fns(a, b, -3))                       \
	X(dp4a_ss, "dp4a.s32.s32 %d, %a, %b, %c;", "iiii", dp4a(a, b, c, true, true))    \
	X(dp4a_uu, "dp4a.u32.u32 %d, %a, %b, %c;", "iiii", dp4a(a, b, c, false, false))  \
	X(dp4a_us, "dp4a.u32.s32 %d, %a, %b, %c;", "iiii", dp4a(a, b, c, false, true))   \
	X(dp2a_lo, "dp2a.lo.s32.u32 %d, %a, %b, %c;", "iiii",                            \
	  dp2a(a, b, c, true, false))                                                    \
	X(dp2a_hi, "dp2a.hi.u32.s32 %d, %a, %b, %c;", "iiii",                            \
	  dp2a(a, b >> 16, c, false, true))                                              \
	X(dp2a_ss, "dp2a.hi.s32.s32 %d, %a, %b, %c;", "iiii",                            \
	  dp2a(a, b >> 16, c, true, true))

#define CARRY(X)                                                                         \
	X(addcc, "add.cc.u32 %r1, %a, %b; addc.u32 %d, %c, 0;", "iiii",                  \
	  c + ((a + b) >> 32))                                                           \
	X(addc2, "add.cc.s64 %l1, %a, %b; addc.cc.s64 %l2, %c, %c; addc.u64 %d, 0, 0;",  \
	  "llll", ((u128)c + c + (((u128)a + b) >> 64)) >> 64)                           \
	X(subcc, "sub.cc.u32 %r1, %a, %b; subc.u32 %d, %c, 0;", "iiii", c - (a < b))     \
	X(subc64, "sub.cc.u64 %l1, %a, %b; subc.u64 %d, %c, %a;", "llll",                \
	  c - a - (a < b))                                                               \
	X(madcc, "mad.lo.cc.u32 %r1, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", "iiii",    \
	  (a * b + c) >> 32)                                                             \
	X(madchs, "mad.lo.cc.s32 %r1, %a, %b, %c; madc.hi.s32 %d, %a, %b, 0;", "iiii",   \
	  (((s64)S32 a * S32 b) >> 32) + (((a * b & 0xffffffff) + c) >> 32))             \
	X(madc64, "mad.lo.cc.u64 %l1, %a, %b, %c; madc.hi.u64 %d, %a, %b, %c;", "llll",  \
	  (u64)((u128)a * b >> 64) + c + (u64)(((u128)(u64)(a * b) + c) >> 64))

#define P(text) "{ " text " selp.b32 %d, 1, 0, %p; }"
#define SETP(X)                                                                          \
	X(eq_u16, P("setp.eq.u16 %p, %a, %b;"), "iww-", a == b)                          \
	X(lt_s16, P("setp.lt.s16 %p, %a, %b;"), "iww-", S16 a < S16 b)                   \
	X(ne_b32, P("setp.ne.b32 %p, %a, %b;"), "iii-", a != b)                          \
	X(lt_u32, P("setp.lt.u32 %p, %a, %b;"), "iii-", a < b)                           \
	X(le_s32, P("setp.le.s32 %p, %a, %b;"), "iii-", S32 a <= S32 b)                  \
	X(gt_s32, P("setp.gt.s32 %p, %a, %b;"), "iii-", S32 a > S32 b)                   \
	X(ge_u32, P("setp.ge.u32 %p, %a, %b;"), "iii-", a >= b)                          \
	X(lo_u32, P("setp.lo.u32 %p, %a, %b;"), "iii-", a < b)                           \
	X(ls_u32, P("setp.ls.u32 %p, %a, %b;"), "iii-", a <= b)                          \
	X(hi_u64, P("setp.hi.u64 %p, %a, %b;"), "ill-", a > b)                           \
	X(hs_u64, P("setp.hs.u64 %p, %a, %b;"), "ill-", a >= b)                          \
	X(lt_s64, P("setp.lt.s64 %p, %a, %b;"), "ill-", S64 a < S64 b)                   \
	X(eq_imm, P("setp.eq.s32 %p, %a, -1;"), "ii--", S32 a == -1)                     \
	X(and_p, P("setp.ne.u32 %q, %c, 0; setp.lt.and.s32 %p, %a, %b, %q;"), "iiis",    \
	  S32 a < S32 b && c)                                                            \
	X(or_p, P("setp.ne.u32 %q, %c, 0; setp.lt.or.s32 %p, %a, %b, !%q;"), "iiis",     \
	  S32 a < S32 b || !c)                                                           \
	X(xor_p, P("setp.ne.u32 %q, %c, 0; setp.lt.xor.s32 %p, %a, %b, %q;"), "iiis",    \
	  (S32 a < S32 b) != !!c)                                                        \
	X(pq,                                                                            \
	  "setp.lt.s32 %p|%q, %a, %b; selp.b32 %r1, 2, 0, %q; selp.b32 %d, 1, %r1, %p;", \
	  "iii-", S32 a < S32 b ? 1 : 2)                                                 \
	X(set_u32, "set.gt.u32.s32 %d, %a, %b;", "iii-", S32 a > S32 b ? ~0u : 0)        \
	X(set_f32, "set.le.f32.u64 %d, %a, %b;", "ill-", a <= b ? 0x3f800000 : 0)        \
	X(selp16, "setp.lt.u16 %p, %a, %b; selp.b16 %d, %a, %c, %p;", "wwww",            \
	  a < b ? a : c)                                                                 \
	X(selp64, "setp.lt.u64 %p, %a, %b; selp.b64 %d, %a, %c, !%p;", "llll",           \
	  a < b ? c : a)                                                                 \
	X(slct32, "slct.u32.s32 %d, %a, %b, %c;", "iiii", S32 c >= 0 ? a : b)            \
	X(slct64, "slct.s64.s32 %d, %a, %b, %c;", "llli", S32 c >= 0 ? a : b)            \
	X(slctf, "slct.f32.f32 %d, %a, %b, %c;", "fiif", from_f32(c) >= 0 ? a : b)       \
	X(pand,                                                                          \
	  P("setp.lt.u32 %p, %a, %b; setp.lt.u32 %q, %b, %c; and.pred %p, %p, %q;"),     \
	  "iiii", a < b && b < c)                                                        \
	X(pxor,                                                                          \
	  P("setp.lt.u32 %p, %a, %b; setp.lt.u32 %q, %b, %c; xor.pred %p, %p, %q;"),     \
	  "iiii", (a < b) != (b < c))                                                    \
	X(pnot, P("setp.lt.u32 %q, %a, %b; not.pred %p, %q;"), "iii-", !(a < b))         \
	X(pmov, P("setp.lt.u32 %q, %a, %b; mov.pred %p, %q;"), "iii-", a < b)            \
	X(guard,                                                                         \
	  "setp.lt.u32 %p, %a, %b; mov.b32 %d, %c; @%p add.u32 %d, %a, %b;"              \
	  "@!%p xor.b32 %d, %d, %a;",                                                    \
	  "iiii", a < b ? a + b : c ^ a)                                                 \
	X(lop3p, P("setp.lt.u32 %q, %a, %c; lop3.or.b32 %r1|%p, %a, %b, %c, 0x80, %q;"), \
	  "iiii", (a & b & c) || a < c)

#define MOVES(X)                                                                         \
	X(pack2, "mov.b32 %d, {%a, %b};", "iww-", b << 16 | a)                           \
	X(pack64, "mov.b64 %d, {%a, %b};", "lii-", b << 32 | a)                          \
	X(pack4, "mov.b64 %d, {%a, %b, %c, %a};", "lwww",                                \
	  a << 48 | c << 32 | b << 16 | a)                                               \
	X(unpack_lo, "mov.b32 {%d, %h1}, %a;", "wi--", a)                                \
	X(unpack_hi, "mov.b32 {%h1, %d}, %a;", "wi--", a >> 16)                          \
	X(unpack_sink, "mov.b64 {_, %d}, %a;", "il--", a >> 32)                          \
	X(unpack4, "mov.b64 {%h1, %h2, %d, %h3}, %a;", "wl--", a >> 32)                  \
	X(pack128, "{ .reg .b128 %z; mov.b128 %z, {%a, %b}; mov.b128 {_, %d}, %z; }",    \
	  "lll-", b)

#define VIDEO(X)                                                                         \
	X(vadd, "vadd.s32.s32.s32.sat %d, %a, %b;", "iii-", sat32((s128)S32 a + S32 b))  \
	X(vadd_b, "vadd.u32.u32.s32 %d, %a.b1, %b.h1;", "iii-",                          \
	  (a >> 8 & 255) + (s64)S16(b >> 16))                                            \
	X(vsub_m, "vsub.s32.u32.u32 %d.b2, %a, %b, %c;", "iiii",                         \
	  (c & ~0xff0000ull) | ((a - b) & 255) << 16)                                    \
	X(vabsdiff, "vabsdiff.u32.u32.u32.add %d, %a, %b, %c;", "iiii",                  \
	  (a > b ? a - b : b - a) + c)                                                   \
	X(vmin, "vmin.s32.s32.s32.max %d, %a, %b, %c;", "iiii",                          \
	  MAX(MIN(S32 a, S32 b), S32 c))                                                 \
	X(vmax, "vmax.u32.u32.u32 %d, %a.h0, %b.b3;", "iii-", MAX(a & 0xffff, b >> 24))  \
	X(vshl, "vshl.u32.u32.u32.clamp %d, %a, %b;", "iis-", b >= 32 ? 0 : a << b)      \
	X(vshr, "vshr.s32.s32.u32.wrap %d, %a, %b;", "iis-", S32 a >> (b & 31))          \
	X(vmad, "vmad.s32.s32.s32.shr7 %d, %a, %b, %c;", "iiii",                         \
	  (u64)((s64)S32 a * S32 b + S32 c) >> 7)                                        \
	X(vset, "vset.s32.u32.lt %d, %a, %b;", "iii-", (s64)S32 a < (s64)b)              \
	X(cvtpack, "cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", "iiii",                    \
	  c << 16 | (u64)MIN(MAX(S32 a, 0), 255) << 8 | (u64)MIN(MAX(S32 b, 0), 255))

PTX_TEST(int_arith, BY_WIDTH)
PTX_TEST(int_bits, BITS)
PTX_TEST(int_carry, CARRY)
PTX_TEST(int_setp, SETP)
PTX_TEST(int_moves, MOVES)
PTX_TEST(int_video, VIDEO)
