/* SPDX-License-Identifier: Apache-2.0 */
/* Functions' attributes, and launches, one by one or in batches. */
#ifndef WEFT_DEVICE_CUDA_LAUNCH_H
#define WEFT_DEVICE_CUDA_LAUNCH_H

#include "device/cuda/device.h"

/* launch.c */
CUresult cuda_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value);
CUresult cuda_func_set_attribute(struct dev_func *f, CUfunction_attribute attr,
				 int value);
CUresult cuda_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p);
CUresult cuda_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks);
CUresult cuda_func_clusters(struct dev_func *f, const struct dev_launch *l, bool largest,
			    int *ret_n);
/* All attributes of a launch; room for DEV_LAUNCH_ATTRS_MAX + 2. How many there are. */
unsigned cuda_launch_attrs(CUlaunchAttribute *to, const struct dev_launch *l);
CUresult cuda_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l);

/* batch.c */
unsigned cuda_launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			   const struct dev_launch *l, unsigned n);
/* Forgets the code that batches were launched with, before any of it is unloaded, and the
 * limits that they were made for. What is under way goes on. */
void cuda_batches_drop(struct dev_ctx *ctx);

/* SMs that a launch wants at once. */
struct cuda_fit {
	unsigned sms;     /* in all; 0: whatever there is */
	unsigned cluster; /* of one GPC */
};

CUresult cuda_fit_of(const struct dev_launch *l, struct cuda_fit *ret_fit);
/* Whether the TPCs have that: else CUDA's error for a device that has not. It would wait
 * for ever. */
CUresult cuda_fits(const struct device *dev, const struct cuda_fit *fit);

#endif
