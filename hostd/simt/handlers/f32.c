/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f32 and f64 arithmetic. The common forms (round to nearest, no saturation) have
 * handlers of their own; "x" handlers take every mode from op->y.
 */
#include "simt/handlers/float.h"

#define FMAF(a, b, c) __builtin_fmaf(a, b, c)
#define FMA(a, b, c)  __builtin_fma(a, b, c)

static inline f32 rsqrt_f32(f32 a)
{
	return (f32)(1.0 / __builtin_sqrt((f64)a));
}

/* The coarse f64 reciprocals deliver the upper half of the result only. */
static inline f64 coarse(f64 v)
{
	return v != v ? f64_of(0x7fffffff00000000ull)
		      : f64_of(f64_bits(v) & 0xffffffff00000000ull);
}

static inline f64 ftz64(f64 v)
{
	u64 b = f64_bits(v);

	return f64_of((b & 0x7ff0000000000000ull) ? b : b & 0x8000000000000000ull);
}

#define TESTP_LIST(X)                                                                    \
	X(finite, (b & inf) != inf)                                                      \
	X(infinite, (b & ~sign) == inf)                                                  \
	X(number, (b & ~sign) <= inf)                                                    \
	X(notanumber, (b & ~sign) > inf)                                                 \
	X(normal, (b & inf) != inf && ((b & inf) != 0 || (b & ~sign) == 0))              \
	X(subnormal, (b & inf) == 0 && (b & ~sign) != 0)

