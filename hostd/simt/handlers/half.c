/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16, bf16 and their pairs. Values are widened to f32, where one operation on them has
 * more than twice the digits and rounding twice does no harm; fma goes through f64.
 * Modifiers come in op->y.
 */
#include "simt/handlers/half.h"
#include "simt/handlers/special.h"

static inline f32 ftz_f16(f32 v)
{
	return __builtin_fabsf(v) < 0x1p-14f ? __builtin_copysignf(0, v) : v;
}

/* bf16 has the exponents of f32 */
#define ftz_bf16 ftz

#define HALF_IO(T)                                                                       \
	static inline void T##_load(f32 *t, const u16 *h, unsigned n, unsigned flags)    \
	{                                                                                \
		T##_in(t, h, n);                                                         \
		if (flags & FX_FTZ)                                                      \
			for (unsigned i = 0; i < n; i++)                                 \
				t[i] = ftz_##T(t[i]);                                    \
	}                                                                                \
                                                                                         \
	static inline void T##_store(void *d, f32 *t, unsigned n, unsigned flags,        \
				     uint32_t m)                                         \
	{                                                                                \
		u16 h[2 * SIMT_WARP];                                                    \
                                                                                         \
		if (flags & FX_RELU)                                                     \
			for (unsigned i = 0; i < n; i++)                                 \
				t[i] = t[i] <= 0 ? 0 : t[i];                             \
		if (flags & FX_SAT)                                                      \
			for (unsigned i = 0; i < n; i++)                                 \
				t[i] = sat_f32(t[i]);                                    \
		/* what would be subnormal after rounding with any exponent */           \
		if (flags & FX_FTZ)                                                      \
			for (unsigned i = 0; i < n; i++)                                 \
				t[i] = __builtin_fabsf(t[i]) < T##_TINY                  \
					       ? __builtin_copysignf(0, t[i])            \
					       : t[i];                                   \
		for (unsigned i = 0; i < n; i++)                                         \
			t[i] = canon(t[i]);                                              \
		T##_out(h, t, n);                                                        \
		if (n == SIMT_WARP)                                                      \
			mask_store16(d, h, m);                                           \
		else                                                                     \
			mask_store32(d, (const u32 *)(const void *)h, m);                \
	}

#define f16_TINY  (0x1p-14f - 0x1p-26f)
#define bf16_TINY (0x1p-126f - 0x1p-135f)
HALF_IO(f16)
HALF_IO(bf16)

static inline f32 minmax(f32 x, f32 y, const struct simt_op *op)
{
	u32 sign = (f32_bits(x) ^ f32_bits(y)) & 0x80000000;
	f32 v;

	x = op->y & FX_ABS ? __builtin_fabsf(x) : x;
	y = op->y & FX_ABS ? __builtin_fabsf(y) : y;
	v = op->x ? max_f32(x, y) : min_f32(x, y);
	if ((op->y & FX_NAN) && (x != x || y != y))
		return f32_of(F32_NAN);
	return op->y & FX_XSIGN ? f32_of((f32_bits(v) & 0x7fffffff) | sign) : v;
}

#define HALF1(T, S, N, name, expr)                                                       \
	static SIMT_HANDLER(name##_##T##S)                                               \
	{                                                                                \
		f32 pa[N], t[N];                                                         \
                                                                                         \
		T##_load(pa, SRC(u16, op->a), N, op->y);                                 \
		for (unsigned i = 0; i < N; i++) {                                       \
			f32 a = pa[i];                                                   \
			t[i] = (expr);                                                   \
		}                                                                        \
		T##_store(DST(u16, op->d), t, N, op->y, m);                              \
		return op + 1;                                                           \
	}

#define HALF2(T, S, N, name, expr)                                                       \
	static SIMT_HANDLER(name##_##T##S)                                               \
	{                                                                                \
		f32 pa[N], pb[N], t[N];                                                  \
                                                                                         \
		T##_load(pa, SRC(u16, op->a), N, op->y);                                 \
		T##_load(pb, SRC(u16, op->b), N, op->y);                                 \
		for (unsigned i = 0; i < N; i++) {                                       \
			f32 a = pa[i], b = pb[i];                                        \
			t[i] = (expr);                                                   \
		}                                                                        \
		T##_store(DST(u16, op->d), t, N, op->y, m);                              \
		return op + 1;                                                           \
	}

/* fma, and min and max of three */
#define HALF3(T, S, N, name, expr)                                                       \
	static SIMT_HANDLER(name##_##T##S)                                               \
	{                                                                                \
		f32 pa[N], pb[N], pc[N], t[N];                                           \
                                                                                         \
		T##_load(pa, SRC(u16, op->a), N, op->y);                                 \
		T##_load(pb, SRC(u16, op->b), N, op->y);                                 \
		T##_load(pc, SRC(u16, op->c), N, op->y);                                 \
		for (unsigned i = 0; i < N; i++) {                                       \
			f32 a = pa[i], b = pb[i], c = pc[i];                             \
			t[i] = (expr);                                                   \
		}                                                                        \
		T##_store(DST(u16, op->d), t, N, op->y, m);                              \
		return op + 1;                                                           \
	}

#define FORMS(X, T, name, expr) X(T, , SIMT_WARP, name, expr) X(T, x2, 64, name, expr)
#define BOTH(X, name, expr)                                                              \
	FORMS(X, f16, name, expr)                                                        \
	FORMS(X, bf16, name, expr)

#define HALF_OPS(X1, X2, X3)                                                             \
	BOTH(X2, add, a + b)                                                             \
	BOTH(X2, sub, a - b)                                                             \
	BOTH(X2, mul, a *b)                                                              \
	BOTH(X3, fma, f64_to_f32_odd(add_odd((f64)a *b, c)))                             \
	BOTH(X2, minmax, minmax(a, b, op))                                               \
	BOTH(X3, minmax3, minmax(minmax(a, b, op), c, op))                               \
	BOTH(X1, ex2, ex2_f32(a))                                                        \
	BOTH(X1, tanh, tanh_f32(a))                                                      \
	BOTH(X1, absx, __builtin_fabsf(a))                                               \
	BOTH(X1, negx, -a)

HALF_OPS(HALF1, HALF2, HALF3)

#define HALF_ENTRY(T, S, N, name, expr) {#name "." #T #S, name##_##T##S},

#define LIST(R1, R2, R3)                                                                 \
	R1("abs.f16", abs_half, u16, u16, a & 0x7fff)                                    \
	R1("neg.f16", neg_half, u16, u16, a ^ 0x8000)                                    \
	R1("abs.f16x2", abs_half2, u32, u32, a & 0x7fff7fff)                             \
	R1("neg.f16x2", neg_half2, u32, u32, a ^ 0x80008000)

SIMT_TABLE(simt_h_half, LIST)

const struct simt_handler SIMT_ISA_NAME(simt_h_half2)[] = {
	HALF_OPS(HALF_ENTRY, HALF_ENTRY, HALF_ENTRY){NULL, NULL},
};
