/* SPDX-License-Identifier: Apache-2.0 */
/* cvt between all pairs of types, with every kind of rounding and saturation. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/macros.h"
#include "check.h"

#define F(v) from_f32(v)
#define D(v) from_f64(v)
#define H(v) from_f16((v)&0xffff)
#define B(v) from_bf16((v)&0xffff)

/* To an integral value. */
static quad integral(quad v, enum round m)
{
	quad t, r, a = v < 0 ? -v : v;
	bool neg = __builtin_signbit(v);

	if (!(a < (quad)0x1p112))
		return v;
	t = (quad)(unsigned __int128)a;
	r = a - t;
	if (m == RN)
		t += r > 0.5 || (r == 0.5 && (unsigned __int128)t & 1);
	else if ((m == RP && !neg) || (m == RM && neg))
		t += r > 0;
	return neg ? -t : t;
}

/* Float to integer: out of range clamps; for NaN see the manual. */
static u64 to_s(quad v, unsigned bits, enum round m, bool wide_src)
{
	s64 lo = -(s64)(1ull << (bits - 1)), hi = (s64)((1ull << (bits - 1)) - 1);

	if (bits == 64)
		lo = INT64_MIN, hi = INT64_MAX;
	if (nan_q(v))
		return wide_src || bits == 64 ? (u64)lo : 0;
	v = integral(v, m);
	return v < (quad)lo ? (u64)lo : v > (quad)hi ? (u64)hi : (u64)(s64)v;
}

static u64 to_u(quad v, unsigned bits, enum round m, bool wide_src)
{
	u64 hi = ~0ull >> (64 - bits);

	if (nan_q(v))
		return wide_src || bits == 64 ? 1ull << (bits - 1) : 0;
	v = integral(v, m);
	return v < 0 ? 0 : v > (quad)hi ? hi : (u64)v;
}

static s64 sx(u64 v, unsigned bits)
{
	return (s64)(v << (64 - bits)) >> (64 - bits);
}

static u64 zx(u64 v, unsigned bits)
{
	return v & ~0ull >> (64 - bits);
}

/* Integer saturation, the source already extended to 128 bits. */
static s64 satv(__int128 v, unsigned bits, bool sgn)
{
	__int128 lo = sgn ? -((__int128)1 << (bits - 1)) : 0;
	__int128 hi = ((__int128)1 << (bits - sgn)) - 1;

	return (s64)(v < lo ? lo : v > hi ? hi : v);
}

static quad sat(quad v)
{
	return v > 0 ? (v < 1 ? v : 1) : 0;
}

static quad relu(quad v)
{
	return v < 0 || v == 0 ? 0 : v;
}

static u64 tf32(u64 a, enum round m)
{
	return nan_q(F(a)) ? 0x7fffffff : round_to(F(a), 8, 10, m) << 13;
}

static u64 e5m2(quad v)
{
	u64 r = nan_q(v) ? 0x7f : round_to(v, 5, 2, RN);

	return nan_q(v) ? 0x7f : (r & 0x7f) >= 0x7c ? (r & 0x80) | 0x7b : r;
}

/* Through a format with one more exponent bit, where no value is an infinity. */
static u64 e4m3(quad v)
{
	u64 best = 0;
	quad a = v < 0 ? -v : v;

	if (nan_q(v))
		return 0x7f;
	/* all magnitudes, nearest first, ties to even */
	for (u64 k = 0; k < 0x7f; k++) {
		quad x = k >> 3 ? (quad)(8 + (k & 7)) * (quad)exp2((int)(k >> 3) - 10)
				: (quad)k * (quad)0x1p-9;
		quad y = best >> 3 ? (quad)(8 + (best & 7)) *
					     (quad)exp2((int)(best >> 3) - 10)
				   : (quad)best * (quad)0x1p-9;
		quad dx = x > a ? x - a : a - x, dy = y > a ? y - a : a - y;

		if (dx < dy || (dx == dy && !(k & 1)))
			best = k;
	}
	return best | (__builtin_signbit(v) ? 0x80 : 0);
}

