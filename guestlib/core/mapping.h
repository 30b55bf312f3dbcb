/* SPDX-License-Identifier: Apache-2.0 */
/* The program's address space, as the kernel describes it. */
#ifndef WEFT_GUEST_MAPPING_H
#define WEFT_GUEST_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

/* True if all of [start, end) is private anonymous memory, readable and writable, and no
 * part of it the first thread's stack. Any thread. */
bool mapping_plain(uintptr_t start, uintptr_t end);

#endif
