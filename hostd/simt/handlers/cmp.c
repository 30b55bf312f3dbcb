/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons, selection and predicate logic. setp: op->x is how the result is combined
 * with predicate c (enum cmp_bop), op->y says that c is negated; d and e (the "q" of
 * p|q) may be -1.
 */
#include "simt/handlers/cmp.h"

#define CMP(text, name, T, load, expr)                                                   \
	static SIMT_HANDLER(setp_##name)                                                 \
	{                                                                                \
		const T *pa = SRC(T, op->a), *pb = SRC(T, op->b);                        \
		int8_t t[SIMT_WARP];                                                     \
                                                                                         \
		LANES                                                                    \
		{                                                                        \
			T a = load(pa[i]), b = load(pb[i]);                              \
			t[i] = (int8_t) - (expr);                                        \
		}                                                                        \
		return cmp_done(w, op, m, r, lane_bits(t));                              \
	}

#define AS_IS(v) (v)

#define INTS(X, T)                                                                       \
	X("setp.eq." #T, eq_##T, T, AS_IS, a == b)                                       \
	X("setp.ne." #T, ne_##T, T, AS_IS, a != b)                                       \
	X("setp.lt." #T, lt_##T, T, AS_IS, a < b)                                        \
	X("setp.le." #T, le_##T, T, AS_IS, a <= b)                                       \
	X("setp.gt." #T, gt_##T, T, AS_IS, a > b)                                        \
	X("setp.ge." #T, ge_##T, T, AS_IS, a >= b)

#define ORDER(X, T, F, name, load)                                                       \
	X("setp.eq." name, eq_##F, T, load, a == b)                                      \
	X("setp.ne." name, ne_##F, T, load, a<b || a> b)                                 \
	X("setp.lt." name, lt_##F, T, load, a < b)                                       \
	X("setp.le." name, le_##F, T, load, a <= b)                                      \
	X("setp.gt." name, gt_##F, T, load, a > b)                                       \
	X("setp.ge." name, ge_##F, T, load, a >= b)                                      \
	X("setp.equ." name, equ_##F, T, load, !(a < b || a > b))                         \
	X("setp.neu." name, neu_##F, T, load, a != b)                                    \
	X("setp.ltu." name, ltu_##F, T, load, !(a >= b))                                 \
	X("setp.leu." name, leu_##F, T, load, !(a > b))                                  \
	X("setp.gtu." name, gtu_##F, T, load, !(a <= b))                                 \
	X("setp.geu." name, geu_##F, T, load, !(a < b))                                  \
	X("setp.num." name, num_##F, T, load, a == a && b == b)                          \
	X("setp.nan." name, nan_##F, T, load, a != a || b != b)

#define CMP_LIST(X)                                                                      \
	INTS(X, u16)                                                                     \
	INTS(X, s16)                                                                     \
	INTS(X, u32)                                                                     \
	INTS(X, s32)                                                                     \
	INTS(X, u64)                                                                     \
	INTS(X, s64)                                                                     \
	ORDER(X, f32, f32, "f32", AS_IS)                                                 \
	ORDER(X, f32, ftz_f32, "ftz.f32", ftz)                                           \
	ORDER(X, f64, f64, "f64", AS_IS)

CMP_LIST(CMP)

/* d = c ? a : b, c a predicate */
#define SELP(T)                                                                          \
	static SIMT_HANDLER(selp_##T)                                                    \
	{                                                                                \
		T *d = DST(T, op->d);                                                    \
		const T *a = SRC(T, op->a), *b = SRC(T, op->b);                          \
		uint32_t p = *SRC(uint32_t, op->c) ^ (op->y ? SIMT_FULL : 0);            \
                                                                                         \
		if (likely(m == SIMT_FULL)) {                                            \
			LANES d[i] = LANE_ON(p, i) ? a[i] : b[i];                        \
		} else {                                                                 \
			LANES                                                            \
			{                                                                \
				T v = LANE_ON(p, i) ? a[i] : b[i];                       \
				d[i] = LANE_ON(m, i) ? v : d[i];                         \
			}                                                                \
		}                                                                        \
		return op + 1;                                                           \
	}
SELP(u16)
SELP(u32)
SELP(u64)

#define LIST(R1, R2, R3)                                                                 \
	R3("slct.b16.s32", slct_16, u16, u16, u16, s32, c >= 0 ? a : b)                  \
	R3("slct.b32.s32", slct_32, u32, u32, u32, s32, c >= 0 ? a : b)                  \
	R3("slct.b64.s32", slct_64, u64, u64, u64, s32, c >= 0 ? a : b)                  \
	R3("slct.b16.f32", slctf_16, u16, u16, u16, f32, c >= 0 ? a : b)                 \
	R3("slct.b32.f32", slctf_32, u32, u32, u32, f32, c >= 0 ? a : b)                 \
	R3("slct.b64.f32", slctf_64, u64, u64, u64, f32, c >= 0 ? a : b)                 \
	R3("slct.b16.ftz.f32", slctz_16, u16, u16, u16, f32, ftz(c) >= 0 ? a : b)        \
	R3("slct.b32.ftz.f32", slctz_32, u32, u32, u32, f32, ftz(c) >= 0 ? a : b)        \
	R3("slct.b64.ftz.f32", slctz_64, u64, u64, u64, f32, ftz(c) >= 0 ? a : b)

SIMT_TABLE(simt_h_slct, LIST)

#define CMP_ENTRY(text, name, ...) {text, setp_##name},

const struct simt_handler SIMT_ISA_NAME(simt_h_cmp)[] = {
	CMP_LIST(CMP_ENTRY){"selp.b16", selp_u16},
	{"selp.b32", selp_u32},
	{"selp.b64", selp_u64},
	{NULL, NULL},
};
