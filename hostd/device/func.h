/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of modules, and their launches. */
#ifndef WEFT_DEVICE_FUNC_H
#define WEFT_DEVICE_FUNC_H

#include "device/handles.h"

/* One kernel parameter, as cuFuncGetParamInfo gives it. */
struct dev_param {
	uint32_t offset;
	uint32_t size;
};

/* An attribute of a launch, CU_LAUNCH_ATTRIBUTE_*; value without its event. */
struct dev_launch_attr {
	CUlaunchAttributeID id;
	CUlaunchAttributeValue value;
	struct dev_event *event; /* of the two that name one */
};

#define DEV_LAUNCH_ATTRS_MAX 16

/* Launches that a device may be given at once. */
#define DEV_BATCH_MAX 16

struct ptx_extent;

struct dev_launch {
	struct dev_func *func;
	unsigned grid[3], block[3];
	unsigned cluster[3];   /* 0,0,0: none, or what the function was compiled with */
	unsigned shared_bytes; /* dynamic shared memory */
	bool cooperative;
	/* Number that device_config.ran() gets when it has run; 0: nobody asks. */
	uint32_t traced;
	/* Others than cluster and cooperative. A device may ignore hints; an event has to
	 * be recorded, at the latest when the kernel has ended. */
	const struct dev_launch_attr *attrs;
	unsigned n_attrs;   /* at most DEV_LAUNCH_ATTRS_MAX */
	uint32_t track;     /* for ran(), likewise */
	/* Where it reaches memory, for whoever keeps count of that; NULL: nobody knows. */
	const struct ptx_extent *extent;
	const void *params; /* the parameter buffer as the kernel sees it */
	size_t params_size; /* exactly to the end of the last parameter */
};

struct device_func_ops {
	CUresult (*attribute)(struct dev_func *f, CUfunction_attribute attr,
			      int *ret_value);
	CUresult (*set_attribute)(struct dev_func *f, CUfunction_attribute attr,
				  int value);
	/* CUDA_ERROR_INVALID_VALUE past the last parameter. */
	CUresult (*param)(struct dev_func *f, unsigned index, struct dev_param *ret_p);
	CUresult (*occupancy)(struct dev_func *f, int block_size, size_t shared_bytes,
			      unsigned flags, int *ret_blocks);
	/* How many clusters of a launch as l run at once; or, largest, the most blocks
	 * that its cluster could have. l->params is not looked at. */
	CUresult (*clusters)(struct dev_func *f, const struct dev_launch *l, bool largest,
			     int *ret_n);
	/* Never waits for the kernel; may wait for room in the stream's queue. */
	CUresult (*launch)(struct dev_ctx *ctx, struct dev_stream *st,
			   const struct dev_launch *l);
	/*
	 * Launches the first ones of n launches (at most DEV_BATCH_MAX), neither
	 * cooperative nor with a cluster or attributes, at once. Returns how many, 0 to
	 * n; the others are the caller's to launch: launch() says what is wrong with one.
	 * NULL: 0.
	 */
	unsigned (*launch_batch)(struct dev_ctx *ctx, struct dev_stream *st,
				 const struct dev_launch *l, unsigned n);
};

#endif
