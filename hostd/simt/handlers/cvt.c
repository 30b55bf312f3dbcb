/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions. The frequent ones are vector loops; "cvt.x" does any other, a lane at a
 * time: source to s64 or f64 (both exact), then to the destination.
 */
#include "simt/handlers/cvt.h"
#include "simt/handlers/half.h"

#define TWO31 2147483648.0
#define TWO32 4294967296.0
#define TWO63 9223372036854775808.0
#define TWO64 18446744073709551616.0

static inline s32 to_s32(f64 v)
{
	v = v != v ? 0 : v;
	v = v < -TWO31 ? -TWO31 : v > TWO31 - 1 ? TWO31 - 1 : v;
	return (s32)v;
}

/* v is integral: after the addition it is the low part of the mantissa */
static inline u32 to_u32(f64 v)
{
	v = v > 0 ? v : 0;
	v = v > TWO32 - 1 ? TWO32 - 1 : v;
	return (u32)f64_bits(v + 4503599627370496.0);
}

/* NaN becomes 0, but 1 << 31 where it comes from an f64 */
static inline s32 f64_to_s32(f64 v)
{
	return v != v ? INT32_MIN : to_s32(v);
}

static inline u32 f64_to_u32(f64 v)
{
	return v != v ? 1u << 31 : to_u32(v);
}

static inline s64 to_s64(f64 v)
{
	return v != v       ? INT64_MIN
	       : v < -TWO63 ? INT64_MIN
	       : v >= TWO63 ? INT64_MAX
			    : (s64)v;
}

static inline u64 to_u64(f64 v)
{
	if (v != v)
		return 1ull << 63;
	return v <= 0 ? 0 : v >= TWO64 ? ~0ull : (u64)v;
}

#define RNI(v) __builtin_rint(v)
#define RZI(v) __builtin_trunc(v)
#define RMI(v) __builtin_floor(v)
#define RPI(v) __builtin_ceil(v)

