/* SPDX-License-Identifier: Apache-2.0 */
/* End of every comparison: combines with a predicate, stores p and q. */
#ifndef WEFT_SIMT_CMP_H
#define WEFT_SIMT_CMP_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "simt/handlers/float.h"

enum cmp_bop {
	CMP_PLAIN,
	CMP_AND,
	CMP_OR,
	CMP_XOR
};

/* One bit for each negative byte. */
static inline uint32_t lane_bits(const int8_t *t)
{
#if defined(__AVX2__)
	return (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const void *)t));
#else
	return LANE_BITS(t[i] < 0);
#endif
}

static inline uint32_t cmp_combine(uint32_t bits, uint32_t c, unsigned bop)
{
	return bop == CMP_AND ? bits & c : bop == CMP_OR ? bits | c : bits ^ c;
}

static inline const struct simt_op *cmp_done(struct simt_warp *w,
					     const struct simt_op *op, uint32_t m,
					     uint8_t *r, uint32_t bits)
{
	uint32_t q = ~bits;

	if (unlikely(op->x)) {
		uint32_t c = *SRC(uint32_t, op->c) ^ (op->y ? SIMT_FULL : 0);

		bits = cmp_combine(bits, c, op->x);
		q = cmp_combine(q, c, op->x);
	}
	if (likely(op->d >= 0))
		pred_store(DST(uint32_t, op->d), bits, m);
	if (unlikely(op->e >= 0))
		pred_store(DST(uint32_t, op->e), q, m);
	return op + 1;
}

#endif
