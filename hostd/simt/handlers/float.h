/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point as PTX defines it, on top of the host's: canonical NaNs, flushed
 * subnormals, saturation, directed rounding, minimum and maximum.
 */
#ifndef WEFT_SIMT_FLOAT_H
#define WEFT_SIMT_FLOAT_H

#include <math.h>

#include "simt/handlers/row.h"

/* op->y of the handlers that take every mode ("add.x.f32"). */
#define FX_ROUND 3u /* enum fx_round */
#define FX_FTZ   (1u << 2)
#define FX_SAT   (1u << 3) /* to [0, 1], NaN to 0 */
#define FX_RELU  (1u << 4) /* negative and -0 to 0, NaN stays */
#define FX_NAN   (1u << 5) /* min, max: NaN in, NaN out */
#define FX_XSIGN (1u << 6) /* min, max: sign is the product of signs */
#define FX_ABS   (1u << 7) /* min, max: of magnitudes */

enum fx_round {
	FX_RN,
	FX_RZ,
	FX_RM,
	FX_RP
};

#define F32_NAN 0x7fffffffu

static inline u32 f32_bits(f32 v)
{
	u32 b;

	memcpy(&b, &v, sizeof(b));
	return b;
}

static inline f32 f32_of(u32 b)
{
	f32 v;

	memcpy(&v, &b, sizeof(v));
	return v;
}

static inline u64 f64_bits(f64 v)
{
	u64 b;

	memcpy(&b, &v, sizeof(b));
	return b;
}

static inline f64 f64_of(u64 b)
{
	f64 v;

	memcpy(&v, &b, sizeof(v));
	return v;
}

/* Every NaN of f32 becomes the one that the hardware produces. */
static inline f32 canon(f32 v)
{
	return v != v ? f32_of(F32_NAN) : v;
}

/* Subnormals become zeroes of the same sign. */
static inline f32 ftz(f32 v)
{
	u32 b = f32_bits(v);

	return f32_of((b & 0x7f800000) ? b : b & 0x80000000);
}

static inline f32 sat_f32(f32 v)
{
	v = v > 0 ? v : 0; /* NaN and -0 too */
	return v < 1 ? v : 1;
}

static inline f32 min_f32(f32 a, f32 b)
{
	f32 eq = f32_of(f32_bits(a) | f32_bits(b));
	f32 num = a != a ? b : a;

	return canon(a < b ? a : a > b ? b : a == b ? eq : num);
}

static inline f32 max_f32(f32 a, f32 b)
{
	f32 eq = f32_of(f32_bits(a) & f32_bits(b));
	f32 num = a != a ? b : a;

	return canon(a > b ? a : a < b ? b : a == b ? eq : num);
}

static inline f64 min_f64(f64 a, f64 b)
{
	f64 eq = f64_of(f64_bits(a) | f64_bits(b));
	f64 num = a != a ? b : a;

	return a < b ? a : a > b ? b : a == b ? eq : num;
}

static inline f64 max_f64(f64 a, f64 b)
{
	f64 eq = f64_of(f64_bits(a) & f64_bits(b));
	f64 num = a != a ? b : a;

	return a > b ? a : a < b ? b : a == b ? eq : num;
}

/*
 * The rounding direction of the host for the arithmetic between the two calls. Values
 * must be in memory before and after, so that none of it moves across.
 */
static inline unsigned round_enter(unsigned mode)
{
#if defined(__x86_64__)
	unsigned old = __builtin_ia32_stmxcsr();
	/* MXCSR: 0 nearest, 1 down, 2 up, 3 towards zero */
	static const uint8_t rc[4] = {0, 3, 1, 2};

	__asm__ volatile("" ::: "memory");
	__builtin_ia32_ldmxcsr((old & ~0x6000u) | (unsigned)rc[mode & 3] << 13);
	__asm__ volatile("" ::: "memory");
	return old;
#else
#error "directed rounding needs an implementation for this processor"
#endif
}

static inline void round_leave(unsigned old)
{
	__asm__ volatile("" ::: "memory");
	__builtin_ia32_ldmxcsr(old);
	__asm__ volatile("" ::: "memory");
}

/* a + b, rounded to odd, so that it can be rounded again. */
static inline f64 add_odd(f64 a, f64 b)
{
	f64 s = a + b, t = s - a;
	f64 err = (a - (s - t)) + (b - t);
	u64 bits = f64_bits(s);
	bool fix = (err > 0 || err < 0) && !(bits & 1) && s - s == 0;

	return f64_of(fix ? bits + ((err > 0) == (s > 0) ? 1 : -1ull) : bits);
}

static inline void mask_store16(u16 *d, const u16 *t, uint32_t m)
{
	if (likely(m == SIMT_FULL))
		memcpy(d, t, SIMT_WARP * sizeof(*d));
	else
		LANES d[i] = LANE_ON(m, i) ? t[i] : d[i];
}

static inline void mask_store32(u32 *d, const u32 *t, uint32_t m)
{
	if (likely(m == SIMT_FULL))
		memcpy(d, t, SIMT_WARP * sizeof(*d));
	else
		LANES d[i] = LANE_ON(m, i) ? t[i] : d[i];
}

static inline void mask_store64(u64 *d, const u64 *t, uint32_t m)
{
	if (likely(m == SIMT_FULL))
		memcpy(d, t, SIMT_WARP * sizeof(*d));
	else
		LANES d[i] = LANE_ON(m, i) ? t[i] : d[i];
}

/* Copies a row, with subnormals flushed if flags say so. */
static inline void row_f32(f32 *t, const f32 *a, unsigned flags)
{
	if (flags & FX_FTZ)
		LANES t[i] = ftz(a[i]);
	else
		memcpy(t, a, SIMT_WARP * sizeof(*t));
}

/* Applies the modifiers of results and stores the lanes in m. */
static inline void row_f32_out(f32 *d, f32 *t, unsigned flags, uint32_t m)
{
	if (flags & FX_FTZ)
		LANES t[i] = ftz(t[i]);
	if (flags & FX_RELU)
		LANES t[i] = t[i] <= 0 ? 0 : t[i];
	if (flags & FX_SAT)
		LANES t[i] = sat_f32(t[i]);
	LANES
	{
		f32 v = canon(t[i]);

		d[i] = LANE_ON(m, i) ? v : d[i];
	}
}

static inline void row_f64_out(f64 *d, const f64 *t, uint32_t m)
{
	LANES d[i] = LANE_ON(m, i) ? t[i] : d[i];
}

#endif
