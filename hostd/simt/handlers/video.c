/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar video instructions and cvt.pack: rare, so a lane at a time. */
#include "ptx/ptx.h"
#include "simt/handlers/row.h"

/* Packing of op->imm by lower_video(). */
struct how {
	uint8_t flags;
	uint8_t dsel, asel, bsel;
	uint8_t sub;  /* secondary operation, enum ptx_atom */
	uint8_t mode; /* shifts: wrap; vmad: scale */
	uint8_t cmp;
	uint8_t neg; /* of a, b, c */
};

#define V_DSIGNED 1u
#define V_ASIGNED 2u
#define V_BSIGNED 4u
#define V_SAT     8u
#define V_HAS_C   16u
#define V_PO      32u

static s64 part(u32 v, unsigned sel, bool sgn)
{
	unsigned bits = sel == PTX_SEL_NONE ? 32 : sel <= PTX_SEL_B3 ? 8 : 16;
	unsigned at = sel == PTX_SEL_NONE ? 0
		      : sel <= PTX_SEL_B3 ? 8 * (sel - PTX_SEL_B0)
					  : 16 * (sel - PTX_SEL_H0);
	u64 x = (u64)v >> at & (bits == 32 ? ~0u : (1u << bits) - 1);

	return sgn ? (s64)(x << (64 - bits)) >> (64 - bits) : (s64)x;
}

