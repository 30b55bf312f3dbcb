/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of Weft as the two ends of a session tell each other: "0.1.0". */
#ifndef WEFT_RELEASE_H
#define WEFT_RELEASE_H

#include <stdlib.h>

#define RELEASE_TEXT 16 /* bytes, with the NUL */

/* Less than, equal to, or more than 0 as a is older than b, as old, or newer. What is no
 * number counts as 0. */
static inline int release_compare(const char *a, const char *b)
{
	for (unsigned i = 0; i < 3; i++) {
		char *a_end, *b_end;
		unsigned long x = strtoul(a, &a_end, 10), y = strtoul(b, &b_end, 10);

		if (x != y)
			return x < y ? -1 : 1;
		a = a_end + (*a_end == '.');
		b = b_end + (*b_end == '.');
	}
	return 0;
}

#endif
