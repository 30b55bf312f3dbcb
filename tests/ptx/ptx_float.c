/* SPDX-License-Identifier: Apache-2.0 */
/* f32 and f64 arithmetic against quad precision, rounded once by integer code. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/macros.h"
#include "check.h"

#define F(v) from_f32(v)
#define D(v) from_f64(v)

/* The product of two f64 has 106 digits: exact. Sums are rounded to odd first. */
#define ADD32(m)  to_f32(add_q(F(a), F(b)), m)
#define SUB32(m)  to_f32(add_q(F(a), -F(b)), m)
#define MUL32(m)  to_f32(F(a) * F(b), m)
#define FMA32(m)  to_f32(add_q(F(a) * F(b), F(c)), m)
#define DIV32(m)  to_f32(F(a) / F(b), m)
#define RCP32(m)  to_f32(1 / F(a), m)
#define SQRT32(m) to_f32(sqrt_q(F(a)), m)
#define ADD64(m)  to_f64(zero_sum(add_q(D(a), D(b)), D(a), D(b), m), m)
#define SUB64(m)  to_f64(zero_sum(add_q(D(a), -D(b)), D(a), -D(b), m), m)
#define MUL64(m)  to_f64(D(a) * D(b), m)
#define FMA64(m)  to_f64(zero_sum(add_q(D(a) * D(b), D(c)), D(a) * D(b), D(c), m), m)
#define DIV64(m)  to_f64(D(a) / D(b), m)
#define RCP64(m)  to_f64(1 / D(a), m)
#define SQRT64(m) to_f64(sqrt_q(D(a)), m)

/* x + -x is +0, but -0 when rounding down. */
static quad zero_sum(quad sum, quad x, quad y, enum round m)
{
	if (sum == 0 && x != 0 && m == RM)
		return -(quad)0.0;
	if (sum == 0 && x == 0 && y == 0 && m == RM &&
	    __builtin_signbit(x) != __builtin_signbit(y))
		return -(quad)0.0;
	return sum;
}

static quad sat(quad v)
{
	return v > 0 ? (v < 1 ? v : 1) : 0; /* NaN to 0 */
}

/* A result is flushed if it were subnormal after rounding with any exponent (H200). */
static quad tiny(quad v)
{
	const quad least = (quad)0x1p-126 - (quad)0x1p-151;

	return v < least && v > -least ? (__builtin_signbit(v) ? -(quad)0.0 : (quad)0.0)
				       : v;
}

static quad min_q(quad a, quad b)
{
	if (nan_q(a))
		return b;
	if (nan_q(b))
		return a;
	if (a == b)
		return __builtin_signbit(a) ? a : b;
	return a < b ? a : b;
}

static quad max_q(quad a, quad b)
{
	if (nan_q(a))
		return b;
	if (nan_q(b))
		return a;
	if (a == b)
		return __builtin_signbit(a) ? b : a;
	return a > b ? a : b;
}

static quad mag(quad v)
{
	return __builtin_signbit(v) ? -v : v;
}

static u64 xorsign(u64 v, u64 a, u64 b)
{
	return (v & 0x7fffffff) | ((a ^ b) & 0x80000000);
}

#define Z32(m, op)                                                                       \
	((m) == RM ? to_f32(zero_sum(add_q(F(a), op F(b)), F(a), op F(b), m), m)         \
		   : to_f32(add_q(F(a), op F(b)), m))