static quad e4m3_value(u64 v)
{
	u64 k = v & 0x7f;
	quad x = k >> 3 ? (quad)(8 + (k & 7)) * (quad)exp2((int)(k >> 3) - 10)
			: (quad)k * (quad)0x1p-9;

	return k == 0x7f ? (quad)NAN : v & 0x80 ? -x : x;
}

#define INT_INT(X)                                                                       \
	X(u32_u16, "cvt.u32.u16 %d, %a;", "iw--", zx(a, 16))                             \
	X(s32_s16, "cvt.s32.s16 %d, %a;", "iw--", sx(a, 16))                             \
	X(u16_u32, "cvt.u16.u32 %d, %a;", "wi--", a)                                     \
	X(s64_s32, "cvt.s64.s32 %d, %a;", "li--", sx(a, 32))                             \
	X(u64_u32, "cvt.u64.u32 %d, %a;", "li--", zx(a, 32))                             \
	X(u64_s32, "cvt.u64.s32 %d, %a;", "li--", sx(a, 32))                             \
	X(u32_u64, "cvt.u32.u64 %d, %a;", "il--", a)                                     \
	X(s64_s16, "cvt.s64.s16 %d, %a;", "lw--", sx(a, 16))                             \
	X(s32_s8, "cvt.s32.s8 %d, %a;", "ii--", sx(a, 8))                                \
	X(u32_u8, "cvt.u32.u8 %d, %a;", "iw--", zx(a, 8))                                \
	X(s16_s8, "cvt.s16.s8 %d, %a;", "ww--", sx(a, 8))                                \
	X(u8_u32, "cvt.u8.u32 %d, %a;", "ii--", zx(a, 8))                                \
	X(s8_s32, "cvt.s8.s32 %d, %a;", "ii--", sx(a, 8))                                \
	X(u16_s8, "cvt.u16.s8 %d, %a;", "iw--", zx(sx(a, 8), 16))                        \
	X(s16_u32r, "cvt.s16.u32 %d, %a;", "li--", sx(a, 16))                            \
	X(u8_u64, "cvt.u8.u64 %d, %a;", "wl--", zx(a, 8))                                \
	X(sat_s8, "cvt.sat.s8.s32 %d, %a;", "ii--", satv(sx(a, 32), 8, true))            \
	X(sat_u8, "cvt.sat.u8.s32 %d, %a;", "ii--", satv(sx(a, 32), 8, false))           \
	X(sat_s16, "cvt.sat.s16.s64 %d, %a;", "wl--", satv(sx(a, 64), 16, true))         \
	X(sat_u32, "cvt.sat.u32.s64 %d, %a;", "il--", satv(sx(a, 64), 32, false))        \
	X(sat_s32u, "cvt.sat.s32.u64 %d, %a;", "il--", satv(a, 32, true))                \
	X(sat_u16, "cvt.sat.u16.u32 %d, %a;", "wi--", satv(a, 16, false))                \
	X(sat_s64, "cvt.sat.s64.u64 %d, %a;", "ll--", satv(a, 64, true))                 \
	X(sat_u64, "cvt.sat.u64.s32 %d, %a;", "li--", satv(sx(a, 32), 64, false))

