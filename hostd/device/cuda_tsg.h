/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-slice groups of this process on the GPU: cuda_tsg.c. Defines ioctl() for the whole
 * process, through which the driver library makes them.
 */
#ifndef WEFT_DEVICE_CUDA_TSG_H
#define WEFT_DEVICE_CUDA_TSG_H

/* So many groups have been given short turns on a copy engine. Any thread. */
unsigned cuda_tsg_slices(void);

/* What ioctl() goes on to; tests put theirs there. */
extern long (*cuda_tsg_kernel)(int fd, unsigned long request, void *arg);

#endif