static s64 clamp(s64 v, s64 lo, s64 hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static s64 saturate(s64 v, const struct how *h)
{
	unsigned bits = h->dsel == PTX_SEL_NONE ? 32 : h->dsel <= PTX_SEL_B3 ? 8 : 16;

	if (!(h->flags & V_SAT))
		return v;
	if (h->flags & V_DSIGNED)
		return clamp(v, -(1ll << (bits - 1)), (1ll << (bits - 1)) - 1);
	return clamp(v, 0, (1ll << bits) - 1);
}

static u32 finish(s64 v, u32 c, const struct how *h)
{
	u32 t = (u32)v, mask, at;
	bool sgn = h->flags & V_DSIGNED;

	if (h->dsel != PTX_SEL_NONE && h->flags & V_HAS_C) {
		at = h->dsel <= PTX_SEL_B3 ? 8u * (h->dsel - PTX_SEL_B0)
					   : 16u * (h->dsel - PTX_SEL_H0);
		mask = (h->dsel <= PTX_SEL_B3 ? 0xffu : 0xffffu) << at;
		return (c & ~mask) | (t << at & mask);
	}
	switch (h->flags & V_HAS_C ? h->sub : PTX_ATOM_NONE) {
	case PTX_ATOM_ADD:
		return t + c;
	case PTX_ATOM_MIN:
		return sgn ? ((s32)t < (s32)c ? t : c) : t < c ? t : c;
	case PTX_ATOM_MAX:
		return sgn ? ((s32)t > (s32)c ? t : c) : t > c ? t : c;
	default:
		return t;
	}
}

static bool compare(s64 a, s64 b, unsigned cmp)
{
	switch (cmp) {
	case PTX_C_EQ:
		return a == b;
	case PTX_C_NE:
		return a != b;
	case PTX_C_LT:
		return a < b;
	case PTX_C_LE:
		return a <= b;
	case PTX_C_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static u32 shift_by(s64 b, const struct how *h)
{
	return h->mode ? (u32)b & 31 : (u64)b > 32 ? 32 : (u32)b;
}

static u32 vmad(s64 a, s64 b, u32 c, const struct how *h)
{
	bool flip = (h->neg & 1) != (h->neg >> 1 & 1), cneg = h->neg & 4;
	bool sgn = h->flags & (V_ASIGNED | V_BSIGNED) || flip || cneg;
	__int128 t = (__int128)a * b;
	s64 v;
	u32 one = 0;

	if (h->flags & V_PO) {
		one = 1;
	} else if (flip) {
		t = ~t;
		one = 1;
	} else if (cneg) {
		c = ~c;
		one = 1;
	}
	t += (sgn ? (__int128)(s32)c : (__int128)c) + one;
	v = (s64)(t >> h->mode);
	if (h->flags & V_SAT)
		v = sgn ? clamp(v, INT32_MIN, INT32_MAX) : clamp(v, 0, UINT32_MAX);
	return (u32)v;
}

#define VIDEO(name, expr)                                                                \
	static SIMT_HANDLER(video_##name)                                                \
	{                                                                                \
		const u32 *pa = SRC(u32, op->a), *pb = SRC(u32, op->b);                  \
		const u32 *pc = SRC(u32, op->c);                                         \
		u32 *d = DST(u32, op->d);                                                \
		struct how how, *h = &how;                                               \
                                                                                         \
		memcpy(h, &op->imm, sizeof(*h));                                         \
		FOR_LANES(m, k)                                                          \
		{                                                                        \
			s64 a = part(pa[k], h->asel, h->flags & V_ASIGNED);              \
			s64 b = part(pb[k], h->bsel, h->flags & V_BSIGNED);              \
			u32 c = pc[k];                                                   \
                                                                                         \
			d[k] = (expr);                                                   \
		}                                                                        \
		return op + 1;                                                           \
	}
#define WHOLE(v) finish(saturate((v), h), c, h)

VIDEO(vadd, WHOLE(a + b))
VIDEO(vsub, WHOLE(a - b))
VIDEO(vabsdiff, WHOLE(a > b ? a - b : b - a))
VIDEO(vmin, WHOLE(a < b ? a : b))
VIDEO(vmax, WHOLE(a > b ? a : b))
VIDEO(vshl, WHOLE((s64)((u64)a << shift_by(b, h))))
VIDEO(vshr, WHOLE(a >> shift_by(b, h)))
VIDEO(vset, WHOLE(compare(a, b, h->cmp)))
VIDEO(vmad, vmad(a, b, c, h))

/* a and b cut to op->n bits with saturation, a above b; c above both. op->x: signed */
static SIMT_HANDLER(cvtpack)
{
	unsigned n = op->n;
	s64 hi = op->x ? (1ll << (n - 1)) - 1 : (1ll << n) - 1, lo = op->x ? -hi - 1 : 0;

	FOR_LANES(m, k)
	{
		u32 a = (u32)clamp(SRC(s32, op->a)[k], lo, hi) & ((1u << n) - 1);
		u32 b = (u32)clamp(SRC(s32, op->b)[k], lo, hi) & ((1u << n) - 1);
		u32 c = n < 16 ? SRC(u32, op->c)[k] << 2 * n : 0;

		DST(u32, op->d)[k] = c | a << n | b;
	}
	return op + 1;
}

/* Differences of unsigned bytes, in absolute value; op->n: their sum and c. */
static SIMT_HANDLER(video_vabsdiff4)
{
	FOR_LANES(m, k)
	{
		u32 a = SRC(u32, op->a)[k], b = SRC(u32, op->b)[k], all = 0;
		u32 sum = SRC(u32, op->c)[k];

		for (unsigned at = 0; at < 32; at += 8) {
			u32 x = a >> at & 0xff, y = b >> at & 0xff;
			u32 diff = x > y ? x - y : y - x;

			all |= diff << at;
			sum += diff;
		}
		DST(u32, op->d)[k] = op->n ? sum : all;
	}
	return op + 1;
}

const struct simt_handler simt_h_video[] = {
	{"video.vabsdiff4", video_vabsdiff4},
	{"video.vadd", video_vadd},
	{"video.vsub", video_vsub},
	{"video.vabsdiff", video_vabsdiff},
	{"video.vmin", video_vmin},
	{"video.vmax", video_vmax},
	{"video.vshl", video_vshl},
	{"video.vshr", video_vshr},
	{"video.vset", video_vset},
	{"video.vmad", video_vmad},
	{"cvtpack", cvtpack},
	{NULL, NULL},
};
