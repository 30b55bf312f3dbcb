/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels' printf, caught where the driver writes it. */
#ifndef WEFT_DEVICE_CUDA_OUTPUT_H
#define WEFT_DEVICE_CUDA_OUTPUT_H

#include "device/cuda/device.h"

void cuda_output_open(struct device *dev);
void cuda_output_close(struct device *dev);
/* Hands on what was printed since; no lock may be held. */
void cuda_output_flush(struct device *dev);

/* True if code in an image of the guest's could print, on this GPU. */
bool cuda_image_prints(const struct device *dev, const void *image, size_t size);

/* Flushes printed output if a kernel of the context can have printed. */
static inline void cuda_output_look(struct dev_ctx *ctx)
{
	if (atomic_load_explicit(&ctx->may_print, memory_order_relaxed))
		cuda_output_flush(ctx->dev);
}

#endif
