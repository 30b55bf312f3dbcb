/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_DEVICE_CUDA_REACH_H
#define WEFT_DEVICE_CUDA_REACH_H

#include <cuda.h>

/*
 * Whether kernels may address all memory of their process, which the driver allows with
 * HMM or ATS: a guest's kernel could then read and write its worker's stack, heap and
 * code. Returns 0 where they may not, -EPERM (and logs what to do) where they may or the
 * driver does not tell. Needs the driver loaded.
 */
int cuda_reach_check(CUdevice dev);

#endif
