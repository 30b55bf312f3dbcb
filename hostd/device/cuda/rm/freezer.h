/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channels of this process that compute, taken off the GPU and kept off it: whatever kernels
 * run there stand still at any instruction, and go on later where they were
 * (hostd/doc/decisions/0039-kernels-that-stand-still.md).
 */
#ifndef WEFT_DEVICE_CUDA_FREEZER_H
#define WEFT_DEVICE_CUDA_FREEZER_H

#include <stdbool.h>

#include "device/cuda/rm/rm.h"

/* The driver library has made a device, a group of channels that compute, or a channel; or has
 * freed one of them. Any thread. */
void cuda_freezer_saw_device(int fd, const struct rm_alloc *subdevice);
void cuda_freezer_saw_group(int fd, const struct rm_alloc *group);
void cuda_freezer_saw_channel(int fd, const struct rm_alloc *channel);
void cuda_freezer_freed(uint32_t client, uint32_t object);

/* Takes them off, 0.4 ms on an H200 and longer while kernels have much memory under way. False:
 * there are none, or too many, or the kernel does not let them; nothing has changed. */
bool cuda_freezer_freeze(void);
/* Puts back what freeze() has taken off, 0.2 ms. */
void cuda_freezer_thaw(void);

#endif
