/* SPDX-License-Identifier: Apache-2.0 */
/* The variables by which programs of a guest draw on the host: Mesa's, in a file that systemd's
 * user managers and login shells read. */
#ifndef WEFT_GUEST_GL_ENVIRONMENT_H
#define WEFT_GUEST_GL_ENVIRONMENT_H

#include <stdbool.h>

/* Writes the file, in whose place there is none or an older one; or, if there is nothing that
 * draws, removes it. Returns 0 or -errno. */
int environment_write(const char *path, bool draws);

#endif
