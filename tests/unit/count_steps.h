/* SPDX-License-Identifier: Apache-2.0 */
/* Before all else in every source of a test: each element of a list that is visited is a
 * step. */
#ifndef WEFT_TEST_COUNT_STEPS_H
#define WEFT_TEST_COUNT_STEPS_H

#include "base/list.h"

extern unsigned long steps;

#undef list_for_each
#undef list_for_each_safe

#define list_for_each(pos, head, member)                                                 \
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member);               \
	     &(pos)->member != (head) && ++steps;                                        \
	     (pos) = list_entry((pos)->member.next, __typeof__(*(pos)), member))

#define list_for_each_safe(pos, tmp, head, member)                                       \
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member),               \
	    (tmp) = list_entry((pos)->member.next, __typeof__(*(pos)), member);          \
	     &(pos)->member != (head) && ++steps; (pos) = (tmp),                         \
	    (tmp) = list_entry((pos)->member.next, __typeof__(*(pos)), member))

#endif
