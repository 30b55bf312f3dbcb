/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded code of the real GPU: what cuda_module.c, cuda_func.c and cuda_launch.c share.
 */
#ifndef WEFT_DEVICE_CUDA_MODULE_H
#define WEFT_DEVICE_CUDA_MODULE_H

#include "device/cuda_device.h"

#define CUDA_FUNC_BUCKETS 64 /* a power of two */

struct dev_func {
	struct dev_func *next; /* in its bucket of dev_module.funcs */
	struct dev_module *mod;
	CUfunction cu;
	const char *name; /* the driver's */
	size_t params_size;
};

/* A CUmodule, or a CUlibrary, whose code the driver loads piece by piece. */
struct dev_module {
	struct dev_ctx *ctx;
	struct list link;
	CUmodule cu;
	CUlibrary lib;  /* then cu is NULL */
	uint64_t bytes; /* of device memory, about */
	/* Under the device's lock: functions met so far, and those by index, once asked.
	 */
	struct dev_func *funcs[CUDA_FUNC_BUCKETS];
	struct dev_func **order;
	unsigned n_order;
	struct range_set globals; /* that cuda_module_global() has made known */
};

/*
 * Checks all parts of an image: *ret_n of them, *ret_linked if the first one is the
 * linked form of the others.
 */
bool cuda_image_ok(const void *image, size_t size, unsigned *ret_n, bool *ret_linked);

#endif
