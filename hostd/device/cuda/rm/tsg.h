/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-slice groups: the channels of a process that share an engine take turns with those
 * of others, 1,024 us each on a copy engine (driver 580, H200). That is also how long the
 * driver itself waits there before it can set access to memory, and how long anybody's
 * copy of 4 KiB waits behind another process's copy of 1 GiB. In slices of 50 us the
 * former takes 56 us instead of 927, the latter 59 instead of 1,056; two processes that
 * copy the same way share 53.6 GB/s instead of 55.1, one alone loses nothing
 * (hostd/doc/decisions/0005-short-turns.md).
 *
 * The groups that compute take turns likewise, 2,048 us each by default, and each turn
 * preempts whatever code runs (hostd/doc/decisions/0021-slices.md).
 *
 * A group belongs to who made it, and may be told its slice by him.
 */
#ifndef WEFT_DEVICE_CUDA_TSG_H
#define WEFT_DEVICE_CUDA_TSG_H

#include <stdbool.h>

#include "device/cuda/rm/rm.h"

#define CUDA_TSG_COPY_US 50u

/* Slice of the groups that compute, by default. */
#define CUDA_TSG_COMPUTE_US 2048u

/* The driver library has made a group: if it is one of a copy engine it gets its slice,
 * and if it is one that computes, that of the others. If the kernel does not let it, it
 * keeps the slice that it has. Any thread. */
void cuda_tsg_made(int fd, const struct rm_alloc *group);

/* Returns how many groups have been given short turns on a copy engine. Any thread. */
unsigned cuda_tsg_slices(void);

/* Gives all groups that compute a slice in microseconds, and those that are made later.
 * False: there are none, or the kernel does not let any of them. 0.15 to 0.35 ms for each.
 * Any thread. */
bool cuda_tsg_compute(uint64_t us);

#endif
