/* SPDX-License-Identifier: Apache-2.0 */
/* The handler tables of one instruction-set level. */
#include "simt/handlers/row.h"

#define TABLES(X)                                                                        \
	X(simt_h_int)                                                                    \
	X(simt_h_bits)                                                                   \
	X(simt_h_f32)                                                                    \
	X(simt_h_fx)                                                                     \
	X(simt_h_special)                                                                \
	X(simt_h_trig)                                                                   \
	X(simt_h_half)                                                                   \
	X(simt_h_half2)                                                                  \
	X(simt_h_cmp)                                                                    \
	X(simt_h_slct)                                                                   \
	X(simt_h_cvt)                                                                    \
	X(simt_h_cvtx)                                                                   \
	X(simt_h_mma)                                                                    \
	X(simt_h_mem)                                                                    \
	X(simt_h_warp)

#define DECLARE(t) extern const struct simt_handler SIMT_ISA_NAME(t)[];
#define LISTED(t)  SIMT_ISA_NAME(t),

TABLES(DECLARE)

const struct simt_handler *const SIMT_ISA_NAME(simt_isa)[] = {TABLES(LISTED) NULL};