#define ARITH32(X)                                                                       \
	X(add_rn, "add.f32 %d, %a, %b;", "fff-", ADD32(RN))                              \
	X(add_rz, "add.rz.f32 %d, %a, %b;", "fff-", ADD32(RZ))                           \
	X(add_rm, "add.rm.f32 %d, %a, %b;", "fff-", Z32(RM, +))                          \
	X(add_rp, "add.rp.f32 %d, %a, %b;", "fff-", ADD32(RP))                           \
	X(add_sat, "add.sat.f32 %d, %a, %b;", "fff-",                                    \
	  to_f32(sat(add_q(F(a), F(b))), RN))                                            \
	X(add_ftz, "add.ftz.f32 %d, %a, %b;", "fff-",                                    \
	  flush(to_f32(add_q(F(flush(a)), F(flush(b))), RN)))                            \
	X(add_rzf, "add.rz.ftz.sat.f32 %d, %a, %b;", "fff-",                             \
	  flush(to_f32(sat(add_q(F(flush(a)), F(flush(b)))), RZ)))                       \
	X(sub_rn, "sub.rn.f32 %d, %a, %b;", "fff-", SUB32(RN))                           \
	X(sub_rp, "sub.rp.f32 %d, %a, %b;", "fff-", SUB32(RP))                           \
	X(sub_rm, "sub.rm.f32 %d, %a, %b;", "fff-", Z32(RM, -))                          \
	X(sub_ftz, "sub.ftz.f32 %d, %a, %b;", "fff-",                                    \
	  flush(to_f32(add_q(F(flush(a)), -F(flush(b))), RN)))                           \
	X(mul_rn, "mul.f32 %d, %a, %b;", "fff-", MUL32(RN))                              \
	X(mul_rz, "mul.rz.f32 %d, %a, %b;", "fff-", MUL32(RZ))                           \
	X(mul_rm, "mul.rm.f32 %d, %a, %b;", "fff-", MUL32(RM))                           \
	X(mul_rp, "mul.rp.f32 %d, %a, %b;", "fff-", MUL32(RP))                           \
	X(mul_sat, "mul.sat.f32 %d, %a, %b;", "fff-", to_f32(sat(F(a) * F(b)), RN))      \
	X(mul_ftz, "mul.ftz.f32 %d, %a, %b;", "fff-",                                    \
	  to_f32(tiny(F(flush(a)) * F(flush(b))), RN))                                   \
	X(fma_rn, "fma.rn.f32 %d, %a, %b, %c;", "ffff", FMA32(RN))                       \
	X(fma_rz, "fma.rz.f32 %d, %a, %b, %c;", "ffff", FMA32(RZ))                       \
	X(fma_rp, "fma.rp.f32 %d, %a, %b, %c;", "ffff", FMA32(RP))                       \
	X(fma_rm, "fma.rm.f32 %d, %a, %b, %c;", "ffff",                                  \
	  to_f32(zero_sum(add_q(F(a) * F(b), F(c)), F(a) * F(b), F(c), RM), RM))         \
	X(fma_sat, "fma.rn.sat.f32 %d, %a, %b, %c;", "ffff",                             \
	  to_f32(sat(add_q(F(a) * F(b), F(c))), RN))                                     \
	X(fma_ftz, "fma.rn.ftz.f32 %d, %a, %b, %c;", "ffff",                             \
	  to_f32(tiny(add_q(F(flush(a)) * F(flush(b)), F(flush(c)))), RN))               \
	X(mad_rn, "mad.rn.f32 %d, %a, %b, %c;", "ffff", FMA32(RN))                       \
	X(div_rn, "div.rn.f32 %d, %a, %b;", "fff-", DIV32(RN))                           \
	X(div_rz, "div.rz.f32 %d, %a, %b;", "fff-", DIV32(RZ))                           \
	X(div_rm, "div.rm.f32 %d, %a, %b;", "fff-", DIV32(RM))                           \
	X(div_rp, "div.rp.f32 %d, %a, %b;", "fff-", DIV32(RP))                           \
	X(div_ftz, "div.rn.ftz.f32 %d, %a, %b;", "fff-",                                 \
	  flush(to_f32(F(flush(a)) / F(flush(b)), RN)))                                  \
	X(rcp_rn, "rcp.rn.f32 %d, %a;", "ff--", RCP32(RN))                               \
	X(rcp_rp, "rcp.rp.f32 %d, %a;", "ff--", RCP32(RP))                               \
	X(rcp_ftz, "rcp.rn.ftz.f32 %d, %a;", "ff--", flush(to_f32(1 / F(flush(a)), RN))) \
	X(sqrt_rn, "sqrt.rn.f32 %d, %a;", "ff--", SQRT32(RN))                            \
	X(sqrt_rz, "sqrt.rz.f32 %d, %a;", "ff--", SQRT32(RZ))                            \
	X(sqrt_rp, "sqrt.rp.f32 %d, %a;", "ff--", SQRT32(RP))                            \
	X(abs_, "abs.f32 %d, %a;", "ff--", a & 0x7fffffff)                               \
	X(abs_ftz, "abs.ftz.f32 %d, %a;", "ff--", flush(a) & 0x7fffffff)                 \
	X(neg_, "neg.f32 %d, %a;", "ff--", a ^ 0x80000000)                               \
	X(neg_ftz, "neg.ftz.f32 %d, %a;", "ff--", flush(a) ^ 0x80000000)                 \
	X(min_, "min.f32 %d, %a, %b;", "fff-", to_f32(min_q(F(a), F(b)), RN))            \
	X(max_, "max.f32 %d, %a, %b;", "fff-", to_f32(max_q(F(a), F(b)), RN))            \
	X(min_ftz, "min.ftz.f32 %d, %a, %b;", "fff-",                                    \
	  to_f32(min_q(F(flush(a)), F(flush(b))), RN))                                   \
	X(max_nan, "max.NaN.f32 %d, %a, %b;", "fff-",                                    \
	  nan_q(F(a)) || nan_q(F(b)) ? 0x7fffffff : to_f32(max_q(F(a), F(b)), RN))       \
	X(min_xs, "min.xorsign.abs.f32 %d, %a, %b;", "fff-",                             \
	  xorsign(to_f32(min_q(mag(F(a)), mag(F(b))), RN), a, b))                        \
	X(copysign_, "copysign.f32 %d, %a, %b;", "fff-",                                 \
	  (b & 0x7fffffff) | (a & 0x80000000))                                           \
	X(imm, "fma.rn.f32 %d, %a, 0f40490FDB, 0fBF800000;", "ff--",                     \
	  to_f32(add_q(F(a) * F(0x40490fdb), -1), RN))

