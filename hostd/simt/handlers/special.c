/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sin, cos, ex2, lg2 and tanh of f32, computed in f64 by short polynomials. Errors stay
 * below one unit in the last place of f32, far inside what PTX allows (2^-20.5 absolute
 * for sin and cos, 2^-22 for ex2 and lg2, 2^-11 for tanh).
 */
#include "simt/handlers/special.h"

static inline f32 lg2_f32(f32 a)
{
	u64 b = f64_bits((f64)a);
	/* exponent so that the mantissa lies in [sqrt(1/2), sqrt(2)) */
	u64 e = (b - 0x3fe6a09e667f3bcdull) >> 52;
	f64 m = f64_of(b - (e << 52));
	f64 n = f64_of(0x4330000000000000ull | ((e + 0x400) & 0x7ff)) -
		(4503599627370496.0 + 0x400); /* e is small and signed */
	f64 s = (m - 1) / (m + 1), q = s * s;
	f64 p = 1 + q * (1.0 / 3 +
			 q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q * (1.0 / 11)))));
	f64 v = n + 2.88539008177792681 * s * p;

	v = a == 0 ? -HUGE_VAL : v;
	v = a < 0 || a != a ? NAN : v;
	v = a == (f32)HUGE_VAL ? HUGE_VAL : v;
	return canon((f32)v);
}

/* sin(x + quarter * pi/2); good for |x| < 2^30 */
static inline f32 sin_core(f32 a, u64 quarter)
{
	f64 x = (f64)a;
	f64 t = x * 0.636619772367581343 + ROUNDER;
	f64 n = t - ROUNDER;
	f64 r = (x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
	u64 k = f64_bits(t) + quarter;
	f64 q = r * r;
	f64 s = r + r * q *
			    (-1.0 / 6 +
			     q * (1.0 / 120 +
				  q * (-1.0 / 5040 + q * (1.0 / 362880 - q / 39916800))));
	f64 c = 1 +
		q * (-1.0 / 2 +
		     q * (1.0 / 24 + q * (-1.0 / 720 + q * (1.0 / 40320 - q / 3628800))));
	f64 v = k & 1 ? c : s;

	return (f32)f64_of(f64_bits(v) ^ (k & 2) << 62);
}

static inline void sin_row(struct simt_warp *w, const struct simt_op *op, uint32_t m,
			   uint8_t *r, u64 quarter)
{
	const f32 *pa = SRC(f32, op->a);
	f32 a[SIMT_WARP], t[SIMT_WARP];
	uint32_t big;

	row_f32(a, pa, op->y);
	LANES t[i] = a[i] == 0 && !quarter ? a[i] : sin_core(a[i], quarter);
	big = LANE_BITS(!(__builtin_fabsf(a[i]) < 0x1p30f)) & m;
	FOR_LANES(big, k)
	t[k] = (f32)(quarter ? cos((f64)a[k]) : sin((f64)a[k]));
	row_f32_out(DST(f32, op->d), t, op->y, m);
}

static SIMT_HANDLER(sin_f32)
{
	sin_row(w, op, m, r, 0);
	return op + 1;
}

static SIMT_HANDLER(cos_f32)
{
	sin_row(w, op, m, r, 1);
	return op + 1;
}

#define LIST(R1, R2, R3)                                                                 \
	R1("ex2.f32", ex2_f32_, f32, f32, ex2_f32(a))                                    \
	R1("ex2.ftz.f32", ex2_ftz_f32, f32, f32, ftz(ex2_f32(ftz(a))))                   \
	R1("lg2.f32", lg2_f32_, f32, f32, lg2_f32(a))                                    \
	R1("lg2.ftz.f32", lg2_ftz_f32, f32, f32, lg2_f32(ftz(a)))                        \
	R1("tanh.f32", tanh_f32_, f32, f32, tanh_f32(a))

SIMT_TABLE(simt_h_special, LIST)

const struct simt_handler SIMT_ISA_NAME(simt_h_trig)[] = {
	{"sin.f32", sin_f32},
	{"cos.f32", cos_f32},
	{NULL, NULL},
};
