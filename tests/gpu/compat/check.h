/* SPDX-License-Identifier: Apache-2.0 */
/* For programs in C that end with the first call which does not give 0; check.py is Python's. */
#ifndef WEFT_COMPAT_CHECK_H
#define WEFT_COMPAT_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                      \
	do {                                                                             \
		int check_r = (int)(call);                                               \
		if (check_r) {                                                           \
			printf("FAIL %s:%d: %s gave %d\n", __FILE__, __LINE__, #call,    \
			       check_r);                                                 \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

#endif
