/* SPDX-License-Identifier: Apache-2.0 */
/* How a cvt of any kind is described to the handlers "cvt.x" and "cvt.pair". */
#ifndef WEFT_SIMT_CVT_H
#define WEFT_SIMT_CVT_H

#include <stdbool.h>
#include <stdint.h>

enum cvt_type {
	CVT_U8,
	CVT_S8,
	CVT_U16,
	CVT_S16,
	CVT_U32,
	CVT_S32,
	CVT_U64,
	CVT_S64,
	CVT_NUM_INTS,
	CVT_F16 = CVT_NUM_INTS,
	CVT_BF16,
	CVT_F32,
	CVT_F64,
	CVT_TF32,
	CVT_E4M3,
	CVT_E5M2,
};

#define CVT_FTZ  (1u << 0)
#define CVT_SAT  (1u << 1)
#define CVT_RELU (1u << 2)
#define CVT_FIN  (1u << 3) /* satfinite: the largest number instead of infinity */
#define CVT_RINT (1u << 4) /* to an integral value, in direction rnd, first */

/* Lives in simt_op.imm. */
struct cvt_how {
	uint8_t src, dst;           /* enum cvt_type */
	uint8_t src_bits, dst_bits; /* of the registers */
	uint8_t rnd;                /* enum fx_round, or FX_RNA */
	uint8_t flags;
	uint8_t pad[2];
};

#endif