#define TO_INTS(X, n, N, m)                                                              \
	X(s32_f32##n, "cvt." #n ".s32.f32 %d, %a;", "if--", to_s(F(a), 32, m, false))    \
	X(u32_f32##n, "cvt." #n ".u32.f32 %d, %a;", "if--", to_u(F(a), 32, m, false))    \
	X(s64_f32##n, "cvt." #n ".s64.f32 %d, %a;", "lf--", to_s(F(a), 64, m, false))    \
	X(u64_f32##n, "cvt." #n ".u64.f32 %d, %a;", "lf--", to_u(F(a), 64, m, false))    \
	X(s32_f64##n, "cvt." #n ".s32.f64 %d, %a;", "id--", to_s(D(a), 32, m, true))     \
	X(u32_f64##n, "cvt." #n ".u32.f64 %d, %a;", "id--", to_u(D(a), 32, m, true))     \
	X(s64_f64##n, "cvt." #n ".s64.f64 %d, %a;", "ld--", to_s(D(a), 64, m, true))     \
	X(u64_f64##n, "cvt." #n ".u64.f64 %d, %a;", "ld--", to_u(D(a), 64, m, true))     \
	X(s16_f32##n, "cvt." #n ".s16.f32 %d, %a;", "wf--", to_s(F(a), 16, m, false))    \
	X(u8_f32##n, "cvt." #n ".u8.f32 %d, %a;", "if--", to_u(F(a), 8, m, false))       \
	X(s32_f16##n, "cvt." #n ".s32.f16 %d, %a;", "ih--", to_s(H(a), 32, m, false))    \
	X(u16_f16##n, "cvt." #n ".u16.f16 %d, %a;", "wh--", to_u(H(a), 16, m, false))    \
	X(f32_f32##n, "cvt." #n ".f32.f32 %d, %a;", "ff--",                              \
	  to_f32(integral(F(a), m), RN))                                                 \
	X(f64_f64##n, "cvt." #n ".f64.f64 %d, %a;", "dd--",                              \
	  to_f64(integral(D(a), m), RN))                                                 \
	X(f16_f16##n, "cvt." #n ".f16.f16 %d, %a;", "hh--", to_f16(integral(H(a), m), RN))

#define FLOAT_INT(X)                                                                     \
	TO_INTS(X, rni, RNI, RN)                                                         \
	TO_INTS(X, rzi, RZI, RZ)                                                         \
	TO_INTS(X, rmi, RMI, RM)                                                         \
	TO_INTS(X, rpi, RPI, RP)                                                         \
	X(s32_ftz, "cvt.rpi.ftz.s32.f32 %d, %a;", "if--",                                \
	  to_s(F(flush(a)), 32, RP, false))                                              \
	X(f32_rniftz, "cvt.rni.ftz.f32.f32 %d, %a;", "ff--",                             \
	  to_f32(integral(F(flush(a)), RN), RN))

#define FROM_INTS(X, n, m)                                                               \
	X(f32_s32##n, "cvt." #n ".f32.s32 %d, %a;", "fi--", to_f32((quad)sx(a, 32), m))  \
	X(f32_u32##n, "cvt." #n ".f32.u32 %d, %a;", "fi--", to_f32((quad)a, m))          \
	X(f32_s64##n, "cvt." #n ".f32.s64 %d, %a;", "fl--", to_f32((quad)(s64)a, m))     \
	X(f32_u64##n, "cvt." #n ".f32.u64 %d, %a;", "fl--", to_f32((quad)a, m))          \
	X(f64_s32##n, "cvt." #n ".f64.s32 %d, %a;", "di--", to_f64((quad)sx(a, 32), m))  \
	X(f64_s64##n, "cvt." #n ".f64.s64 %d, %a;", "dl--", to_f64((quad)(s64)a, m))     \
	X(f64_u64##n, "cvt." #n ".f64.u64 %d, %a;", "dl--", to_f64((quad)a, m))          \
	X(f16_s32##n, "cvt." #n ".f16.s32 %d, %a;", "hi--", to_f16((quad)sx(a, 32), m))  \
	X(f16_u64##n, "cvt." #n ".f16.u64 %d, %a;", "hl--", to_f16((quad)a, m))          \
	X(f32_s8##n, "cvt." #n ".f32.s8 %d, %a;", "fi--", to_f32((quad)sx(a, 8), m))     \
	X(f64_u16##n, "cvt." #n ".f64.u16 %d, %a;", "dw--", to_f64((quad)a, m))          \
	X(f32_f64##n, "cvt." #n ".f32.f64 %d, %a;", "fd--", to_f32(D(a), m))             \
	X(f16_f64##n, "cvt." #n ".f16.f64 %d, %a;", "hd--", to_f16(D(a), m))             \
	X(f16_f32##n, "cvt." #n ".f16.f32 %d, %a;", "hf--", to_f16(F(a), m))

#define FLOATS(X)                                                                        \
	FROM_INTS(X, rn, RN)                                                             \
	FROM_INTS(X, rz, RZ)                                                             \
	FROM_INTS(X, rm, RM)                                                             \
	FROM_INTS(X, rp, RP)                                                             \
	X(f64_f32, "cvt.f64.f32 %d, %a;", "df--", to_f64(F(a), RN))                      \
	X(f64_f32z, "cvt.ftz.f64.f32 %d, %a;", "df--", to_f64(F(flush(a)), RN))          \
	X(f32_f16, "cvt.f32.f16 %d, %a;", "fh--", to_f32(H(a), RN))                      \
	X(f64_f16, "cvt.f64.f16 %d, %a;", "dh--", to_f64(H(a), RN))                      \
	X(f32_bf16, "cvt.f32.bf16 %d, %a;", "fb--", to_f32(B(a), RN))                    \
	X(bf16_f32, "cvt.rn.bf16.f32 %d, %a;", "bf--", to_bf16(F(a), RN))                \
	X(bf16_f32z, "cvt.rz.bf16.f32 %d, %a;", "bf--", to_bf16(F(a), RZ))               \
	X(bf16_relu, "cvt.rn.relu.bf16.f32 %d, %a;", "bf--", to_bf16(relu(F(a)), RN))    \
	X(f32_sat, "cvt.sat.f32.f32 %d, %a;", "ff--", to_f32(sat(F(a)), RN))             \
	X(f32_ftz, "cvt.ftz.f32.f32 %d, %a;", "ff--",                                    \
	  nan_q(F(a)) ? 0x7fffffff : flush(a))                                           \
	X(f32_f64s, "cvt.rn.sat.f32.f64 %d, %a;", "fd--", to_f32(sat(D(a)), RN))         \
	X(f32_f64z, "cvt.rn.ftz.f32.f64 %d, %a;", "fd--", flush(to_f32(D(a), RN)))       \
	X(tf32_rna, "cvt.rna.tf32.f32 %d, %a;", "ff--", tf32(a, RNA))                    \
	X(tf32_rn, "cvt.rn.tf32.f32 %d, %a;", "ff--", tf32(a, RN))                       \
	X(h2_f32, "cvt.rn.f16x2.f32 %d, %a, %b;", "Hff-",                                \
	  to_f16(F(a), RN) << 16 | to_f16(F(b), RN))                                     \
	X(h2_relu, "cvt.rz.relu.f16x2.f32 %d, %a, %b;", "Hff-",                          \
	  to_f16(relu(F(a)), RZ) << 16 | to_f16(relu(F(b)), RZ))                         \
	X(b2_f32, "cvt.rn.bf16x2.f32 %d, %a, %b;", "Bff-",                               \
	  to_bf16(F(a), RN) << 16 | to_bf16(F(b), RN))                                   \
	X(e4m3_f32, "cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", "wff-",                   \
	  e4m3(F(a)) << 8 | e4m3(F(b)))                                                  \
	X(e5m2_f32, "cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", "wff-",                   \
	  e5m2(F(a)) << 8 | e5m2(F(b)))                                                  \
	X(e4m3_h2, "cvt.rn.satfinite.e4m3x2.f16x2 %d, %a;", "wH--",                      \
	  e4m3(H(a >> 16)) << 8 | e4m3(H(a)))                                            \
	X(h2_e4m3, "cvt.rn.f16x2.e4m3x2 %d, %a;", "Hw--",                                \
	  to_f16(e4m3_value(a >> 8), RN) << 16 | to_f16(e4m3_value(a & 255), RN))        \
	X(h2_e5m2, "cvt.rn.f16x2.e5m2x2 %d, %a;", "Hw--",                                \
	  to_f16(H(a & 0xff00), RN) << 16 | to_f16(H(a << 8 & 0xff00), RN))

PTX_TEST(cvt_int, INT_INT)
PTX_TEST(cvt_float_int, FLOAT_INT)
PTX_TEST(cvt_float, FLOATS)