#define TESTP(name, expr)                                                                \
	static SIMT_HANDLER(testp_##name##_f32)                                          \
	{                                                                                \
		const u32 inf = 0x7f800000u, sign = 0x80000000u;                         \
		const u32 *a = SRC(u32, op->a);                                          \
		uint32_t bits = LANE_BITS(({                                             \
			u32 b = a[i];                                                    \
			(void)sign;                                                      \
			(expr);                                                          \
		}));                                                                     \
                                                                                         \
		pred_store(DST(uint32_t, op->d), bits, m);                               \
		return op + 1;                                                           \
	}                                                                                \
	static SIMT_HANDLER(testp_##name##_f64)                                          \
	{                                                                                \
		const u64 inf = 0x7ff0000000000000ull, sign = 0x8000000000000000ull;     \
		const u64 *a = SRC(u64, op->a);                                          \
		uint32_t bits = LANE_BITS(({                                             \
			u64 b = a[i];                                                    \
			(void)sign;                                                      \
			(expr);                                                          \
		}));                                                                     \
                                                                                         \
		pred_store(DST(uint32_t, op->d), bits, m);                               \
		return op + 1;                                                           \
	}
TESTP_LIST(TESTP)

/* Handlers that take every mode. */
#define X1(name, expr)                                                                   \
	static SIMT_HANDLER(name##_x_f32)                                                \
	{                                                                                \
		f32 a[SIMT_WARP], t[SIMT_WARP];                                          \
		unsigned old;                                                            \
                                                                                         \
		row_f32(a, SRC(f32, op->a), op->y);                                      \
		old = round_enter(op->y);                                                \
		LANES t[i] = expr(a[i]);                                                 \
		round_leave(old);                                                        \
		row_f32_out(DST(f32, op->d), t, op->y, m);                               \
		return op + 1;                                                           \
	}                                                                                \
	static SIMT_HANDLER(name##_x_f64)                                                \
	{                                                                                \
		const f64 *a = SRC(f64, op->a);                                          \
		f64 t[SIMT_WARP];                                                        \
		unsigned old = round_enter(op->y);                                       \
                                                                                         \
		LANES t[i] = expr##64(a[i]);                                             \
		round_leave(old);                                                        \
		row_f64_out(DST(f64, op->d), t, m);                                      \
		return op + 1;                                                           \
	}

#define X2(name, oper)                                                                   \
	static SIMT_HANDLER(name##_x_f32)                                                \
	{                                                                                \
		f32 a[SIMT_WARP], b[SIMT_WARP], t[SIMT_WARP];                            \
		unsigned old;                                                            \
                                                                                         \
		row_f32(a, SRC(f32, op->a), op->y);                                      \
		row_f32(b, SRC(f32, op->b), op->y);                                      \
		old = round_enter(op->y);                                                \
		LANES t[i] = a[i] oper b[i];                                             \
		round_leave(old);                                                        \
		row_f32_out(DST(f32, op->d), t, op->y, m);                               \
		return op + 1;                                                           \
	}                                                                                \
	static SIMT_HANDLER(name##_x_f64)                                                \
	{                                                                                \
		const f64 *a = SRC(f64, op->a), *b = SRC(f64, op->b);                    \
		f64 t[SIMT_WARP];                                                        \
		unsigned old = round_enter(op->y);                                       \
                                                                                         \
		LANES t[i] = a[i] oper b[i];                                             \
		round_leave(old);                                                        \
		row_f64_out(DST(f64, op->d), t, m);                                      \
		return op + 1;                                                           \
	}

#define RCP(a)    (1.0f / (a))
#define RCP64(a)  (1.0 / (a))
#define SQRT(a)   __builtin_sqrtf(a)
#define SQRT64(a) __builtin_sqrt(a)
X1(rcp, RCP)
X1(sqrt, SQRT)
X2(add, +)
X2(sub, -)
X2(mul, *)
X2(div, /)

static SIMT_HANDLER(fma_x_f32)
{
	f32 a[SIMT_WARP], b[SIMT_WARP], c[SIMT_WARP], t[SIMT_WARP];
	unsigned old;

	row_f32(a, SRC(f32, op->a), op->y);
	row_f32(b, SRC(f32, op->b), op->y);
	row_f32(c, SRC(f32, op->c), op->y);
	old = round_enter(op->y);
	LANES t[i] = FMAF(a[i], b[i], c[i]);
	round_leave(old);
	row_f32_out(DST(f32, op->d), t, op->y, m);
	return op + 1;
}

static SIMT_HANDLER(fma_x_f64)
{
	const f64 *a = SRC(f64, op->a), *b = SRC(f64, op->b), *c = SRC(f64, op->c);
	f64 t[SIMT_WARP];
	unsigned old = round_enter(op->y);

	LANES t[i] = FMA(a[i], b[i], c[i]);
	round_leave(old);
	row_f64_out(DST(f64, op->d), t, m);
	return op + 1;
}

/*
 * Results are flushed when they would be subnormal after rounding to 24 bits with any
 * exponent. That differs from flushing what the host made of them in one case: it made
 * the smallest normal number of something that is not within half a bit of it.
 */
#define SMALLEST 0x00800000u

static bool row_has_smallest(const f32 *t)
{
	u32 any = 0;

	for (unsigned i = 0; i < SIMT_WARP; i++)
		any |= (f32_bits(t[i]) & 0x7fffffff) == SMALLEST;
	return any;
}

static void flush_smallest(f32 *t, unsigned i, f64 exact)
{
	if ((f32_bits(t[i]) & 0x7fffffff) == SMALLEST &&
	    __builtin_fabs(exact) < 0x1p-126 - 0x1p-151)
		t[i] = __builtin_copysignf(0, t[i]);
}

static SIMT_HANDLER(mul_ftz_f32)
{
	const f32 *a = SRC(f32, op->a), *b = SRC(f32, op->b);
	f32 t[SIMT_WARP];

	LANES t[i] = canon(ftz(ftz(a[i]) * ftz(b[i])));
	if (unlikely(row_has_smallest(t)))
		for (unsigned i = 0; i < SIMT_WARP; i++)
			flush_smallest(t, i, (f64)ftz(a[i]) * ftz(b[i]));
	mask_store32(DST(u32, op->d), (const u32 *)(const void *)t, m);
	return op + 1;
}

static SIMT_HANDLER(fma_ftz_f32)
{
	const f32 *a = SRC(f32, op->a), *b = SRC(f32, op->b), *c = SRC(f32, op->c);
	f32 t[SIMT_WARP];

	LANES t[i] = canon(ftz(FMAF(ftz(a[i]), ftz(b[i]), ftz(c[i]))));
	if (unlikely(row_has_smallest(t)))
		for (unsigned i = 0; i < SIMT_WARP; i++)
			flush_smallest(t, i,
				       add_odd((f64)ftz(a[i]) * ftz(b[i]), ftz(c[i])));
	mask_store32(DST(u32, op->d), (const u32 *)(const void *)t, m);
	return op + 1;
}

/* min and max with .NaN, .xorsign.abs and .ftz; op->x = 1 for max, c < 0: two sources */
static SIMT_HANDLER(minmax_x_f32)
{
	f32 a[SIMT_WARP], b[SIMT_WARP], t[SIMT_WARP];
	const int32_t more[2] = {op->b, op->c};

	row_f32(t, SRC(f32, op->a), op->y);
	for (unsigned k = 0; k < op->n; k++) {
		memcpy(a, t, sizeof(a));
		row_f32(b, SRC(f32, more[k]), op->y);
		LANES
		{
			u32 sign = (f32_bits(a[i]) ^ f32_bits(b[i])) & 0x80000000;
			f32 x = op->y & FX_ABS ? __builtin_fabsf(a[i]) : a[i];
			f32 y = op->y & FX_ABS ? __builtin_fabsf(b[i]) : b[i];
			f32 v = op->x ? max_f32(x, y) : min_f32(x, y);

			if ((op->y & FX_NAN) && (x != x || y != y))
				v = f32_of(F32_NAN);
			else if (op->y & FX_XSIGN)
				v = f32_of((f32_bits(v) & 0x7fffffff) | sign);
			t[i] = v;
		}
	}
	row_f32_out(DST(f32, op->d), t, op->y & FX_FTZ, m);
	return op + 1;
}

#define LIST(R1, R2, R3)                                                                 \
	R2("add.f32", add_f32, f32, f32, f32, canon(a + b))                              \
	R2("sub.f32", sub_f32, f32, f32, f32, canon(a - b))                              \
	R2("mul.f32", mul_f32, f32, f32, f32, canon(a *b))                               \
	R2("div.f32", div_f32, f32, f32, f32, canon(a / b))                              \
	R3("fma.f32", fma_f32, f32, f32, f32, f32, canon(FMAF(a, b, c)))                 \
	R2("add.ftz.f32", add_ftz_f32, f32, f32, f32, canon(ftz(ftz(a) + ftz(b))))       \
	R2("sub.ftz.f32", sub_ftz_f32, f32, f32, f32, canon(ftz(ftz(a) - ftz(b))))       \
	R2("div.ftz.f32", div_ftz_f32, f32, f32, f32, canon(ftz(ftz(a) / ftz(b))))       \
	R1("rcp.f32", rcp_f32, f32, f32, canon(1.0f / a))                                \
	R1("rcp.ftz.f32", rcp_ftz_f32, f32, f32, canon(ftz(1.0f / ftz(a))))              \
	R1("sqrt.f32", sqrt_f32, f32, f32, canon(__builtin_sqrtf(a)))                    \
	R1("sqrt.ftz.f32", sqrt_ftz_f32, f32, f32, canon(__builtin_sqrtf(ftz(a))))       \
	R1("rsqrt.f32", rsqrt_f32_, f32, f32, canon(rsqrt_f32(a)))                       \
	R1("rsqrt.ftz.f32", rsqrt_ftz_f32, f32, f32, canon(ftz(rsqrt_f32(ftz(a)))))      \
	R1("abs.f32", abs_f32, u32, u32, a & 0x7fffffff)                                 \
	R1("abs.ftz.f32", abs_ftz_f32, f32, f32, __builtin_fabsf(ftz(a)))                \
	R1("neg.f32", neg_f32, u32, u32, a ^ 0x80000000)                                 \
	R1("neg.ftz.f32", neg_ftz_f32, f32, f32, -ftz(a))                                \
	R2("min.f32", min_f32_, f32, f32, f32, min_f32(a, b))                            \
	R2("max.f32", max_f32_, f32, f32, f32, max_f32(a, b))                            \
	R2("min.ftz.f32", min_ftz_f32, f32, f32, f32, min_f32(ftz(a), ftz(b)))           \
	R2("max.ftz.f32", max_ftz_f32, f32, f32, f32, max_f32(ftz(a), ftz(b)))           \
	R2("copysign.f32", copysign_f32, u32, u32, u32,                                  \
	   (b & 0x7fffffff) | (a & 0x80000000))                                          \
	R2("add.f64", add_f64, f64, f64, f64, a + b)                                     \
	R2("sub.f64", sub_f64, f64, f64, f64, a - b)                                     \
	R2("mul.f64", mul_f64, f64, f64, f64, a *b)                                      \
	R2("div.f64", div_f64, f64, f64, f64, a / b)                                     \
	R3("fma.f64", fma_f64, f64, f64, f64, f64, FMA(a, b, c))                         \
	R1("rcp.f64", rcp_f64, f64, f64, 1.0 / a)                                        \
	R1("sqrt.f64", sqrt_f64, f64, f64, __builtin_sqrt(a))                            \
	R1("rcp.approx.f64", rcpa_f64, f64, f64, coarse(ftz64(1.0 / ftz64(a))))          \
	R1("rsqrt.approx.f64", rsqrta_f64, f64, f64,                                     \
	   coarse(1.0 / __builtin_sqrt(ftz64(a))))                                       \
	R1("rsqrt.f64", rsqrt_f64, f64, f64, 1.0 / __builtin_sqrt(a))                    \
	R1("abs.f64", abs_f64, u64, u64, a & 0x7fffffffffffffffull)                      \
	R1("neg.f64", neg_f64, u64, u64, a ^ 0x8000000000000000ull)                      \
	R2("min.f64", min_f64_, f64, f64, f64, min_f64(a, b))                            \
	R2("max.f64", max_f64_, f64, f64, f64, max_f64(a, b))                            \
	R2("copysign.f64", copysign_f64, u64, u64, u64,                                  \
	   (b & 0x7fffffffffffffffull) | (a & 0x8000000000000000ull))

SIMT_TABLE(simt_h_f32, LIST)

#define TESTP_ENTRY(name, expr)                                                          \
	{"testp." #name ".f32", testp_##name##_f32},                                     \
		{"testp." #name ".f64", testp_##name##_f64},

const struct simt_handler SIMT_ISA_NAME(simt_h_fx)[] = {
	TESTP_LIST(TESTP_ENTRY){"add.x.f32", add_x_f32},
	{"add.x.f64", add_x_f64},
	{"sub.x.f32", sub_x_f32},
	{"sub.x.f64", sub_x_f64},
	{"mul.x.f32", mul_x_f32},
	{"mul.x.f64", mul_x_f64},
	{"div.x.f32", div_x_f32},
	{"div.x.f64", div_x_f64},
	{"fma.x.f32", fma_x_f32},
	{"fma.x.f64", fma_x_f64},
	{"rcp.x.f32", rcp_x_f32},
	{"rcp.x.f64", rcp_x_f64},
	{"sqrt.x.f32", sqrt_x_f32},
	{"sqrt.x.f64", sqrt_x_f64},
	{"minmax.x.f32", minmax_x_f32},
	{"mul.ftz.f32", mul_ftz_f32},
	{"fma.ftz.f32", fma_ftz_f32},
	{NULL, NULL},
};
