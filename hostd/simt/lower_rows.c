/* SPDX-License-Identifier: Apache-2.0 */
/* Rows for registers. */
#include "simt/lower.h"

int lower_rows(struct lower *l)
{
	const struct ptx_func *f = l->func;

	for (uint32_t i = 0; i < f->nregs; i++) {
		unsigned bits = lower_reg_bits(l, i);

		l->row[i] = l->frame;
		l->frame += bits == 1 ? 64 : (int32_t)bits / 8 * SIMT_WARP;
		if (l->frame > (1 << 24))
			return -12;
	}
	return 0;
}
