/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a profile: what is foretold of kernels, and the launches that it comes from. */
#ifndef WEFT_PROFILE_KEEP_H
#define WEFT_PROFILE_KEEP_H

#include "profile/launch.h"

/* Adds launches to those in the file `path`.launches, and writes `path` from all of them. Several
 * processes may do so at once. 0, -EINVAL (there is something else in it) or -errno; a message has
 * been printed. */
int keep_launches(const char *path, struct kernels *own);

#endif
