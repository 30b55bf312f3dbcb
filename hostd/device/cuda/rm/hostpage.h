/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of host memory that the GPU reaches. The driver library leaves their size to the
 * kernel, which makes them of 4 KiB: 2,048 entries in the GPU's page table for 8 MiB. In
 * pages of 2 MiB access to 8 MiB is set in 50 us instead of 102 to 141, and giving it
 * back takes 21 to 41 instead of 140 to 242 (driver 580, H200;
 * hostd/doc/decisions/0006-host-pages.md).
 */
#ifndef WEFT_DEVICE_CUDA_HOSTPAGE_H
#define WEFT_DEVICE_CUDA_HOSTPAGE_H

#include <stdbool.h>

#include "device/cuda/rm/rm.h"

/* Says that host memory which the calling thread's calls make the driver library ask for
 * may lie in large pages, until it is switched off. */
void cuda_hostpage_large(bool on);

/* The driver library asks for host memory. It is had in the largest pages that the kernel
 * has enough of, as asked for if it has none. Sizes that it had none of are left alone
 * for ten seconds. Any thread. */
long cuda_hostpage_alloc(int fd, unsigned long request, struct rm_alloc *a);

/* Bytes had in pages of 2 MiB since the process began. Any thread. */
uint64_t cuda_hostpage_huge(void);

#endif
