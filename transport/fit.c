/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fit.h"

bool fit_is_known(const void *body, uint32_t have, uint32_t fixed)
{
	const uint8_t *p = body;
	uint8_t any = 0;

	for (; fixed < have; fixed++)
		any |= p[fixed];
	return !any;
}

uint32_t fit_body(void *room, const void *body, uint32_t size, uint32_t have,
		  uint32_t fixed)
{
	uint32_t same = have < fixed ? have : fixed;
	const uint8_t *from = body;
	uint8_t *to = room;

	/* Parts that move up go first, parts that move down last: all is read in time. */
	if (fixed > have)
		memmove(to + fixed, from + have, size - have);
	memmove(to, from, same);
	if (fixed <= have)
		memmove(to + fixed, from + have, size - have);
	memset(to + same, 0, fixed - same);
	return size - have + fixed;
}
