/* SPDX-License-Identifier: Apache-2.0 */
/* f16, bf16, tf32 and the 8-bit formats as bits, and whole rows of them as f32. */
#ifndef WEFT_SIMT_HALF_H
#define WEFT_SIMT_HALF_H

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "simt/handlers/float.h"

#define F16_NAN  0x7fffu
#define BF16_NAN 0x7fffu

static inline f32 f16_to_f32(u16 h)
{
	u32 o = (u32)(h & 0x7fff) << 13, e = o & 0x0f800000;

	o += (127 - 15) << 23;
	o += e == 0x0f800000 ? (128 - 16) << 23 : 0;
	/* a subnormal: give it an implicit one, and take that away again */
	o = e == 0 ? f32_bits(f32_of(o + (1 << 23)) - 0x1p-14f) : o;
	return f32_of(o | (u32)(h & 0x8000) << 16);
}

static inline u16 f32_to_f16(f32 v)
{
	u32 b = f32_bits(v), sign = b & 0x80000000;
	u32 sub, norm, h;

	b ^= sign;
	/* the addition aligns the mantissa of a subnormal result and rounds it */
	sub = f32_bits(f32_of(b) + 0.5f) - 0x3f000000;
	norm = b + (((u32)15 - 127) << 23) + 0xfff + (b >> 13 & 1);
	h = b < 113u << 23 ? sub : norm >> 13;
	h = b >= (127u + 16) << 23 ? (b > 0x7f800000 ? F16_NAN : 0x7c00) : h;
	return b > 0x7f800000 ? F16_NAN : (u16)(h | sign >> 16);
}

static inline f32 bf16_to_f32(u16 h)
{
	return f32_of((u32)h << 16);
}

static inline u16 f32_to_bf16(f32 v)
{
	u32 b = f32_bits(v);

	return v != v ? BF16_NAN : (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

/* To f32 with rounding to odd: a second rounding to fewer than 23 bits is then right. */
static inline f32 f64_to_f32_odd(f64 v)
{
	f32 f = (f32)v;
	u32 b = f32_bits(f);
	u32 step = __builtin_fabs((f64)f) < __builtin_fabs(v) ? 1 : -1u;
	bool fix = (f64)f < v || (f64)f > v;

	return f32_of(fix && !(b & 1) ? b + step : b);
}

/*
 * Rounds to a format of ebits exponent and mbits mantissa bits with IEEE's layout; the
 * sign is the bit above. Ties to even, or away from zero when mode is FX_RNA. Overflow
 * gives infinity or the largest number as the mode has it; inf is the pattern of
 * infinity, max that of the largest number.
 */
#define FX_RNA 4u

static inline u32 pack_float(f64 v, unsigned ebits, unsigned mbits, unsigned mode,
			     u32 inf, u32 max)
{
	u64 b = f64_bits(v), m, keep, rest, half;
	u32 sign = (u32)(b >> 63), bias = (1u << (ebits - 1)) - 1, r;
	int e = (int)(b >> 52 & 0x7ff) - 1023, shift = 52 - (int)mbits;
	bool up, away = (mode == FX_RP && !sign) || (mode == FX_RM && sign);

	sign <<= ebits + mbits;
	b &= 0x7fffffffffffffffull;
	if (b == 0)
		return sign;
	if (b >= 0x7ff0000000000000ull)
		return sign | inf;
	if (e == -1023) /* a subnormal f64: below every format but counts as not 0 */
		e = -1022, m = b;
	else
		m = (b & 0xfffffffffffffull) | 1ull << 52;
	if (e < 1 - (int)bias)
		shift += 1 - (int)bias - e;
	if (shift > 54)
		keep = 0, rest = 1, half = 2;
	else
		keep = m >> shift, rest = m & ((1ull << shift) - 1),
		half = 1ull << (shift - 1);
	up = mode == FX_RN    ? rest > half || (rest == half && (keep & 1))
	     : mode == FX_RNA ? rest >= half
			      : away && rest;
	keep += up;
	/* a carry out of the mantissa raises the exponent by itself */
	if (e < 1 - (int)bias)
		r = (u32)keep;
	else if (e > (int)bias + 1)
		r = inf;
	else
		r = (u32)(keep + ((u64)(e + (int)bias - 1) << mbits));
	if (r > max)
		r = mode == FX_RN || mode == FX_RNA || away ? inf : max;
	return sign | r;
}

static inline u16 f64_to_f16(f64 v, unsigned mode)
{
	return v != v ? F16_NAN : (u16)pack_float(v, 5, 10, mode, 0x7c00, 0x7bff);
}

static inline u16 f64_to_bf16(f64 v, unsigned mode)
{
	return v != v ? BF16_NAN : (u16)pack_float(v, 8, 7, mode, 0x7f80, 0x7f7f);
}

/* tf32 is an f32 whose low 13 bits are zero. */
static inline u32 f32_to_tf32(f32 v, unsigned mode)
{
	return v != v ? F32_NAN : pack_float((f64)v, 8, 10, mode, 0x3fc00, 0x3fbff) << 13;
}

/* The 8-bit formats saturate: no infinity comes out of a conversion. */
static inline u8 f64_to_e4m3(f64 v)
{
	if (v != v)
		return 0x7f;
	/* exponent 15 is an ordinary one here, only its last mantissa is NaN */
	return (u8)pack_float(v, 4, 3, FX_RN, 0x7e, 0x7e);
}

static inline f32 e5m2_to_f32(u8 v)
{
	return f16_to_f32((u16)(v << 8));
}

static inline u8 f64_to_e5m2(f64 v)
{
	return v != v ? 0x7f : (u8)pack_float(v, 5, 2, FX_RN, 0x7b, 0x7b);
}

static inline f32 e4m3_to_f32(u8 v)
{
	u32 e = v >> 3 & 15, m = v & 7;
	f32 f = e ? f32_of((e + 120) << 23 | m << 20) : (f32)m * 0x1p-9f;

	if ((v & 0x7f) == 0x7f)
		return f32_of(F32_NAN);
	return v & 0x80 ? -f : f;
}

/* Rows: n is 32 for scalars, 64 for pairs. */
static inline void f16_in(f32 *t, const u16 *h, unsigned n)
{
#if defined(__F16C__)
	for (unsigned i = 0; i < n; i += 8)
		_mm256_storeu_ps(t + i,
				 _mm256_cvtph_ps(_mm_loadu_si128((const void *)(h + i))));
#else
	for (unsigned i = 0; i < n; i++)
		t[i] = f16_to_f32(h[i]);
#endif
}

/* NaNs must be canonical already. */
static inline void f16_out(u16 *h, const f32 *t, unsigned n)
{
#if defined(__F16C__)
	for (unsigned i = 0; i < n; i += 8)
		_mm_storeu_si128((void *)(h + i),
				 _mm256_cvtps_ph(_mm256_loadu_ps(t + i),
						 _MM_FROUND_TO_NEAREST_INT));
#else
	for (unsigned i = 0; i < n; i++)
		h[i] = f32_to_f16(t[i]);
#endif
}

static inline void bf16_in(f32 *t, const u16 *h, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		t[i] = bf16_to_f32(h[i]);
}

static inline void bf16_out(u16 *h, const f32 *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		h[i] = f32_to_bf16(t[i]);
}

#endif
