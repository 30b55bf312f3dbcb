/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes handlers out of expressions. A handler file lists its handlers once, as
 * LIST(R1, R2, R3) of rows with one, two or three sources:
 *
 *	R2("add.u32", add_u32, u32, u32, u32, a + b)
 *
 * that is: PTX-like name, C name, type of d, types of the sources, value of d as an
 * expression of a, b and c. The list is expanded to functions and to the table.
 */
#ifndef WEFT_SIMT_ROW_H
#define WEFT_SIMT_ROW_H

#include "simt/exec.h"

#ifndef SIMT_ISA
#define SIMT_ISA base
#endif
#define SIMT_CAT2(a, b)     a##_##b
#define SIMT_CAT(a, b)      SIMT_CAT2(a, b)
#define SIMT_ISA_NAME(name) SIMT_CAT(name, SIMT_ISA)

#define u8                  uint8_t
#define s8                  int8_t
#define u16                 uint16_t
#define s16                 int16_t
#define u32                 uint32_t
#define s32                 int32_t
#define u64                 uint64_t
#define s64                 int64_t
#define f32                 float
#define f64                 double

#define DEF1(text, name, TD, TA, expr)                                                   \
	static SIMT_HANDLER(name)                                                        \
	{                                                                                \
		TD *d = DST(TD, op->d);                                                  \
		const TA *pa = SRC(TA, op->a);                                           \
                                                                                         \
		if (likely(m == SIMT_FULL)) {                                            \
			LANES                                                            \
			{                                                                \
				TA a = pa[i];                                            \
				d[i] = (TD)(expr);                                       \
			}                                                                \
		} else {                                                                 \
			LANES                                                            \
			{                                                                \
				TA a = pa[i];                                            \
				TD v = (TD)(expr);                                       \
				d[i] = LANE_ON(m, i) ? v : d[i];                         \
			}                                                                \
		}                                                                        \
		return op + 1;                                                           \
	}

#define DEF2(text, name, TD, TA, TB, expr)                                               \
	static SIMT_HANDLER(name)                                                        \
	{                                                                                \
		TD *d = DST(TD, op->d);                                                  \
		const TA *pa = SRC(TA, op->a);                                           \
		const TB *pb = SRC(TB, op->b);                                           \
                                                                                         \
		if (likely(m == SIMT_FULL)) {                                            \
			LANES                                                            \
			{                                                                \
				TA a = pa[i];                                            \
				TB b = pb[i];                                            \
				d[i] = (TD)(expr);                                       \
			}                                                                \
		} else {                                                                 \
			LANES                                                            \
			{                                                                \
				TA a = pa[i];                                            \
				TB b = pb[i];                                            \
				TD v = (TD)(expr);                                       \
				d[i] = LANE_ON(m, i) ? v : d[i];                         \
			}                                                                \
		}                                                                        \
		return op + 1;                                                           \
	}

#define DEF3(text, name, TD, TA, TB, TC, expr)                                           \
	static SIMT_HANDLER(name)                                                        \
	{                                                                                \
		TD *d = DST(TD, op->d);                                                  \
		const TA *pa = SRC(TA, op->a);                                           \
		const TB *pb = SRC(TB, op->b);                                           \
		const TC *pc = SRC(TC, op->c);                                           \
                                                                                         \
		if (likely(m == SIMT_FULL)) {                                            \
			LANES                                                            \
			{                                                                \
				TA a = pa[i];                                            \
				TB b = pb[i];                                            \
				TC c = pc[i];                                            \
				d[i] = (TD)(expr);                                       \
			}                                                                \
		} else {                                                                 \
			LANES                                                            \
			{                                                                \
				TA a = pa[i];                                            \
				TB b = pb[i];                                            \
				TC c = pc[i];                                            \
				TD v = (TD)(expr);                                       \
				d[i] = LANE_ON(m, i) ? v : d[i];                         \
			}                                                                \
		}                                                                        \
		return op + 1;                                                           \
	}

#define ENTRY(text, name, ...) {text, name},

/* Defines every handler of LIST and the table called tab. */
#define SIMT_TABLE(tab, LIST)                                                            \
	LIST(DEF1, DEF2, DEF3)                                                           \
	const struct simt_handler SIMT_ISA_NAME(tab)[] = {                               \
		LIST(ENTRY, ENTRY, ENTRY){NULL, NULL}};

/* The comparison result of all lanes as a predicate word. */
#define LANE_BITS(expr)                                                                  \
	({                                                                               \
		uint32_t _bits = 0;                                                      \
		for (unsigned i = 0; i < SIMT_WARP; i++)                                 \
			_bits |= (uint32_t)(expr) << i;                                  \
		_bits;                                                                   \
	})

/* Stores the predicate bits of the lanes in m. */
static inline void pred_store(uint32_t *p, uint32_t bits, uint32_t m)
{
	*p = (*p & ~m) | (bits & m);
}

#endif
