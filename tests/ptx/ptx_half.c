/* SPDX-License-Identifier: Apache-2.0 */
/* f16 and bf16, alone and in pairs, against quad precision. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/macros.h"
#include "check.h"

#define H(v)  from_f16((v)&0xffff)
#define B(v)  from_bf16((v)&0xffff)
#define UP(v) ((v) >> 16)

/* An expression of two or three halves, for both halves of a pair. */
#define PAIR(f) ((f(a, b, c) & 0xffff) | (f(UP(a), UP(b), UP(c)) & 0xffff) << 16)

static quad sat(quad v)
{
	return v > 0 ? (v < 1 ? v : 1) : 0;
}

static quad relu(quad v)
{
	return v < 0 || v == 0 ? 0 : v;
}

static quad strict(quad v, quad a, quad b)
{
	return nan_q(a) || nan_q(b) ? (quad)NAN : v;
}

static u64 ftz16(u64 v)
{
	return v & 0x7c00 ? v & 0xffff : v & 0x8000;
}

/* A result is flushed if it were subnormal after rounding with any exponent (H200). */
static quad tiny(quad v)
{
	const quad least = (quad)0x1p-14 - (quad)0x1p-26;

	return v < least && v > -least ? (__builtin_signbit(v) ? -(quad)0.0 : (quad)0.0)
				       : v;
}

#define FN(name, expr)                                                                   \
	static u64 name(u64 a, u64 b, u64 c)                                             \
	{                                                                                \
		(void)b, (void)c;                                                        \
		return (expr);                                                           \
	}
FN(h_add, to_f16(add_q(H(a), H(b)), RN))
FN(h_sub, to_f16(add_q(H(a), -H(b)), RN))
FN(h_mul, to_f16(H(a) * H(b), RN))
FN(h_fma, to_f16(add_q(H(a) * H(b), H(c)), RN))
FN(h_sat, to_f16(sat(add_q(H(a), H(b))), RN))
FN(h_fsat, to_f16(sat(add_q(H(a) * H(b), H(c))), RN))
FN(h_relu, to_f16(relu(add_q(H(a) * H(b), H(c))), RN))
FN(h_ftz, to_f16(tiny(H(ftz16(a)) * H(ftz16(b))), RN))
FN(h_min, to_f16(lesser(H(a), H(b)), RN))
FN(h_max, to_f16(greater(H(a), H(b)), RN))
FN(h_maxn, to_f16(strict(greater(H(a), H(b)), H(a), H(b)), RN))
FN(b_add, to_bf16(add_q(B(a), B(b)), RN))
FN(b_sub, to_bf16(add_q(B(a), -B(b)), RN))
FN(b_mul, to_bf16(B(a) * B(b), RN))
FN(b_fma, to_bf16(add_q(B(a) * B(b), B(c)), RN))
FN(b_relu, to_bf16(relu(add_q(B(a) * B(b), B(c))), RN))
FN(b_min, to_bf16(lesser(B(a), B(b)), RN))
FN(b_max, to_bf16(greater(B(a), B(b)), RN))
FN(b_maxn, to_bf16(strict(greater(B(a), B(b)), B(a), B(b)), RN))

#define HALF(X)                                                                          \
	X(add16, "add.f16 %d, %a, %b;", "hhh-", h_add(a, b, c))                          \
	X(add16x2, "add.f16x2 %d, %a, %b;", "HHH-", PAIR(h_add))                         \
	X(addsat, "add.sat.f16 %d, %a, %b;", "hhh-", h_sat(a, b, c))                     \
	X(sub16, "sub.rn.f16 %d, %a, %b;", "hhh-", h_sub(a, b, c))                       \
	X(sub16x2, "sub.f16x2 %d, %a, %b;", "HHH-", PAIR(h_sub))                         \
	X(mul16, "mul.f16 %d, %a, %b;", "hhh-", h_mul(a, b, c))                          \
	X(mul16x2, "mul.f16x2 %d, %a, %b;", "HHH-", PAIR(h_mul))                         \
	X(mulftz, "mul.ftz.f16 %d, %a, %b;", "hhh-", h_ftz(a, b, c))                     \
	X(fma16, "fma.rn.f16 %d, %a, %b, %c;", "hhhh", h_fma(a, b, c))                   \
	X(fma16x2, "fma.rn.f16x2 %d, %a, %b, %c;", "HHHH", PAIR(h_fma))                  \
	X(fmasat, "fma.rn.sat.f16 %d, %a, %b, %c;", "hhhh", h_fsat(a, b, c))             \
	X(fmarelu, "fma.rn.relu.f16x2 %d, %a, %b, %c;", "HHHH", PAIR(h_relu))            \
	X(neg16, "neg.f16 %d, %a;", "hh--", a ^ 0x8000)                                  \
	X(neg16x2, "neg.f16x2 %d, %a;", "HH--", a ^ 0x80008000)                          \
	X(abs16, "abs.f16 %d, %a;", "hh--", a & 0x7fff)                                  \
	X(absftz, "abs.ftz.f16 %d, %a;", "hh--", ftz16(a) & 0x7fff)                      \
	X(min16, "min.f16 %d, %a, %b;", "hhh-", h_min(a, b, c))                          \
	X(max16x2, "max.f16x2 %d, %a, %b;", "HHH-", PAIR(h_max))                         \
	X(maxnan, "max.NaN.f16 %d, %a, %b;", "hhh-", h_maxn(a, b, c))                    \
	X(addb, "add.rn.bf16 %d, %a, %b;", "bbb-", b_add(a, b, c))                       \
	X(addb2, "add.rn.bf16x2 %d, %a, %b;", "BBB-", PAIR(b_add))                       \
	X(subb, "sub.rn.bf16 %d, %a, %b;", "bbb-", b_sub(a, b, c))                       \
	X(mulb, "mul.rn.bf16 %d, %a, %b;", "bbb-", b_mul(a, b, c))                       \
	X(mulb2, "mul.rn.bf16x2 %d, %a, %b;", "BBB-", PAIR(b_mul))                       \
	X(fmab, "fma.rn.bf16 %d, %a, %b, %c;", "bbbb", b_fma(a, b, c))                   \
	X(fmab2, "fma.rn.bf16x2 %d, %a, %b, %c;", "BBBB", PAIR(b_fma))                   \
	X(fmabr, "fma.rn.relu.bf16 %d, %a, %b, %c;", "bbbb", b_relu(a, b, c))            \
	X(negb, "neg.bf16 %d, %a;", "bb--", a ^ 0x8000)                                  \
	X(absb2, "abs.bf16x2 %d, %a;", "BB--", a & 0x7fff7fff)                           \
	X(minb, "min.bf16 %d, %a, %b;", "bbb-", b_min(a, b, c))                          \
	X(maxb2, "max.bf16x2 %d, %a, %b;", "BBB-", PAIR(b_max))                          \
	X(maxbn, "max.NaN.bf16 %d, %a, %b;", "bbb-", b_maxn(a, b, c))

PTX_TEST(half, HALF)
