/* SPDX-License-Identifier: Apache-2.0 */
/* Message of lower/tex.c to handlers/tex.c: places in simt_op.ext, and op->y. */
#ifndef WEFT_SIMT_TEX_H
#define WEFT_SIMT_TEX_H

enum tex_ext {
	TEX_D,          /* 4 rows of the destination, or of what is stored; -1: a sink */
	TEX_P = 4,      /* predicate, or -1 */
	TEX_OBJECT = 5, /* row of the object's values */
	TEX_LAYER = 6,
	TEX_C = 7,  /* 3 rows of coordinates */
	TEX_A = 10, /* 3: level, or derivatives */
	TEX_B = 13,
	TEX_NUM_EXT = 16,
};

enum tex_kind {
	TEX_BASE,
	TEX_AT_LEVEL,
	TEX_BY_GRAD,
	TEX_GATHER,
};

#endif
