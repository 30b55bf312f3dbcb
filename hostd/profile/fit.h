/* SPDX-License-Identifier: Apache-2.0 */
/* From launches of a kernel to lines that predict others of it (hostd/doc/extents.md). */
#ifndef WEFT_PROFILE_FIT_H
#define WEFT_PROFILE_FIT_H

#include <stdio.h>

#include "profile/launch.h"

/*
 * Writes a kernel with a line for each pointer among its parameters: from where to where it reaches
 * from there, as the simplest product of parameters and of the launch's shape that holds for all
 * launches (MSched's templates, table 2: fixed, linear, strided). Where none does, where launches are
 * so few that it may do so by chance, and of a kernel that was launched once, the pointer's
 * allocation counts. A kernel that reached what no parameter
 * points to gets a comment that says so.
 */
void fit_write(FILE *out, const struct kernel *k);

#endif
