/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mask of the TPCs that kernels of this process run on, those of libraries included. The
 * descriptor of a launch (QMD) has a bit for each TPC that must not have it; the driver
 * lets a debugger look at each descriptor before it goes to the device, and so do we
 * (hostd/doc/decisions/0022-tpc-sets.md). A descriptor that is there already stays as it is:
 * work under way, and graphs, which keep theirs.
 */
#ifndef WEFT_DEVICE_CUDA_MASK_H
#define WEFT_DEVICE_CUDA_MASK_H

#include <stdbool.h>
#include <stdint.h>

/* Has kernels run on the TPCs with these bits, in the device's own numbers, from the next
 * launch on; NULL: on all. False: the driver, or its descriptors, are of another kind.
 * Any thread. */
bool cuda_mask_set(const uint64_t bits[2]);

/* The bits that were set last; false: all. Any thread. */
bool cuda_mask_get(uint64_t ret_bits[2]);

/* From now on some launches will be kept to less than that. False as above. Any thread. */
bool cuda_mask_need(void);
/* Has this thread's launches run on those TPCs only, which the mask has as well, until it is
 * called with NULL. */
void cuda_mask_only(const uint64_t bits[2]);

/* Another number after each change: who keeps descriptors makes them anew then. Any
 * thread. */
unsigned cuda_mask_turn(void);

#endif
