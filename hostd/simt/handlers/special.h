/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential functions that f32 and the half formats share. */
#ifndef WEFT_SIMT_SPECIAL_H
#define WEFT_SIMT_SPECIAL_H

#include "simt/handlers/float.h"

/* Adding and subtracting this rounds to an integer, which then is in the low bits. */
#define ROUNDER 6755399441055744.0 /* 1.5 * 2^52 */

static inline f64 exp2_core(f64 x)
{
	f64 t, n, f, p;

	x = x < -1000 ? -1000 : x > 1000 ? 1000 : x; /* NaN passes */
	t = x + ROUNDER;
	n = t - ROUNDER;
	f = (x - n) * 0.693147180559945309;
	p = 1 +
	    f * (1 + f * (1.0 / 2 +
			  f * (1.0 / 6 +
			       f * (1.0 / 24 +
				    f * (1.0 / 120 +
					 f * (1.0 / 720 +
					      f * (1.0 / 5040 + f * (1.0 / 40320))))))));
	return f64_of(f64_bits(p) + (f64_bits(t) << 52));
}

static inline f32 ex2_f32(f32 a)
{
	f64 v = exp2_core((f64)a);

	return canon(a != a ? a : (f32)v);
}

static inline f32 tanh_f32(f32 a)
{
	f64 x = __builtin_fabs((f64)a);
	f64 e = exp2_core((x > 50 ? 50 : x) * 2.88539008177792681);
	f64 v = x < 0x1p-7 ? x - x * x * x * (1.0 / 3) : 1 - 2 / (e + 1);

	return canon(a != a ? a : (f32)__builtin_copysign(v, (f64)a));
}

#endif