#define ARITH64(X)                                                                       \
	X(dadd_rn, "add.f64 %d, %a, %b;", "ddd-", ADD64(RN))                             \
	X(dadd_rz, "add.rz.f64 %d, %a, %b;", "ddd-", ADD64(RZ))                          \
	X(dadd_rm, "add.rm.f64 %d, %a, %b;", "ddd-", ADD64(RM))                          \
	X(dadd_rp, "add.rp.f64 %d, %a, %b;", "ddd-", ADD64(RP))                          \
	X(dsub_rn, "sub.f64 %d, %a, %b;", "ddd-", SUB64(RN))                             \
	X(dsub_rm, "sub.rm.f64 %d, %a, %b;", "ddd-", SUB64(RM))                          \
	X(dmul_rn, "mul.f64 %d, %a, %b;", "ddd-", MUL64(RN))                             \
	X(dmul_rz, "mul.rz.f64 %d, %a, %b;", "ddd-", MUL64(RZ))                          \
	X(dmul_rm, "mul.rm.f64 %d, %a, %b;", "ddd-", MUL64(RM))                          \
	X(dmul_rp, "mul.rp.f64 %d, %a, %b;", "ddd-", MUL64(RP))                          \
	X(dfma_rn, "fma.rn.f64 %d, %a, %b, %c;", "dddd", FMA64(RN))                      \
	X(dfma_rz, "fma.rz.f64 %d, %a, %b, %c;", "dddd", FMA64(RZ))                      \
	X(dfma_rm, "fma.rm.f64 %d, %a, %b, %c;", "dddd", FMA64(RM))                      \
	X(dfma_rp, "fma.rp.f64 %d, %a, %b, %c;", "dddd", FMA64(RP))                      \
	X(dmad_rn, "mad.rn.f64 %d, %a, %b, %c;", "dddd", FMA64(RN))                      \
	X(ddiv_rn, "div.rn.f64 %d, %a, %b;", "ddd-", DIV64(RN))                          \
	X(ddiv_rz, "div.rz.f64 %d, %a, %b;", "ddd-", DIV64(RZ))                          \
	X(ddiv_rp, "div.rp.f64 %d, %a, %b;", "ddd-", DIV64(RP))                          \
	X(drcp_rn, "rcp.rn.f64 %d, %a;", "dd--", RCP64(RN))                              \
	X(drcp_rm, "rcp.rm.f64 %d, %a;", "dd--", RCP64(RM))                              \
	X(dsqrt_rn, "sqrt.rn.f64 %d, %a;", "dd--", SQRT64(RN))                           \
	X(dsqrt_rm, "sqrt.rm.f64 %d, %a;", "dd--", SQRT64(RM))                           \
	X(dabs, "abs.f64 %d, %a;", "dd--", a & 0x7fffffffffffffffull)                    \
	X(dneg, "neg.f64 %d, %a;", "dd--", a ^ 0x8000000000000000ull)                    \
	X(dmin, "min.f64 %d, %a, %b;", "ddd-", to_f64(min_q(D(a), D(b)), RN))            \
	X(dmax, "max.f64 %d, %a, %b;", "ddd-", to_f64(max_q(D(a), D(b)), RN))            \
	X(dcopysign, "copysign.f64 %d, %a, %b;", "ddd-",                                 \
	  (b & 0x7fffffffffffffffull) | (a & 0x8000000000000000ull))

