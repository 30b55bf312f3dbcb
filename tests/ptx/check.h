/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of single PTX instructions: a kernel is built around the text of one, run on
 * random and edge inputs, and each result compared with a reference in C.
 */
#ifndef WEFT_TEST_CHECK_H
#define WEFT_TEST_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define u8  uint8_t
#define s8  int8_t
#define u16 uint16_t
#define s16 int16_t
#define u32 uint32_t
#define s32 int32_t
#define u64 uint64_t
#define s64 int64_t

typedef __float128 quad;

/*
 * spec has four letters: kinds of %d, %a, %b, %c.
 *	w 16-bit integer, i 32, l 64, s 32-bit small number (a shift or a field)
 *	h f16, b bf16, f f32, d f64, H f16x2, B bf16x2; - none
 *	F, D as destination: any NaN will do only for NaN (as for h, b, f, d), and the
 *	reference is a number to be met within tol
 */
struct ptx_case {
	const char *insn;
	const char *spec;
	u64 (*ref)(u64 a, u64 b, u64 c);
	/* for approximations: the exact value and the greatest error allowed there */
	double (*exact)(double a, double b);
	double (*bound)(double exact, double a);
};

/* Runs all cases; every mismatch is a failed assertion with the inputs. */
void ptx_check(const struct ptx_case *cases, unsigned num);

/* Reference for one instruction as a function. */
#define PTX_REF(name, insn, spec, expr)                                                  \
	static u64 ref_##name(u64 a, u64 b, u64 c)                                       \
	{                                                                                \
		(void)a, (void)b, (void)c;                                               \
		return (u64)(expr);                                                      \
	}
#define PTX_ENTRY(name, insn, spec, expr) {insn, spec, ref_##name, NULL, NULL},

/* Defines the references of LIST and checks all of them in one Criterion test. */
#define PTX_TEST(suite, LIST)                                                            \
	LIST(PTX_REF)                                                                    \
	static const struct ptx_case suite##_cases[] = {LIST(PTX_ENTRY)};                \
	Test(ptx, suite)                                                                 \
	{                                                                                \
		ptx_check(suite##_cases, ARRAY_SIZE(suite##_cases));                     \
	}

/* ---- exact arithmetic in quad ---- */

enum round {
	RN,
	RZ,
	RM,
	RP,
	RNA
};

/* Bits of the value of f rounded to a format with ebits and mbits, IEEE layout. */
u64 round_to(quad f, unsigned ebits, unsigned mbits, enum round mode);

/* a + b with the lost part remembered in the last bit, so that rounding is right. */
quad add_q(quad a, quad b);
quad sqrt_q(quad a);

quad from_f16(u64 v);
quad from_bf16(u64 v);
quad from_f32(u64 v);
quad from_f64(u64 v);

static inline bool nan_q(quad v)
{
	return v != v;
}

/* As min and max of PTX have it: a NaN loses, -0 is below +0. */
static inline quad lesser(quad a, quad b)
{
	return nan_q(a)   ? b
	       : nan_q(b) ? a
	       : a == b   ? (__builtin_signbit(a) ? a : b)
	       : a < b    ? a
			  : b;
}

static inline quad greater(quad a, quad b)
{
	return nan_q(a)   ? b
	       : nan_q(b) ? a
	       : a == b   ? (__builtin_signbit(a) ? b : a)
	       : a > b    ? a
			  : b;
}

static inline u64 to_f16(quad v, enum round m)
{
	return nan_q(v) ? 0x7fff : round_to(v, 5, 10, m);
}

static inline u64 to_bf16(quad v, enum round m)
{
	return nan_q(v) ? 0x7fff : round_to(v, 8, 7, m);
}

static inline u64 to_f32(quad v, enum round m)
{
	return nan_q(v) ? 0x7fffffff : round_to(v, 8, 23, m);
}

static inline u64 to_f64(quad v, enum round m)
{
	return nan_q(v) ? 0xfff8000000000000ull : round_to(v, 11, 52, m);
}

/* Subnormal f32 to zero. */
static inline u64 flush(u64 v)
{
	return (v & 0x7f800000) ? v : v & 0x80000000;
}

#endif
