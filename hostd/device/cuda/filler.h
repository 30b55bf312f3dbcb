/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the device's time and does nothing with it (device_ops.filler). */
#ifndef WEFT_DEVICE_CUDA_FILLER_H
#define WEFT_DEVICE_CUDA_FILLER_H

#include <stdbool.h>

struct dev_ctx;

/* As device_ops.filler. */
bool cuda_filler(struct dev_ctx *ctx, bool on);

#endif