#define P(text)  "{ " text " selp.b32 %d, 1, 0, %p; }"
#define UNORD(x) (nan_q(x(a)) || nan_q(x(b)))
#define CMP1(X, op, sym, f)                                                              \
	X(op##_f32, P("setp." #op ".f32 %p, %a, %b;"), "iff-", F(a) sym F(b))            \
	X(op##_f64, P("setp." #op ".f64 %p, %a, %b;"), "idd-", D(a) sym D(b))            \
	X(op##_f16, P("setp." #op ".f16 %p, %a, %b;"), "ihh-",                           \
	  from_f16(a) sym from_f16(b))                                                   \
	X(op##_bf16, P("setp." #op ".bf16 %p, %a, %b;"), "ibb-",                         \
	  from_bf16(a) sym from_bf16(b))
#define CMPU(X, op, sym)                                                                 \
	X(op##u_f32, P("setp." #op "u.f32 %p, %a, %b;"), "iff-",                         \
	  UNORD(F) || F(a) sym F(b))                                                     \
	X(op##u_f64, P("setp." #op "u.f64 %p, %a, %b;"), "idd-",                         \
	  UNORD(D) || D(a) sym D(b))

#define COMPARE(X)                                                                       \
	CMP1(X, eq, ==, )                                                                \
	CMP1(X, lt, <, )                                                                 \
	CMP1(X, le, <=, )                                                                \
	CMP1(X, gt, >, )                                                                 \
	CMP1(X, ge, >=, )                                                                \
	X(ne_f32, P("setp.ne.f32 %p, %a, %b;"), "iff-", !UNORD(F) && F(a) != F(b))       \
	X(ne_f64, P("setp.ne.f64 %p, %a, %b;"), "idd-", !UNORD(D) && D(a) != D(b))       \
	CMPU(X, eq, ==)                                                                  \
	CMPU(X, ne, !=)                                                                  \
	CMPU(X, lt, <)                                                                   \
	CMPU(X, le, <=)                                                                  \
	CMPU(X, gt, >)                                                                   \
	CMPU(X, ge, >=)                                                                  \
	X(num_f32, P("setp.num.f32 %p, %a, %b;"), "iff-", !UNORD(F))                     \
	X(nan_f64, P("setp.nan.f64 %p, %a, %b;"), "idd-", UNORD(D))                      \
	X(lt_ftz, P("setp.lt.ftz.f32 %p, %a, %b;"), "iff-", F(flush(a)) < F(flush(b)))   \
	X(lt_and, P("setp.num.f32 %q, %c, %c; setp.lt.and.f32 %p, %a, %b, %q;"), "ifff", \
	  F(a) < F(b) && !nan_q(F(c)))                                                   \
	X(set_f, "set.ge.f32.f32 %d, %a, %b;", "iff-", F(a) >= F(b) ? 0x3f800000 : 0)    \
	X(set_u, "set.lt.u32.f64 %d, %a, %b;", "idd-", D(a) < D(b) ? ~0u : 0)            \
	X(set_h, "set.lt.f16.f16 %d, %a, %b;", "whh-",                                   \
	  from_f16(a) < from_f16(b) ? 0x3c00 : 0)                                        \
	X(set_h2, "set.gt.f16x2.f16x2 %d, %a, %b;", "iHH-",                              \
	  (from_f16(a & 0xffff) > from_f16(b & 0xffff) ? 0x3c00 : 0) |                   \
		  (from_f16(a >> 16) > from_f16(b >> 16) ? 0x3c000000 : 0))              \
	X(setp_h2,                                                                       \
	  "setp.lt.f16x2 %p|%q, %a, %b; selp.b32 %r1, 2, 0, %q; selp.b32 %d, 1, 0, %p;"  \
	  "add.u32 %d, %d, %r1;",                                                        \
	  "iHH-",                                                                        \
	  (from_f16(a & 0xffff) < from_f16(b & 0xffff)) +                                \
		  2 * (from_f16(a >> 16) < from_f16(b >> 16)))                           \
	X(tp_fin, P("testp.finite.f32 %p, %a;"), "if--", F(a) - F(a) == 0)               \
	X(tp_inf, P("testp.infinite.f64 %p, %a;"), "id--", mag(D(a)) == (quad)INFINITY)  \
	X(tp_num, P("testp.number.f32 %p, %a;"), "if--", !nan_q(F(a)))                   \
	X(tp_nan, P("testp.notanumber.f64 %p, %a;"), "id--", nan_q(D(a)))                \
	X(tp_norm, P("testp.normal.f32 %p, %a;"), "if--",                                \
	  F(a) == 0 || ((a >> 23 & 255) != 0 && (a >> 23 & 255) != 255))                 \
	X(tp_sub, P("testp.subnormal.f32 %p, %a;"), "if--",                              \
	  (a >> 23 & 255) == 0 && F(a) != 0)

PTX_TEST(f32_arith, ARITH32)
PTX_TEST(f64_arith, ARITH64)
PTX_TEST(float_compare, COMPARE)

/* ---- approximations: the greatest errors that the PTX manual states ---- */

static double abs_20_5(double v, double a)
{
	(void)v;
	/* 2^-20.5 is stated for [-pi, pi]; here the error is that of f32 everywhere */
	(void)a;
	return 0x1p-20;
}

static double rel(double v, double bits)
{
	return fabs(v) * exp2(-bits) + 0x1p-149;
}

static double rel_23(double v, double a)
{
	(void)a;
	return rel(v, 22.9);
}

static double rel_22(double v, double a)
{
	(void)a;
	return rel(v, 22);
}

static double ulp_2(double v, double a)
{
	(void)a;
	return rel(v, 22);
}

static double lg2_bound(double v, double a)
{
	return fabs(a) >= 0.5 && fabs(a) <= 2 ? 0x1p-22 : rel(v, 22);
}

static double tanh_bound(double v, double a)
{
	(void)a;
	return rel(v, 10.987);
}

static double rcp64_bound(double v, double a)
{
	(void)a;
	return rel(v, 19) + 0x1p-1022;
}

static double x_rcp(double a, double b)
{
	(void)b;
	return 1 / a;
}

static double x_rcp_ftz(double a, double b)
{
	double v = 1 / (fabs(a) < 0x1p-1022 ? copysign(0, a) : a);

	(void)b;
	return fabs(v) < 0x1p-1022 ? copysign(0, v) : v;
}

static double x_rsqrt(double a, double b)
{
	(void)b;
	return 1 / sqrt(a);
}

static double x_sqrt(double a, double b)
{
	(void)b;
	return sqrt(a);
}

static double x_sin(double a, double b)
{
	(void)b;
	return sin(a);
}

static double x_cos(double a, double b)
{
	(void)b;
	return cos(a);
}

static double x_lg2(double a, double b)
{
	(void)b;
	return log2(a);
}

static double x_ex2(double a, double b)
{
	(void)b;
	return exp2(a);
}

static double x_tanh(double a, double b)
{
	(void)b;
	return tanh(a);
}

static double x_div(double a, double b)
{
	return a / b;
}

static double half_ex2(double v, double a)
{
	(void)a;
	return rel(v, 9.9) + 0x1p-24;
}

static double bf_ex2(double v, double a)
{
	(void)a;
	return rel(v, 7) + 0x1p-126; /* flushed */
}

static const struct ptx_case approx[] = {
	{"rcp.approx.f32 %d, %a;", "ff--", NULL, x_rcp, rel_23},
	{"rsqrt.approx.f32 %d, %a;", "ff--", NULL, x_rsqrt, rel_23},
	{"sqrt.approx.f32 %d, %a;", "ff--", NULL, x_sqrt, rel_23},
	{"sin.approx.f32 %d, %a;", "ff--", NULL, x_sin, abs_20_5},
	{"cos.approx.f32 %d, %a;", "ff--", NULL, x_cos, abs_20_5},
	{"lg2.approx.f32 %d, %a;", "ff--", NULL, x_lg2, lg2_bound},
	{"ex2.approx.f32 %d, %a;", "ff--", NULL, x_ex2, rel_22},
	{"tanh.approx.f32 %d, %a;", "ff--", NULL, x_tanh, tanh_bound},
	{"div.approx.f32 %d, %a, %b;", "fff-", NULL, x_div, ulp_2},
	{"div.full.f32 %d, %a, %b;", "fff-", NULL, x_div, ulp_2},
	{"rcp.approx.ftz.f64 %d, %a;", "dd--", NULL, x_rcp_ftz, rcp64_bound},
	{"rsqrt.approx.f64 %d, %a;", "dd--", NULL, x_rsqrt, rcp64_bound},
	{"ex2.approx.f16 %d, %a;", "hh--", NULL, x_ex2, half_ex2},
	{"tanh.approx.f16 %d, %a;", "hh--", NULL, x_tanh, half_ex2},
	{"ex2.approx.ftz.bf16 %d, %a;", "bb--", NULL, x_ex2, bf_ex2},
	{"tanh.approx.bf16 %d, %a;", "bb--", NULL, x_tanh, bf_ex2},
};

Test(ptx, float_approx)
{
	ptx_check(approx, ARRAY_SIZE(approx));
}
