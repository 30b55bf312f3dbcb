/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about the program's address space. */
#ifndef WEFT_GUEST_MAPPING_H
#define WEFT_GUEST_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether all of [start, end) is private anonymous memory, readable and writable, of
 * which nothing is the first thread's stack. Any thread. */
bool mapping_plain(uintptr_t start, uintptr_t end);

#endif
