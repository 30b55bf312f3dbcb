/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions of kernels beside what these reached. */
#ifndef WEFT_PROFILE_COMPARE_H
#define WEFT_PROFILE_COMPARE_H

#include "profile/launch.h"

/* Counts a launch. e may be NULL: of such a kernel all allocations that its parameters name are
 * taken, as a worker does. 0 or -ENOMEM. */
int compare_launch(const struct ptx_extent *e, const struct launch *l,
		   struct compared *c);

#endif
