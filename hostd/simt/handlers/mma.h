/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the handlers of matrix instructions. */
#ifndef WEFT_SIMT_MMA_H
#define WEFT_SIMT_MMA_H

#include <stdbool.h>
#include <stdint.h>

enum mma_type {
	MMA_F16,
	MMA_BF16,
	MMA_TF32,
	MMA_F32,
	MMA_F64,
	MMA_E4M3,
	MMA_E5M2,
	MMA_S32,
	MMA_S8,
	MMA_U8,
	MMA_S4,
	MMA_U4,
	MMA_B1,
};

#define MMA_MAX_DIM   32         /* m and n */
#define MMA_MAX_ELEMS (32 * 256) /* of one matrix: m or n times k */
#define MMA_MAX_RUNS  128        /* rows or columns of one in memory */

/*
 * One matrix held by a warp: element e of lane l is at pos[e * 32 + l] of the matrix in
 * row-major order. Elements are packed into num_rows rows of 32-bit registers (64-bit for
 * f64), lowest first.
 */
struct mma_frag {
	uint8_t type; /* enum mma_type */
	uint8_t bits; /* of an element */
	uint8_t num_rows;
	uint8_t per_row; /* elements in a register */
	uint16_t height, width;
	const uint16_t *pos;
	int32_t row[16];
};

enum mma_op {
	MMA_MULADD,
	MMA_XOR_POPC,
	MMA_AND_POPC
};

struct simt_mma {
	uint16_t m, n, k;
	uint8_t op; /* enum mma_op */
	bool sat;
	struct mma_frag a, b, c, d;
};

/* wmma.load and wmma.store */
struct simt_wmma {
	struct mma_frag f;
	bool col;       /* column-major in memory */
	int32_t stride; /* row of the leading dimension in elements */
};

#endif
