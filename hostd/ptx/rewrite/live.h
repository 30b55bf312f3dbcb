/* SPDX-License-Identifier: Apache-2.0 */
/* Registers whose value is still read (liveness, as a fixed point over basic blocks). */
#ifndef WEFT_PTX_LIVE_H
#define WEFT_PTX_LIVE_H

#include "ptx/ptx.h"

/* Sets, for each of n instructions, the bits of the registers that are alive before it; bit nregs is
 * the carry flag. *ret has n rows of ptx_live_words(f) words, the caller's to free. Returns 0,
 * -ENOMEM, or -E2BIG: the function is too large. */
int ptx_live(const struct ptx_module *m, const struct ptx_func *f, const uint32_t *at,
	     uint32_t n, uint64_t **ret);
size_t ptx_live_words(const struct ptx_func *f);

static inline bool ptx_is_live(const uint64_t *row, uint32_t reg)
{
	return row[reg / 64] >> (reg % 64) & 1;
}

#endif