#define TO_INT(R1, D, S, rnd, conv, RND)                                                 \
	R1("cvt." #rnd "." #D "." #S, cvt_##rnd##_##D##_##S, D, S, conv(RND((f64)a)))
#define TO_INTS(R1, rnd, RND)                                                            \
	TO_INT(R1, s32, f32, rnd, to_s32, RND)                                           \
	TO_INT(R1, u32, f32, rnd, to_u32, RND)                                           \
	TO_INT(R1, s32, f64, rnd, f64_to_s32, RND)                                       \
	TO_INT(R1, u32, f64, rnd, f64_to_u32, RND)                                       \
	TO_INT(R1, s64, f32, rnd, to_s64, RND)                                           \
	TO_INT(R1, u64, f32, rnd, to_u64, RND)                                           \
	TO_INT(R1, s64, f64, rnd, to_s64, RND)                                           \
	TO_INT(R1, u64, f64, rnd, to_u64, RND)

/* ext.<type>.<register bits from>.<to>: integers without saturation */
#define EXT(R1, T, F, D) R1("ext." #T "." #F "." #D, ext_##T##_##F##_##D, D, F, (T)a)

#define LIST(R1, R2, R3)                                                                 \
	TO_INTS(R1, rni, RNI)                                                            \
	TO_INTS(R1, rzi, RZI)                                                            \
	TO_INTS(R1, rmi, RMI)                                                            \
	TO_INTS(R1, rpi, RPI)                                                            \
	R1("cvt.f32.s32", f32_s32, f32, s32, a)                                          \
	R1("cvt.f32.u32", f32_u32, f32, u32, (f64)a)                                     \
	R1("cvt.f32.s64", f32_s64, f32, s64, a)                                          \
	R1("cvt.f32.u64", f32_u64, f32, u64, a)                                          \
	R1("cvt.f64.s32", f64_s32, f64, s32, a)                                          \
	R1("cvt.f64.u32", f64_u32, f64, u32, a)                                          \
	R1("cvt.f64.s64", f64_s64, f64, s64, a)                                          \
	R1("cvt.f64.u64", f64_u64, f64, u64, a)                                          \
	R1("cvt.f64.f32", f64_f32, f64, f32, a)                                          \
	R1("cvt.f32.f64", f32_f64, f32, f64, canon((f32)a))                              \
	R1("cvt.rni.f32", rni_f32, f32, f32, canon(__builtin_rintf(a)))                  \
	R1("cvt.rzi.f32", rzi_f32, f32, f32, canon(__builtin_truncf(a)))                 \
	R1("cvt.rmi.f32", rmi_f32, f32, f32, canon(__builtin_floorf(a)))                 \
	R1("cvt.rpi.f32", rpi_f32, f32, f32, canon(__builtin_ceilf(a)))                  \
	R1("cvt.rni.f64", rni_f64, f64, f64, RNI(a))                                     \
	R1("cvt.rzi.f64", rzi_f64, f64, f64, RZI(a))                                     \
	R1("cvt.rmi.f64", rmi_f64, f64, f64, RMI(a))                                     \
	R1("cvt.rpi.f64", rpi_f64, f64, f64, RPI(a))                                     \
	R1("cvt.sat.f32.f32", sat_f32_, f32, f32, sat_f32(a))                            \
	R1("cvt.ftz.f32.f32", ftz_f32, f32, f32, canon(ftz(a)))                          \
	R1("cvt.ftz.sat.f32.f32", ftz_sat_f32, f32, f32, sat_f32(ftz(a)))                \
	R1("cvt.f32.bf16", f32_bf16, f32, u16, bf16_to_f32(a))                           \
	R1("cvt.bf16.f32", bf16_f32, u16, f32, f32_to_bf16(a))                           \
	R2("cvt.bf16x2.f32", bf16x2_f32, u32, f32, f32,                                  \
	   (u32)f32_to_bf16(a) << 16 | f32_to_bf16(b))                                   \
	EXT(R1, u8, u16, u16)                                                            \
	EXT(R1, s8, u16, u16)                                                            \
	EXT(R1, u8, u16, u32)                                                            \
	EXT(R1, s8, u16, u32)                                                            \
	EXT(R1, u8, u16, u64)                                                            \
	EXT(R1, s8, u16, u64)                                                            \
	EXT(R1, u8, u32, u16)                                                            \
	EXT(R1, s8, u32, u16)                                                            \
	EXT(R1, u8, u32, u32)                                                            \
	EXT(R1, s8, u32, u32)                                                            \
	EXT(R1, u8, u32, u64)                                                            \
	EXT(R1, s8, u32, u64)                                                            \
	EXT(R1, u8, u64, u16)                                                            \
	EXT(R1, s8, u64, u16)                                                            \
	EXT(R1, u8, u64, u32)                                                            \
	EXT(R1, s8, u64, u32)                                                            \
	EXT(R1, u8, u64, u64)                                                            \
	EXT(R1, s8, u64, u64)                                                            \
	EXT(R1, u16, u16, u16)                                                           \
	EXT(R1, u16, u16, u32)                                                           \
	EXT(R1, s16, u16, u32)                                                           \
	EXT(R1, u16, u16, u64)                                                           \
	EXT(R1, s16, u16, u64)                                                           \
	EXT(R1, u16, u32, u16)                                                           \
	EXT(R1, u16, u32, u32)                                                           \
	EXT(R1, s16, u32, u32)                                                           \
	EXT(R1, u16, u32, u64)                                                           \
	EXT(R1, s16, u32, u64)                                                           \
	EXT(R1, u16, u64, u16)                                                           \
	EXT(R1, u16, u64, u32)                                                           \
	EXT(R1, s16, u64, u32)                                                           \
	EXT(R1, u16, u64, u64)                                                           \
	EXT(R1, s16, u64, u64)                                                           \
	EXT(R1, u32, u32, u32)                                                           \
	EXT(R1, u32, u32, u64)                                                           \
	EXT(R1, s32, u32, u64)                                                           \
	EXT(R1, u32, u64, u32)                                                           \
	EXT(R1, u32, u64, u64)                                                           \
	EXT(R1, s32, u64, u64)                                                           \
	EXT(R1, u64, u64, u64)

SIMT_TABLE(simt_h_cvt, LIST)

static SIMT_HANDLER(f32_f16)
{
	f32 t[SIMT_WARP];

	f16_in(t, SRC(u16, op->a), SIMT_WARP);
	LANES t[i] = canon(t[i]);
	mask_store32(DST(u32, op->d), (const u32 *)(const void *)t, m);
	return op + 1;
}

static SIMT_HANDLER(f16_f32)
{
	f32 t[SIMT_WARP];
	u16 h[SIMT_WARP];

	memcpy(t, SRC(f32, op->a), sizeof(t));
	LANES t[i] = canon(t[i]);
	f16_out(h, t, SIMT_WARP);
	mask_store16(DST(u16, op->d), h, m);
	return op + 1;
}

/* a becomes the upper half */
static SIMT_HANDLER(f16x2_f32)
{
	const f32 *a = SRC(f32, op->a), *b = SRC(f32, op->b);
	f32 ta[SIMT_WARP], tb[SIMT_WARP];
	u16 ha[SIMT_WARP], hb[SIMT_WARP];
	u32 t[SIMT_WARP];

	LANES ta[i] = canon(a[i]);
	LANES tb[i] = canon(b[i]);
	f16_out(ha, ta, SIMT_WARP);
	f16_out(hb, tb, SIMT_WARP);
	LANES t[i] = (u32)ha[i] << 16 | hb[i];
	mask_store32(DST(u32, op->d), t, m);
	return op + 1;
}

/* One value on its way: ints as 64 bits with their sign known, floats as f64. */
struct value {
	bool is_float, is_signed;
	u64 i;
	f64 f;
};

static inline u64 reg_get(const void *row, unsigned bits, unsigned lane)
{
	return bits == 16   ? ((const u16 *)row)[lane]
	       : bits == 32 ? ((const u32 *)row)[lane]
			    : ((const u64 *)row)[lane];
}

static inline void reg_put(void *row, unsigned bits, unsigned lane, u64 v)
{
	if (bits == 16)
		((u16 *)row)[lane] = (u16)v;
	else if (bits == 32)
		((u32 *)row)[lane] = (u32)v;
	else
		((u64 *)row)[lane] = v;
}

static struct value value_of(u64 raw, unsigned type, unsigned flags)
{
	struct value v = {.is_signed = type & 1, .is_float = type >= CVT_NUM_INTS};

	switch ((enum cvt_type)type) {
	case CVT_U8:
		v.i = (u8)raw;
		break;
	case CVT_S8:
		v.i = (u64)(s8)raw;
		break;
	case CVT_U16:
		v.i = (u16)raw;
		break;
	case CVT_S16:
		v.i = (u64)(s16)raw;
		break;
	case CVT_U32:
		v.i = (u32)raw;
		break;
	case CVT_S32:
		v.i = (u64)(s32)raw;
		break;
	case CVT_U64:
	case CVT_S64:
		v.i = raw;
		break;
	case CVT_F16:
		v.f = (f64)f16_to_f32((u16)raw);
		break;
	case CVT_BF16:
		v.f = (f64)bf16_to_f32((u16)raw);
		break;
	case CVT_F32:
	case CVT_TF32:
		v.f = (f64)(flags & CVT_FTZ ? ftz(f32_of((u32)raw)) : f32_of((u32)raw));
		break;
	case CVT_F64:
		v.f = f64_of(raw);
		break;
	case CVT_E4M3:
		v.f = (f64)e4m3_to_f32((u8)raw);
		break;
	case CVT_E5M2:
		v.f = (f64)e5m2_to_f32((u8)raw);
		break;
	}
	return v;
}

static f64 integral(f64 v, unsigned rnd)
{
	return rnd == FX_RN   ? RNI(v)
	       : rnd == FX_RZ ? RZI(v)
	       : rnd == FX_RM ? RMI(v)
			      : RPI(v);
}

/* Result for an integer destination, extended to 64 bits by its own sign. */
static u64 to_int(struct value v, const struct cvt_how *how)
{
	unsigned bits = 8u << (how->dst >> 1);
	bool sgn = how->dst & 1;
	s64 lo = sgn ? (s64)(~0ull << (bits - 1)) : 0;
	u64 hi = sgn ? (1ull << (bits - 1)) - 1 : ~0ull >> (64 - bits);

	if (v.is_float) {
		f64 f = integral(v.f, how->rnd);

		if (f != f)
			return how->src == CVT_F64 || bits == 64
				       ? (sgn ? (u64)lo : hi / 2 + 1)
				       : 0;
		if (sgn)
			return f < (f64)lo        ? (u64)lo
			       : f >= (f64)hi + 1 ? hi
						  : (u64)to_s64(f);
		return f > (f64)hi ? hi : to_u64(f);
	}
	if (how->flags & CVT_SAT) {
		bool neg = v.is_signed && (s64)v.i < 0;

		if (neg)
			return (s64)v.i < lo ? (u64)lo : v.i;
		return v.i > hi ? hi : v.i;
	}
	if (bits < 64)
		return sgn ? (u64)((s64)(v.i << (64 - bits)) >> (64 - bits)) : v.i & hi;
	return v.i;
}

/* An f64 that rounds to a shorter format as the integer would. */
static f64 int_to_odd(struct value v)
{
	bool neg = v.is_signed && (s64)v.i < 0;
	u64 a = neg ? 0 - v.i : v.i;
	f64 f;

	if (a >> 53)
		a = (a & ~0xfffull) | ((a & 0xfff) ? 0x1000 : 0);
	f = (f64)a;
	return neg ? -f : f;
}

static f32 narrow_f32(struct value v, unsigned rnd)
{
	volatile struct value in = v;
	volatile f32 out;
	unsigned old = round_enter(rnd);

	if (in.is_float)
		out = (f32)in.f;
	else if (in.is_signed)
		out = (f32)(s64)in.i;
	else
		out = (f32)in.i;
	round_leave(old);
	return out;
}

static f64 widen_f64(struct value v, unsigned rnd)
{
	volatile struct value in = v;
	volatile f64 out;
	unsigned old;

	if (v.is_float)
		return v.f;
	old = round_enter(rnd);
	if (in.is_signed)
		out = (f64)(s64)in.i;
	else
		out = (f64)in.i;
	round_leave(old);
	return out;
}

/* Overflow that is to stay finite: only towards infinity by rounding, or of infinity. */
static f64 clamp_finite(f64 v, f64 max)
{
	return v > max ? max : v < -max ? -max : v;
}

static u64 to_float(struct value v, const struct cvt_how *how)
{
	unsigned flags = how->flags;
	f64 f;
	f32 s;

	if (v.is_float) {
		if (flags & CVT_RINT)
			v.f = integral(v.f, how->rnd);
		if ((flags & CVT_RELU) && v.f <= 0)
			v.f = 0;
		if (flags & CVT_SAT)
			v.f = v.f > 0 ? (v.f < 1 ? v.f : 1) : 0;
	} else if (flags & CVT_SAT) {
		v.i = v.is_signed && (s64)v.i <= 0 ? 0 : v.i != 0;
	}
	f = v.is_float ? v.f : int_to_odd(v);
	switch ((enum cvt_type)how->dst) {
	case CVT_F16:
		return f64_to_f16(flags & CVT_FIN ? clamp_finite(f, 65504) : f, how->rnd);
	case CVT_BF16:
		return f64_to_bf16(flags & CVT_FIN ? clamp_finite(f, 0x1.fep127) : f,
				   how->rnd);
	case CVT_TF32:
		s = flags & CVT_FIN ? (f32)clamp_finite(f, 0x1.ffcp127) : (f32)f;
		return f32_to_tf32(s, how->rnd);
	case CVT_E4M3:
		return f64_to_e4m3(f);
	case CVT_E5M2:
		return f64_to_e5m2(f);
	case CVT_F64:
		return f64_bits(widen_f64(v, how->rnd));
	case CVT_F32:
		s = canon(narrow_f32(v, how->rnd));
		return f32_bits(flags & CVT_FTZ ? ftz(s) : s);
	case CVT_U8:
	case CVT_S8:
	case CVT_U16:
	case CVT_S16:
	case CVT_U32:
	case CVT_S32:
	case CVT_U64:
	case CVT_S64:
		break;
	}
	return 0;
}

static inline struct cvt_how how_of(const struct simt_op *op)
{
	struct cvt_how how;

	memcpy(&how, &op->imm, sizeof(how));
	return how;
}

static u64 convert(u64 raw, const struct cvt_how *how)
{
	struct value v = value_of(raw, how->src, how->flags);

	return how->dst < CVT_NUM_INTS ? to_int(v, how) : to_float(v, how);
}

static SIMT_HANDLER(cvt_x)
{
	const struct cvt_how how = how_of(op);
	const void *a = simt_src(w, r, op->a);

	FOR_LANES(m, k)
	reg_put(r + op->d, how.dst_bits, k, convert(reg_get(a, how.src_bits, k), &how));
	return op + 1;
}

/* Two of a narrow format from a (upper) and b (lower); src_bits 32 each. */
static SIMT_HANDLER(cvt_pack)
{
	const struct cvt_how how = how_of(op);
	const void *a = simt_src(w, r, op->a), *b = simt_src(w, r, op->b);
	unsigned half = how.dst_bits / 2;

	FOR_LANES(m, k)
	{
		u64 hi = convert(reg_get(a, how.src_bits, k), &how);
		u64 lo = convert(reg_get(b, how.src_bits, k), &how);

		reg_put(r + op->d, how.dst_bits, k, hi << half | lo);
	}
	return op + 1;
}

/* A pair to a pair; the bits of one element are half of the registers'. */
static SIMT_HANDLER(cvt_pair)
{
	const struct cvt_how how = how_of(op);
	const void *a = simt_src(w, r, op->a);
	unsigned in = how.src_bits / 2, out = how.dst_bits / 2;

	FOR_LANES(m, k)
	{
		u64 v = reg_get(a, how.src_bits, k);
		u64 hi = convert(v >> in, &how), lo = convert(v & ((1u << in) - 1), &how);

		reg_put(r + op->d, how.dst_bits, k, hi << out | lo);
	}
	return op + 1;
}

const struct simt_handler SIMT_ISA_NAME(simt_h_cvtx)[] = {
	{"cvt.f32.f16", f32_f16},
	{"cvt.f16.f32", f16_f32},
	{"cvt.f16x2.f32", f16x2_f32},
	{"cvt.x", cvt_x},
	{"cvt.pack", cvt_pack},
	{"cvt.pair", cvt_pair},
	{NULL, NULL},
};
