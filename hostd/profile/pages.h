/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of managed memory that are not mapped here: the driver unmaps what it moves to the device.
 * (CUPTI's counters of moves lose some: of a kernel that reached 120 pieces of 2 MiB they told 91 to
 * 95 on an H200, this all.)
 */
#ifndef WEFT_PROFILE_PAGES_H
#define WEFT_PROFILE_PAGES_H

#include "profile/launch.h"

#define PAGES_SIZE ((uint64_t)4096) /* of a page, bytes */

/* Adds those between two addresses. 0 or -errno. Any thread. */
int pages_away(const struct span *s, struct spans *ret);

#endif
