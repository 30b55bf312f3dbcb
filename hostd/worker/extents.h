/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's file of where kernels reach memory. */
#ifndef WEFT_WORKER_EXTENTS_H
#define WEFT_WORKER_EXTENTS_H

#include <stddef.h>

/* Returns its text, up to a byte more than 1 MiB, which is too long. NULL: it cannot be read, which is
 * logged. The caller's. Before the sandbox. */
char *extents_read(const char *path, size_t *ret_size);

#endif
